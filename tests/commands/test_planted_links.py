"""Links that came with a Git directory: nothing behind one is written, created or chmod-ed."""

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gitshadow.cli import main
from gitshadow.errors import StoreError
from gitshadow.ipc import hook
from gitshadow.store import safe_files
from tests.support.repo import Repo
from tests.support.studio import layout_of

_PLACES = (
    "",
    "wt",
    "wt/main",
    "wt/main/lock",
    "wt/main/sock",
    "wt/main/sock.new",
    "wt/main/stamp",
    "spool",
    "reports",
    "sagas",
    "machines",
    "packing",
    "packing.lock",
    "packed",
    "journal.db",
    "log",
    "missed",
    "daemon-off",
    "fetched",
    "journal.db.new",
    "journal.db.before-reindex-1",
)
_VERBS = (
    ("init",),
    ("flush",),
    ("exec", "--agent", "maker", "--", "sh", "-c", "echo 1 >>made"),
    ("log",),
    ("pack",),
    ("saga", "log"),
    ("oops", "--yes"),
    ("doctor", "--fix"),
    ("reindex",),
    ("status",),
)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    place = tmp_path / "victim"
    place.mkdir()
    return place


def look(top: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return mode, time and bytes of everything there."""
    found = [top, *sorted(top.rglob("*"))]
    return {
        str(path): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            b"" if path.is_dir() else path.read_bytes(),
        )
        for path in found
    }


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")


@pytest.mark.parametrize("kind", ["directory", "file", "nothing"])
@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.sampled
def test_nothing_behind_a_planted_link_is_touched(
    repo: Repo,
    victim: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    place: str,
    kind: str,
) -> None:
    target = victim / "target"
    if kind == "directory":
        target.mkdir(0o755)
        (target / "kept").write_bytes(b"theirs\n")
    elif kind == "file":
        target.write_bytes(b"theirs\n")
    link = repo.state_dir / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    before = look(victim)
    repo.damaged = True
    monkeypatch.chdir(repo.root)
    for verb in _VERBS:
        main(list(verb))
        said = capfd.readouterr()
        assert "internal" not in said.out + said.err, verb
        assert "error" not in said.err or "hint: " in said.err, (verb, said.err)
    _hook(repo, monkeypatch)
    assert look(victim) == before


def _hook(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver a hook as its program does, and have one left in the spool."""
    payload = {
        "hook_event_name": "SessionStart",
        "session_id": "s",
        "cwd": str(repo.root),
    }
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    reading, writing = os.pipe()
    os.write(writing, json.dumps(payload).encode())
    os.close(writing)
    kept = os.dup(0)
    os.dup2(reading, 0)
    try:
        assert hook.main(["claude-code"], _refusing) == 0
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reading)
    assert layout_of(repo).root


def _refusing(*_: object) -> bytes:
    raise OSError("cannot take it")


def test_hint_can_be_typed_when_the_path_of_a_planted_link_has_spaces(
    tmp_path: Path, victim: Path
) -> None:
    repo = Repo.create(tmp_path / "my work; $(touch x)")
    repo.state_dir.symlink_to(victim)
    repo.damaged = True
    with pytest.raises(StoreError) as caught:
        safe_files.make_dir(layout_of(repo), "wt")
    command = (caught.value.hint or "").partition(": ")[2]
    assert shlex.split(command) == ["rm", str(repo.state_dir)]
    subprocess.run(["sh", "-c", command], check=True, cwd=victim)
    assert not repo.state_dir.exists()
    assert [*victim.iterdir()] == []
