"""kill -9 before every single command of a turn and of an undo, and what the next process finds.

The process is killed between two commands of the core, which is every place where the journal and
the world can disagree: after the intent, after the tool, after the inverse, before the outcome.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.store.journal.saga_rows import SagaCall
from tests.sdk.turns.fused import killed_at
from tests.sdk.turns.world import World, registry

_FREE = Policy(non_reversible="allow")


def opened(root: Path) -> AgentUndo:
    """Open the session on a world that lies beside its journal."""
    tools = registry(World(root / "world"))
    return AgentUndo.open(str(root), session="s", tools=tools, policy=_FREE)


def turn_of_three(au: AgentUndo) -> None:
    """Run a turn with two calls that can be taken back and one that cannot."""
    with au.turn("go") as turn:
        turn.call("draft.create", title="a")
        turn.call("mail.send", to="x")
        turn.call("card.charge", amount=5)


def turn_that_fails(au: AgentUndo) -> None:
    """Run a turn that is rolled back."""
    with au.turn("go") as turn:
        turn.call("draft.create", title="a")
        turn.call("card.charge", amount=5)
        turn.cancel()


def copies(place: Path, act: Callable[[AgentUndo], object]) -> list[Path]:
    """Return a place for each command of an action, killed before that command."""
    found: list[Path] = []
    while True:
        copy = place.with_name(f"kill-{len(found) + 1}")
        shutil.copytree(place, copy)
        if not killed_at(partial(opened, copy), act, len(found) + 1):
            return found
        found.append(copy)


def after_kills(places: Iterable[Path]) -> Iterator[tuple[World, AgentUndo]]:
    """Yield each world, and the session as the next process opens it."""
    for place in places:
        with closing(opened(place)) as au:
            yield World(place / "world"), au


def check(world: World, report: UndoReport) -> None:
    """Check that every forward call was taken back once or is named, and nothing else is."""
    forward = Counter(name for name in world.names if not name.startswith("undo:"))
    inverse = Counter(name for name, _ in set(world.calls))
    assert inverse["undo:draft"] <= forward["draft.create"]
    assert inverse["undo:card"] <= forward["card.charge"]
    assert set(world.state["refunds"]) <= set(world.state["charges"])
    assert len(world.state["refunds"]) <= 1
    named = {item.tool: item for item in report.items}
    for name in forward:
        assert name in named
    for tool, item in named.items():
        if item.state in ("reversed", "compensated"):
            assert forward[tool] == 1
        if tool == "draft.create" and item.state == "reversed":
            assert world.state["drafts"] == {}
    assert named.get("mail.send") is None or named["mail.send"].state == "not_reversed"


@pytest.fixture
def world(place: Path) -> World:
    """Return a world beside the journal, so that both are copied together."""
    return World.make(place / "world")


@pytest.mark.timeout(180)
def test_a_kill_in_a_turn_leaves_it_interrupted_and_undoable(
    place: Path, world: World
) -> None:
    """AN-01, ENG-08: an intent without an outcome is in doubt, everything else is taken back."""
    places = copies(place, turn_of_three)
    assert len(places) > 20
    doubts = 0
    for there, au in after_kills(places):
        if not au.turns():
            continue
        assert au.recover() == []
        status = au.turns()[0].status
        assert status in ("interrupted", "committed")
        report = au.undo("t-1")
        check(there, report)
        reasons = [item.reason for item in report.items]
        doubts += "in_doubt" in reasons
        assert au.verify() is None
        with au.turn("next") as turn:
            assert turn.call("notes.read", note="n").ok
    assert doubts >= 3


@pytest.mark.timeout(180)
def test_a_kill_in_a_rollback_is_finished_by_recover(place: Path, world: World) -> None:
    """AN-05, ENG-07: what was taken back is not repeated."""
    places = copies(place, turn_that_fails)
    finished = 0
    for there, au in after_kills(places):
        before = {call.id for call in calls_of(au) if call.undo == "done"}
        names = len(there.names)
        reports = au.recover()
        assert au.recover() == []
        # The report of a rollback is written before the end of its turn.
        assert "rolling_back" not in [turn.status for turn in au.turns()]
        if not reports:
            continue
        finished += 1
        assert [report.kind for report in reports] == ["rollback"]
        assert reports[0].ok
        assert au.turns()[0].status == "rolled_back"
        assert there.state["drafts"] == {}
        assert set(there.state["charges"]) == set(there.state["refunds"])
        again = there.names[names:]
        assert not ("t-1.2" in before and "undo:card" in again)
    assert finished > 8


def calls_of(au: AgentUndo) -> list[SagaCall]:
    """Return the calls of turn 1, none where it never began."""
    return au.calls("t-1") if au.turns() else []


@pytest.mark.timeout(180)
def test_a_kill_in_an_undo_is_finished_by_the_next(place: Path, world: World) -> None:
    """ENG-07: done is not repeated, the one at work is retried with the same key, the rest done."""
    with closing(opened(place)) as au:
        turn_of_three(au)
    places = copies(place, lambda au: au.undo("t-1"))
    assert len(places) > 15
    for there, au in after_kills(places):
        before = {call.id: call.undo for call in au.calls("t-1")}
        reports = au.recover() or [au.undo("t-1")]
        check(there, reports[-1])
        keys = [key for name, key in there.calls if name.startswith("undo:")]
        assert set(keys) == {
            call.key for call in au.calls("t-1") if call.tool != "mail.send"
        }
        repeats = len(keys) - len(set(keys))
        assert repeats <= ("running" in before.values())
        assert there.state["drafts"] == {}
        assert au.undo("t-1").counts["reversed"] == 1
        assert au.verify() is None


def half_back(au: AgentUndo) -> None:
    """Run a turn that takes its second half back at a savepoint."""
    with au.turn("go") as turn:
        turn.call("draft.create", title="outer")
        try:
            with turn.savepoint("risky"):
                turn.call("draft.create", title="inner")
                raise ValueError("no")
        except ValueError:
            pass


@pytest.mark.timeout(180)
def test_a_kill_in_a_savepoint_takes_back_its_part_alone(
    place: Path, world: World
) -> None:
    """AN-30: what the turn did before it stays, whoever finishes the rollback."""
    finished = 0
    for there, au in after_kills(copies(place, half_back)):
        reports = au.recover()
        finished += len(reports)
        if reports:
            assert there.state["drafts"] == {"9": "outer"}
        assert [report.target for report in reports] == ["t-1:risky"] * len(reports)
        assert au.recover() == []
    assert finished > 3


@pytest.mark.timeout(180)
def test_a_kill_in_a_rewind_is_finished_by_recover(place: Path, world: World) -> None:
    """AN-09: effects, state and marker: all of it, or the next process does the rest."""
    with closing(opened(place)) as au:
        au.create({"k": 1})
        with au.turn("go") as turn:
            turn.call("draft.create", title="a")
            turn.set_state({"k": 2})
    for there, au in after_kills(
        copies(place, lambda au: au.rewind("t-1", effects=True))
    ):
        reports = au.recover()
        kinds = [event.kind for event in au.events()]
        assert kinds.count("rewind") == (au.state == {"k": 1})
        assert (there.state["drafts"] == {}) == (au.state == {"k": 1})
        assert [one.kind for one in reports] == ["rewind"] * len(reports)
        assert au.recover() == []
        if not reports and au.state != {"k": 1}:
            assert au.rewind("t-1", effects=True).ok
        assert (au.state, there.state["drafts"]) == ({"k": 1}, {})


@pytest.mark.timeout(120)
def test_two_recoverers_call_each_inverse_once(place: Path, world: World) -> None:
    """AN-05: at the same time, in processes of their own."""
    halves = (World(copy / "world") for copy in copies(place, turn_that_fails))
    there = next(one for one in halves if "undo:card" in one.names)
    copy, done = there.root.parent, Counter(there.names)
    assert done["undo:draft"] == 0
    pids = [recoverer(copy) for _ in range(2)]
    for pid in pids:
        os.waitpid(pid, 0)
    with closing(opened(copy)) as au:
        assert au.recover() == []
        assert au.turns()[0].status == "rolled_back"
    after = Counter(there.names)
    assert after["undo:draft"] == 1
    assert after["undo:card"] - done["undo:card"] <= 1


def recoverer(root: Path) -> int:
    """Start a process that recovers; the session may be busy, then the other one does it."""
    pid = os.fork()
    if pid == 0:
        try:
            opened(root).recover()
        finally:
            os._exit(0)
    return pid
