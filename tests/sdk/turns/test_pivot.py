"""AN-35: after a point of no return a failing turn takes back only what came later."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.sdk.turns.errors import TurnCancelled
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Proposal
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import Reversibility
from tests.sdk.turns.front import FREE, AnyTurn, Front, fails
from tests.sdk.turns.test_kill import after_kills, copies
from tests.sdk.turns.test_transaction import Spy
from tests.sdk.turns.world import BoomError, World

KEPT = ["9"]


def pivotal(front: Front, work: Callable[[], None] = lambda: None) -> None:
    """Register `order.place`, a point of no return."""
    front.tools.tool(
        "order.place", pivot=True, reversibility=Reversibility.NON_REVERSIBLE
    )(work)


async def three_calls(turn: AnyTurn) -> None:
    """Make a draft, pass the point of no return, make another draft."""
    await turn.call("draft.create", title="before")
    await turn.call("order.place")
    await turn.call("draft.create", title="after")


def told(report: UndoReport | None) -> dict[str, object]:
    """Return the reason, or the state, of each call."""
    assert report is not None
    return {one.call_id: one.reason or one.state for one in report.items}


async def test_only_what_came_after_is_taken_back(front: Front, world: World) -> None:
    """AN-35: nobody can be asked, so what came before stays and is named."""
    pivotal(front)
    session = front.session()
    with pytest.raises(BoomError) as caught:
        async with session.turn() as turn:
            await three_calls(turn)
            await turn.call("toy.boom")
    assert list(world.state["drafts"]) == KEPT
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert told(report) == {
        "t-1.3": "reversed",
        "t-1.2": "non_reversible",
        "t-1.1": "declined",
    }
    assert report.notes == (
        "kept everything up to order.place t-1.2, a point of no return, including"
        " state, artifacts and the host's document",
    )
    assert turn.inner.status == "partially_rolled_back"
    again = await session.undo("t-1")
    assert told(again)["t-1.1"] == "reversed"
    assert world.state["drafts"] == {}


async def test_a_failure_before_it_takes_everything_back(
    front: Front, world: World
) -> None:
    """AN-35: also one of the pivot itself, where that has surely done nothing."""

    def fails() -> None:
        raise BoomError("no")

    front.tools.tool("order.place", pivot=True, errors="nothing_done")(fails)
    with pytest.raises(BoomError):
        async with front.session().turn() as turn:
            await three_calls(turn)
    assert world.state["drafts"] == {}
    assert turn.inner.status == "rolled_back"


@pytest.mark.parametrize("yes", [True, False])
async def test_somebody_is_asked(front: Front, world: World, yes: bool) -> None:
    """AN-35: yes takes it all back."""
    asked: list[Proposal] = []

    def confirm(proposal: Proposal) -> bool:
        asked.append(proposal)
        return yes

    pivotal(front)
    session = front.session(policy=replace(FREE, confirm=confirm))
    async with fails(session.turn()) as turn:
        await three_calls(turn)
    assert [one.question for one in asked] == [
        "t-1 failed (BoomError) after order.place t-1.2, a point of no return: also"
        " undo everything up to it?"
    ]
    assert list(world.state["drafts"]) == ([] if yes else KEPT)
    assert told(turn.inner.report)["t-1.1"] == ("reversed" if yes else "declined")


async def test_an_answer_that_fails_is_a_no(front: Front, world: World) -> None:
    """AN-35, AN-14: the cause goes on."""

    def confirm(proposal: Proposal) -> bool:
        raise OSError("no terminal")

    pivotal(front)
    session = front.session(policy=replace(FREE, confirm=confirm))
    async with fails(session.turn()) as turn:
        await three_calls(turn)
    assert list(world.state["drafts"]) == KEPT


async def test_nobody_is_asked_about_a_cancelled_turn(
    front: Front, world: World
) -> None:
    """AN-35, CAN-04: who cancels does not want to be kept waiting."""
    asked: list[Proposal] = []

    def confirm(proposal: Proposal) -> bool:
        asked.append(proposal)
        return True

    pivotal(front)
    session = front.session(policy=replace(FREE, confirm=confirm))
    with pytest.raises(TurnCancelled):
        async with session.turn() as turn:
            await three_calls(turn)
            turn.inner.cancel()
    assert asked == []
    assert list(world.state["drafts"]) == KEPT


async def test_a_pivot_in_doubt_counts_as_passed(async_front: Front) -> None:
    """AN-35: nobody knows whether it happened, so what came before is not touched."""
    there, forever = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        there.set()
        await forever.wait()

    async_front.tools.tool("order.place", pivot=True)(work)
    session = async_front.session()

    async def run() -> None:
        async with session.turn() as turn:
            await three_calls(turn)

    task = asyncio.create_task(run())
    await there.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert told(report) == {"t-1.2": "in_doubt", "t-1.1": "declined"}


async def test_state_and_the_hosts_document_are_kept(front: Front) -> None:
    """AN-35: the host's transaction ends once, with a commit then."""
    pivotal(front)
    spy = Spy()
    session = front.session(host=Host(undo=spy))
    session.au.create({"k": 1})
    async with fails(session.turn("go")) as turn:
        await turn.set_state(k=2)
        await turn.call("order.place")
    assert session.au.state == {"k": 2}
    assert spy.log == ["begin go", "add", "commit"]


async def test_a_savepoint_after_it_takes_its_own_back(
    front: Front, world: World
) -> None:
    """AN-35, AN-30: a point of no return inside the savepoint holds there as well."""
    pivotal(front)
    async with front.session().turn() as turn:
        await turn.call("order.place")
        async with fails(turn.savepoint("one")):
            await turn.call("draft.create", title="x")
        assert world.state["drafts"] == {}
        with pytest.raises(BoomError) as caught:
            async with turn.savepoint("two"):
                await three_calls(turn)
                raise BoomError("x")
    assert list(world.state["drafts"]) == KEPT
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert told(report)["t-1.3"] == "declined"


async def test_what_is_held_is_dropped_all_the_same(front: Front, world: World) -> None:
    """AN-35, AN-19: a turn that fails sends nothing."""
    pivotal(front)
    front.tools.add("mail.later", lambda to: world.called("sent", None), hold=True)
    async with fails(front.session().turn()) as turn:
        await turn.call("mail.later", to="x")
        await turn.call("order.place")
    assert told(turn.inner.report)["t-1.1"] == "reversed"
    assert "sent" not in world.names


def failing(au: AgentUndo) -> None:
    """Run a turn that fails after a point of no return."""
    world = World(Path(au.runtime.setting.root) / "world")
    au.runtime.setting.registry.add(
        "order.place", lambda: world.called("order.place", None), pivot=True
    )
    try:
        with au.turn("go") as turn:
            turn.call("draft.create", title="before")
            turn.call("order.place")
            turn.call("draft.create", title="after")
            raise BoomError("x")
    except BoomError:
        pass


@pytest.mark.timeout(180)
def test_a_kill_in_such_a_rollback_keeps_the_same(place: Path) -> None:
    """AN-35, AN-05: whoever finishes it."""
    World.make(place / "world")
    finished = 0
    for there, au in after_kills(copies(place, failing)):
        reports = au.recover()
        finished += len(reports)
        for report in reports:
            assert told(report)["t-1.1"] == "declined"
            assert list(there.state["drafts"]) == KEPT
            assert au.turns()[0].status == "partially_rolled_back"
    assert finished > 3
