"""kill -9 before every command of an undo of a whole turn, and what the next process makes of it.

The recorder's own steps are killed in tests/undo; here the process ends between two commands of
the core, among them right before and right after the files were taken back.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from gitshadow.maintenance import setup
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.service.client import answer
from tests.sdk.turns.fused import killed_at
from tests.sdk.turns.recorded import with_files
from tests.sdk.turns.world import World, registry
from tests.support.repo import Repo
from tests.support.studio import layout_of

_FREE = Policy(non_reversible="allow")
_BEFORE_ROLLBACK = 40
"""A command of a failing turn that still works. `test_kill.py` has the kills before it."""


def opened(root: Path) -> AgentUndo:
    """Open the session on a repository with a world in its parent directory."""
    tools = registry(World(root.parent / "world"))
    with_files(tools, root, coroutines=False)
    return AgentUndo.open(str(root), session="s", tools=tools, policy=_FREE)


def ops(root: Path) -> list[object]:
    """Return the recorded ops that changed files, newest first."""
    rows = answer(layout_of(Repo(root)), "ops", {"cwd": str(root)})["rows"]
    assert isinstance(rows, list)
    return [row["id"] for row in rows if row["status"] == "done"]


@pytest.fixture
def place(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a recorded repository in which a turn has done a bit of everything."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    setup.initialise(layout_of(repo), os.environ, force=True)
    World.make(repo.root.parent / "world")
    return repo.root


def busy_turn(au: AgentUndo, *, fails: bool = False) -> None:
    """Run a turn with an effect, a state and two files; it is rolled back if it fails."""
    with au.turn("go") as turn:
        turn.call("draft.create", {"title": "x"})
        turn.set_state({"k": 1})
        turn.call("shell.run", {"path": "new", "text": "agent\n"})
        turn.call("shell.run", {"path": "a", "text": "agent\n"})
        if fails:
            turn.cancel()


def copies(
    root: Path, act: Callable[[AgentUndo], object], first: int = 1
) -> Iterator[Path]:
    """Yield a place for each command of an action from one on, killed before that command."""
    above = root.parent
    for number in count(first):
        copy = above.with_name(f"{above.name}-{number}")
        shutil.copytree(above, copy, symlinks=True)
        was_killed = killed_at(partial(opened, copy / root.name), act, number)
        if was_killed:
            yield copy / root.name
        shutil.rmtree(copy)
        if not was_killed:
            return


def check_undone(root: Path, au: AgentUndo, before: bytes) -> None:
    """Check that all of the turn is taken back, each thing once."""
    world = World(root.parent / "world")
    assert (root / "a").read_bytes() == before
    assert not (root / "new").exists()
    assert (au.state, world.state["drafts"]) == ({}, {})
    assert len(ops(root)) == 1
    keys = [key for name, key in world.calls if name == "undo:draft"]
    assert len(set(keys)) == 1
    assert au.verify() is None


@pytest.mark.timeout(240)
def test_a_kill_in_any_phase_of_an_undo_is_finished_by_recover(place: Path) -> None:
    """AN-09, ENG-07: one op, every domain; nothing is taken back twice, the report is whole."""
    before = (place / "a").read_bytes()
    with closing(opened(place)) as au:
        busy_turn(au)
    finished = 0
    for root in copies(place, lambda au: au.undo("t-1")):
        with closing(opened(root)) as au:
            reports = au.recover()
            finished += len(reports)
            report = reports[0] if reports else au.undo("t-1")
            domains = [item.domain.value for item in report.items]
            assert domains.count("files") == 2
            assert report.status == "reversed"
            assert [item.state for item in report.items if item.path] == [
                "reversed"
            ] * 3
            check_undone(root, au, before)
            assert ops(root) == [report.op_id]
            assert au.recover() == []
            assert au.undo("t-1").status == "nothing_to_do"
    assert finished > 15


@pytest.mark.timeout(240)
def test_a_kill_in_a_rollback_gives_files_and_state_back_too(place: Path) -> None:
    """AN-09: a turn that lost its process in its rollback is rolled back whole by `recover`."""
    before = (place / "a").read_bytes()
    was_in_it: list[bool] = []
    for root in copies(place, partial(busy_turn, fails=True), first=_BEFORE_ROLLBACK):
        with closing(opened(root)) as au:
            was_in_it.append(bool(au.recover()))
            if not was_in_it[-1]:
                continue
            assert au.turns()[0].status == "rolled_back"
            check_undone(root, au, before)
    assert not was_in_it[0]  # so none of its commands was left out
    assert sum(was_in_it) > 8


@pytest.mark.timeout(240)
def test_a_kill_in_a_redo_is_finished_by_recover(place: Path) -> None:
    """AN-23: files and state come forward once, whoever brings them."""
    with closing(opened(place)) as au:
        busy_turn(au)
        undone = au.undo("t-1")
    assert undone.op_id is not None
    for root in copies(place, lambda au: au.redo(undone.op_id or "")):
        with closing(opened(root)) as au:
            if not au.recover():
                au.redo(undone.op_id)
            assert (root / "a").read_bytes() == b"agent\n"
            assert (root / "new").read_bytes() == b"agent\n"
            assert au.state == {"k": 1}
            assert len(ops(root)) == 2
            assert World(root.parent / "world").state["drafts"] == {}
