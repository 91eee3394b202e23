"""AN-36: a turn's own check, and turns that are run again, by `run_turn`."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.errors import TurnCancelled, ValidationFailed
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.session import AgentUndo
from tests.sdk.turns.front import AnyTurn, Front
from tests.sdk.turns.test_transaction import Spy
from tests.sdk.turns.world import BoomError, World


async def test_a_check_that_says_yes_commits(front: Front, world: World) -> None:
    """AN-36: it is asked after the last call."""
    seen: list[object] = []

    def check() -> bool:
        seen.append(world.state["drafts"])
        return True

    async with front.session().turn(validate=check) as turn:
        await turn.call("draft.create", title="x")
    assert turn.inner.status == "committed"
    assert seen == [{"9": "x"}]


@pytest.mark.parametrize(
    ("answer", "said"), [(False, "False"), (None, "None"), (1, "1")]
)
async def test_a_check_that_says_no_rolls_back(
    front: Front, world: World, answer: object, said: str
) -> None:
    """AN-36: only True is a yes, and the report says why."""
    before, spy = world.text, Spy()
    session = front.session(host=Host(undo=spy))
    why = f"cannot keep t-1: its check returned {said}, not True"
    with pytest.raises(ValidationFailed, match=why) as caught:
        async with session.turn(validate=lambda: answer) as turn:  # type: ignore[arg-type,return-value]
            await turn.call("draft.create", title="x")
    assert world.text == before
    assert spy.log == ["begin a turn", "add", "rollback"]
    report = caught.value.undo_report
    assert report is not None
    assert report.notes == (f"rolled back: {why}",)
    assert report is turn.inner.report
    (row,) = session.au.turns()
    assert (row.status, row.cause) == ("rolled_back", "validation")


async def test_a_check_that_raises_rolls_back(front: Front, world: World) -> None:
    """AN-36: what it raised is the cause of what is raised."""

    def check() -> bool:
        raise BoomError("3 tests failed")

    with pytest.raises(ValidationFailed, match="raised BoomError: 3 tests") as caught:
        async with front.session().turn(validate=check) as turn:
            await turn.call("draft.create", title="x")
    assert isinstance(caught.value.__cause__, BoomError)
    assert world.state["drafts"] == {}


def noting(asked: list[bool]) -> Callable[[], bool]:
    """Return a check that notes that it was asked."""

    def check() -> bool:
        asked.append(True)
        return True

    return check


async def test_a_turn_that_failed_is_not_checked(front: Front) -> None:
    """AN-36, AN-14: what ended it goes on."""
    asked: list[bool] = []
    with pytest.raises(BoomError):
        async with front.session().turn(validate=noting(asked)):
            raise BoomError("x")
    assert asked == []


async def test_a_cancelled_turn_is_not_checked(front: Front) -> None:
    """AN-36: cancelled before the check, or while it was at work."""
    asked: list[bool] = []
    session = front.session()
    with pytest.raises(TurnCancelled):
        async with session.turn(validate=noting(asked)) as turn:
            turn.inner.cancel()
    assert asked == []

    def check() -> bool:
        turn.inner.cancel()
        return True

    with pytest.raises(TurnCancelled):
        async with session.turn(validate=check) as turn:
            pass
    assert [row.status for row in session.au.turns()] == ["rolled_back"] * 2


async def test_cancelling_the_task_ends_a_check(
    async_front: Front,
) -> None:
    """AN-36, CAN-12: the check is interrupted, the turn rolled back."""
    waiting, forever = asyncio.Event(), asyncio.Event()

    async def check() -> bool:
        waiting.set()
        return await forever.wait()

    session = async_front.session()

    async def work() -> None:
        async with session.turn(validate=check) as turn:
            await turn.call("draft.create", title="x")

    task = asyncio.create_task(work())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert caught.value.undo_report.ok  # type: ignore[attr-defined]
    assert async_front.world.state["drafts"] == {}
    assert session.au.turns()[0].cause == "cancelled"


async def test_a_function_runs_in_a_turn(front: Front, world: World) -> None:
    """`run_turn` commits what returned and rolls back what raised."""
    session = front.session()

    async def work(turn: AnyTurn) -> object:
        await turn.call("draft.create", title="x")
        return turn.inner.id

    assert await session.run_turn(work) == "t-1"

    async def failing(turn: AnyTurn) -> None:
        await turn.call("draft.create", title="y")
        await turn.call("toy.boom")

    with pytest.raises(BoomError):
        await session.run_turn(failing)
    assert world.state["drafts"] == {"9": "x"}
    assert [row.status for row in session.au.turns()] == ["committed", "rolled_back"]


def drafting(front: Front) -> Callable[[AnyTurn], Awaitable[None]]:
    """Return work that makes one draft."""

    async def work(turn: AnyTurn) -> None:
        await turn.call("draft.create", title="x")

    return work


async def test_a_turn_is_run_again_until_its_check_passes(
    front: Front, world: World
) -> None:
    """AN-36: each time in a new turn, from the state that the first began with."""
    answers = [False, False, True]
    session = front.session()
    await session.run_turn(drafting(front), validate=lambda: answers.pop(0), retries=5)
    assert world.state["drafts"] == {"9": "x"}
    assert [row.status for row in session.au.turns()] == [
        *("rolled_back", "rolled_back", "committed")
    ]


@pytest.mark.parametrize("retries", [0, 1, 3, -1])
async def test_a_turn_is_run_again_only_so_often(front: Front, retries: int) -> None:
    """AN-36: bounded."""
    session = front.session()
    with pytest.raises(ValidationFailed):
        await session.run_turn(drafting(front), validate=lambda: False, retries=retries)
    assert len(session.au.turns()) == 1 + max(retries, 0)


async def test_a_turn_that_left_something_is_not_run_again(
    front: Front, world: World
) -> None:
    """AN-36: a second attempt would send a second mail."""

    async def work(turn: AnyTurn) -> None:
        await turn.call("mail.send", to="x")

    with pytest.raises(ValidationFailed) as caught:
        await front.session().run_turn(work, validate=lambda: False, retries=5)
    assert world.state["sent"] == ["x"]
    report = caught.value.undo_report
    assert report is not None
    assert not report.ok


async def test_a_turn_that_raised_is_not_run_again(front: Front) -> None:
    """AN-36: only a check's no is tried again."""
    session = front.session()

    async def work(turn: AnyTurn) -> None:
        raise BoomError("x")

    with pytest.raises(BoomError):
        await session.run_turn(work, validate=lambda: True, retries=3)
    assert len(session.au.turns()) == 1


async def test_a_decorated_function_is_checked_and_run_again(front: Front) -> None:
    """AN-36: the decorator form."""
    answers = [False, True]
    au = front.session().au
    if isinstance(au, AgentUndo):

        @au.undoable(validate=lambda: answers.pop(0), retries=1)
        def job(number: int) -> int:
            return number + 1

        assert job(1) == 2
    else:
        assert isinstance(au, AsyncAgentUndo)

        @au.undoable(validate=lambda: answers.pop(0), retries=1)
        async def later(number: int) -> int:
            return number + 1

        assert await later(1) == 2
    assert [(row.label, row.status) for row in au.turns()] == [
        ("later" if front.name == "async" else "job", status)
        for status in ("rolled_back", "committed")
    ]
