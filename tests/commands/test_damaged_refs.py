"""Refs that are cut short or zeroed on the disk: plain words, a remedy, and no hook fails."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.cli import main
from gitshadow.store.journal import meta
from tests.commands.test_damaged_journal import VERBS
from tests.support.kinds import only_on
from tests.support.repo import Repo
from tests.support.shadow import COMMAND
from tests.support.studio import studio_of

_CHANGING = (
    ("oops", "--yes"),
    ("undo", "2", "--yes"),
    ("pin", "now"),
    ("pack",),
    ("prune", "--all", "--yes"),
    ("doctor", "--fix"),
    ("reindex",),
)


# What a power cut or a bad disk leaves of the newest table, or of the list of tables.
_TABLES: dict[str, Callable[[Path, Path], object]] = {
    "list cut short": lambda names, _: os.truncate(names, names.stat().st_size - 9),
    "list emptied": lambda names, _: os.truncate(names, 0),
    "table cut short": lambda _, table: os.truncate(table, table.stat().st_size - 9),
    "table zeroed": lambda _, table: table.write_bytes(bytes(table.stat().st_size)),
    "table gone": lambda _, table: table.unlink(),
}


def broken(packed: bytes, how: str) -> bytes:
    """Return a `packed-refs` as a power cut or a bad disk leaves it."""
    lines = packed.splitlines(keepends=True)
    if how == "cut short":
        return packed[:-9]
    if how == "zeroed":
        return bytes(len(packed))
    return b"".join([*lines[:1], lines[1][:30] + b"\n", *lines[2:]])


@pytest.fixture
def session(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> str:
    """Stand in a repository in which an agent wrote a file; return its session."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    monkeypatch.chdir(repo.root)
    with studio_of(repo) as studio:
        studio.write("S1", "a", "agent\n")
        studio.stop("S1")
        return studio.session("S1")


def every_verb_says(
    repo: Repo, session: str, capfd: pytest.CaptureFixture[str], words: str
) -> None:
    """Check that each verb succeeds or says these words, and that no hook fails."""
    for verb in (*VERBS, *_CHANGING, ("expose", session)):
        code = main(list(verb))
        said = capfd.readouterr()
        assert "internal" not in said.out + said.err, verb
        assert code == 0 or words in said.out + said.err, verb
    assert session_begins(repo) == 0


@only_on(refs="files", reason="damages packed-refs")
@pytest.mark.parametrize("how", ["cut short", "zeroed", "a broken line"])
def test_packed_refs_that_cannot_be_read_are_named_with_a_remedy(
    repo: Repo, session: str, capfd: pytest.CaptureFixture[str], how: str
) -> None:
    """Nobody but the user changes the file, and no file is undone meanwhile."""
    repo.git("pack-refs", "--all")
    packed = repo.common_dir / "packed-refs"
    whole = packed.read_bytes()
    packed.write_bytes(broken(whole, how))
    torn, files = packed.read_bytes(), repo.tree_snapshot()
    every_verb_says(repo, session, capfd, "remove its broken lines")
    assert packed.read_bytes() == torn
    assert repo.tree_snapshot() == files
    packed.write_bytes(whole)
    capfd.readouterr()
    assert main(["oops", "--yes"]) == 0
    assert repo.read("a") != b"agent\n"


@pytest.mark.kinds("sha1-reftable", "sha256-reftable")
@pytest.mark.parametrize("how", _TABLES)
def test_reftable_that_cannot_be_read_is_named(
    repo: Repo, session: str, capfd: pytest.CaptureFixture[str], how: str
) -> None:
    """Git itself finds no refs then and says nothing; nobody concludes that there are none."""
    tables = repo.common_dir / "reftable"
    whole = {one: one.read_bytes() for one in tables.iterdir()}
    names = tables / "tables.list"
    refs = repo.git("for-each-ref")
    _TABLES[how](names, tables / names.read_text().split()[-1])
    torn, files = table_bytes(tables), repo.tree_snapshot()
    every_verb_says(repo, session, capfd, "reftable")
    assert table_bytes(tables) == torn
    assert repo.tree_snapshot() == files
    for one, data in whole.items():
        one.write_bytes(data)
    assert repo.git("for-each-ref") == refs
    capfd.readouterr()
    assert main(["oops", "--yes"]) == 0
    assert repo.read("a") != b"agent\n"


def table_bytes(tables: Path) -> dict[str, bytes]:
    """Return every file of a directory of reftables, by name."""
    return {one.name: one.read_bytes() for one in tables.iterdir()}


@only_on(refs="files", reason="damages packed-refs")
def test_refs_that_packed_refs_lost_with_the_power_come_back_from_the_journal(
    repo: Repo, session: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once the user has removed the line that was cut short."""
    with studio_of(repo) as studio, studio.context.workspace.db.write():
        meta.put(studio.context.workspace.db, "boot_id", "another")
    (ours,) = [ref for ref in repo.shadow_refs() if "claude-code" in ref]
    tip = repo.shadow_refs()[ours]
    repo.git("pack-refs", "--all")
    packed = repo.common_dir / "packed-refs"
    lines = packed.read_bytes().splitlines(keepends=True)
    others = [line for line in lines if b" refs/agent-undo/" not in line]
    packed.write_bytes(b"".join([*others, b"0123456789"]))
    assert main(["flush"]) == 1
    assert "remove its broken lines" in capfd.readouterr().err
    packed.write_bytes(b"".join(others))
    assert main(["flush"]) == 0
    assert repo.shadow_refs()[ours] == tip
    assert main(["oops", "--yes"]) == 0
    assert repo.read("a") != b"agent\n"


def session_begins(repo: Repo) -> int:
    """Deliver a hook as an agent does; return its exit code."""
    payload = {"session_id": "S2", "cwd": str(repo.root)}
    event = json.dumps({**payload, "hook_event_name": "SessionStart"})
    command = [COMMAND, "hook", "claude-code"]
    done = subprocess.run(command, input=event.encode(), cwd=repo.root, check=False)
    return done.returncode
