"""What the history costs, counted while Git tidies up."""

import os
import threading
from pathlib import Path

from gitshadow.messages.storage import DiskFigures
from gitshadow.store.disk import disk


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
        found = [disk(str(state), str(tmp_path)) for _ in range(300)]
    finally:
        done.set()
        tidying.join()
    assert all(one == DiskFigures(loose=0, packed=1, bytes=4) for one in found)
