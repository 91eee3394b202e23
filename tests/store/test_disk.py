"""What the history costs, counted while Git tidies up."""

import os
import threading
import time
from pathlib import Path

import pytest

from gitshadow.messages.storage import DiskFigures
from gitshadow.store.disk import LooseObjects, disk


def test_disk_is_counted_while_directories_come_and_go(tmp_path: Path) -> None:
    """KEEP-01: `git gc` removes object directories while `status` counts them."""
    objects, state = tmp_path / "objects", tmp_path / "agent-undo"
    (objects / "pack").mkdir(parents=True)
    (objects / "pack" / "one.pack").write_bytes(b"")
    state.mkdir()
    (state / "journal.db").write_bytes(b"1234")
    done = threading.Event()

    def tidy() -> None:
        while not done.is_set():
            for number in range(64):
                (objects / f"{number:02x}").mkdir()
                (state / f"{number}.json").write_bytes(b"")
            for number in range(64):
                os.rmdir(objects / f"{number:02x}")
                os.unlink(state / f"{number}.json")

    tidying = threading.Thread(target=tidy)
    tidying.start()
    try:
        loose = LooseObjects(str(objects))
        found = [disk(str(state), str(tmp_path), loose) for _ in range(300)]
    finally:
        done.set()
        tidying.join()
    assert all(one == DiskFigures(loose=0, packed=1, bytes=4) for one in found)


@pytest.mark.parametrize("settled", [True, False])
def test_loose_objects_are_counted_anew_where_one_came_or_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled: bool
) -> None:
    """LAW-05: also within the tick of the file system's clock in which they were counted."""
    ahead_ns = 60 * 10**9 if settled else 0
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + ahead_ns)
    loose = LooseObjects(str(tmp_path))
    (tmp_path / "00").mkdir()
    (tmp_path / "pack").mkdir()
    found = [loose.count()]
    for number in range(50):
        (tmp_path / "00" / f"{number:038x}").touch()
        if settled:
            # Longer than a tick, after which the directory has another ctime.
            time.sleep(0.02)
        found.append(loose.count())
    (tmp_path / "00" / f"{0:038x}").unlink()
    assert [*found, loose.count()] == [*range(51), 49]


def test_directory_without_change_is_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "00").mkdir()
    (tmp_path / "00" / f"{0:038x}").touch()
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 60 * 10**9)
    loose = LooseObjects(str(tmp_path))
    listed: list[str] = []
    real = os.listdir

    def listing(path: str) -> list[str]:
        listed.append(path)
        return real(path)

    monkeypatch.setattr(os, "listdir", listing)
    assert [loose.count(), loose.count()] == [1, 1]
    assert listed.count(str(tmp_path / "00")) == 1
