"""CAN rows: how a turn is cancelled, cooperatively and by its task."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from gitshadow.sdk.turns.errors import TurnCancelled
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Policy, Proposal, Verdict
from gitshadow.sdk.turns.report import UndoReport
from tests.sdk.turns.front import AnyTurn, Front
from tests.sdk.turns.test_transaction import Spy
from tests.sdk.turns.world import World, undone_by


def asking() -> Policy:
    """Return a policy with the built-in prompt before every call, without end."""
    return Policy(
        guards=(lambda p: Verdict.confirm("sure?"),),
        confirm="prompt",
        confirm_timeout_s=None,
    )


def when_asked(turn: AnyTurn, act: Callable[[], None]) -> None:
    """Act in another thread as soon as a question waits."""

    def wait() -> None:
        while turn.inner.pending_confirmation is None:
            time.sleep(0.001)
        act()

    threading.Thread(target=wait, daemon=True).start()


async def test_the_call_at_work_finishes_and_no_other_starts(
    front: Front, world: World
) -> None:
    """CAN-02, CAN-14: call 1 is undone, the session is clean, the next turn works."""
    session = front.session()
    with pytest.raises(TurnCancelled):
        async with session.turn() as turn:
            world.before_call = lambda name: turn.inner.cancel()
            for title in "abc":
                await turn.call("draft.create", title=title)
    world.before_call = lambda name: None
    assert world.names == ["draft.create", "undo:draft"]
    assert turn.inner.core.active == []
    assert turn.inner.pending_confirmation is None
    async with session.turn() as turn:
        await turn.call("draft.create", title="d")
    assert turn.inner.status == "committed"


async def test_effects_roll_back_when_cancelled(front: Front, world: World) -> None:
    """TX-09, CAN-05, CAN-06: `TurnCancelled` for `cancel()`; the host never commits."""
    before, spy = world.text, Spy()
    session = front.session(host=Host(undo=spy))
    with pytest.raises(TurnCancelled) as caught:
        async with session.turn() as turn:
            await turn.call("crm.update", id=7, field="name", value="A")
            await turn.call("draft.create", title="x")
            turn.inner.cancel()
    assert world.text == before
    assert (spy.log.count("commit"), spy.log.count("rollback")) == (0, 1)
    report = caught.value.undo_report
    assert report is not None
    assert report.counts["reversed"] == 2
    assert [(one.status, one.cause) for one in session.au.turns()] == [
        ("rolled_back", "cancelled")
    ]


async def test_cancelling_answers_the_prompt_with_no(
    front: Front, world: World
) -> None:
    """CAN-09: at once, and the tool does not run."""
    session = front.session(policy=asking())
    with pytest.raises(TurnCancelled):
        async with session.turn() as turn:
            when_asked(turn, turn.inner.cancel)
            outcome = await turn.call("draft.create", title="x")
            assert outcome.text == "sure?: declined"
    assert world.names == []


@pytest.mark.parametrize("yes", [True, False])
async def test_the_prompt_waits_for_an_answer(front: Front, yes: bool) -> None:
    """LOOP-11 of one call: the question is to be seen while it waits, and gone after."""
    seen: list[Proposal | None] = []

    def reply() -> None:
        seen.append(turn.inner.pending_confirmation)
        turn.inner.answer(yes)

    async with front.session(policy=asking()).turn() as turn:
        when_asked(turn, reply)
        outcome = await turn.call("draft.create", title="x")
    assert outcome.ok is yes
    assert [one and one.question for one in seen] == ["sure?"]
    assert turn.inner.pending_confirmation is None


async def test_a_handler_is_not_interrupted_by_cancel(
    front: Front, world: World
) -> None:
    """CAN-10: the approved call runs, later ones do not, and all of it is rolled back."""

    def handler(proposal: Proposal) -> bool:
        turn.inner.cancel()
        return True

    policy = Policy(guards=(lambda p: Verdict.confirm("sure?"),), confirm=handler)
    before = world.text
    with pytest.raises(TurnCancelled):
        async with front.session(policy=policy).turn() as turn:
            await turn.call("draft.create", title="a")
            await turn.call("draft.create", title="b")
    assert world.names == ["draft.create", "undo:draft"]
    assert world.text == before


async def test_no_answer_in_time_is_a_no(front: Front, world: World) -> None:
    """CAN-11: of a handler and of the prompt; the turn goes on."""
    never = threading.Event()

    async def sleeps(proposal: Proposal) -> bool:
        await asyncio.Event().wait()
        return True

    def blocks(proposal: Proposal) -> bool:
        return never.wait(30)

    for confirm in (sleeps if front.name == "async" else blocks, "prompt"):
        policy = Policy(
            guards=(lambda p: Verdict.confirm("sure?"),),
            confirm=confirm,
            confirm_timeout_s=0.05,
        )
        async with front.session(policy=policy).turn() as turn:
            outcome = await turn.call("draft.create", title="x")
            await turn.call("no.such")
        assert outcome.kind == "denied"
        assert turn.inner.status == "committed"
    never.set()
    assert world.names == []


async def test_a_late_cancel_does_nothing(front: Front, world: World) -> None:
    """CAN-13."""
    session = front.session()
    turn = await session.called("draft.create", title="x")
    turn.inner.cancel()
    assert turn.inner.status == "committed"
    assert world.inverses == []
    turn = await session.called("draft.create", title="y")
    assert turn.inner.status == "committed"


async def test_a_cancelled_task_stays_cancelled(async_front: Front) -> None:
    """CAN-04, CAN-05: the original error, with the report; measured: a subclass breaks timeouts."""
    world, session = async_front.world, async_front.session()
    before = world.text
    started = asyncio.Event()
    found: list[BaseException] = []

    async def work() -> None:
        try:
            async with session.turn() as turn:
                await turn.call("draft.create", title="x")
                started.set()
                await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            found.append(error)
            raise

    task = asyncio.create_task(work())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)
    assert type(found[0]) is asyncio.CancelledError
    assert isinstance(getattr(found[0], "undo_report", None), UndoReport)
    assert world.text == before
    assert [(one.status, one.cause) for one in session.au.turns()] == [
        ("rolled_back", "cancelled")
    ]


async def test_a_timeout_around_a_turn_is_a_timeout(async_front: Front) -> None:
    """CAN-05: `asyncio.timeout` must recognise its own cancellation."""
    world, session = async_front.world, async_front.session()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), session.turn() as turn:
            await turn.call("draft.create", title="x")
            await asyncio.Event().wait()
    assert world.state["drafts"] == {}


async def test_a_cancelled_task_interrupts_the_handler(async_front: Front) -> None:
    """CAN-12: the handler gets the cancellation, the call does not run."""
    seen: list[str] = []
    waiting = asyncio.Event()

    async def handler(proposal: Proposal) -> bool:
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return True

    policy = Policy(guards=(lambda p: Verdict.confirm("sure?"),), confirm=handler)
    world, session = async_front.world, async_front.session(policy=policy)

    async def work() -> None:
        await session.called("draft.create", title="x")

    task = asyncio.create_task(work())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]
    assert world.names == []
    assert session.au.turns()[0].status == "rolled_back"


async def test_a_call_that_was_interrupted_is_in_doubt(async_front: Front) -> None:
    """AN-01: nobody knows whether it happened, so nobody says that it did not."""
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    async_front.tools.tool("toy.hang", **undone_by("toy.hang"))(hang)
    session = async_front.session()

    async def work() -> None:
        await session.called("toy.hang")

    task = asyncio.create_task(work())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    report = getattr(caught.value, "undo_report", None)
    assert isinstance(report, UndoReport)
    assert [one.reason for one in report.items] == ["in_doubt"]
    assert session.au.turns()[0].status == "partially_rolled_back"


async def test_cancelling_does_not_stop_a_rollback(async_front: Front) -> None:
    """CAN-15, AN-02: cancelled twice, all three inverses run."""
    entered, go_on, done = asyncio.Event(), asyncio.Event(), []

    async def undo(number: int) -> None:
        entered.set()
        await go_on.wait()
        await asyncio.sleep(0)
        done.append(number)

    async_front.tools.handler("slow.undo", idempotent=True)(undo)
    async_front.tools.tool("slow.do", **undone_by("slow.undo", "number"))(
        lambda number: None
    )
    session = async_front.session()

    async def work() -> None:
        async with session.turn() as turn:
            for number in (1, 2, 3):
                await turn.call("slow.do", number=number)
            await asyncio.Event().wait()

    async def watched() -> None:
        try:
            await work()
        except asyncio.CancelledError as error:
            left.append(error)
            raise

    left: list[BaseException] = []
    task = asyncio.create_task(watched())
    while not session.au.turns() or len(session.au.calls("t-1")) < 3:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await entered.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [3, 2, 1]
    (first,) = left
    assert getattr(first, "undo_report", None) is not None
    assert session.au.turns()[0].status == "rolled_back"


async def test_overlapping_calls_are_undone_by_their_start(async_front: Front) -> None:
    """AN-08: whichever finishes first."""
    undone: list[str] = []
    gates = {name: asyncio.Event() for name in "ab"}

    async def do(name: str) -> None:
        await gates[name].wait()
        if name == "b":
            gates["a"].set()

    async_front.tools.handler("par.undo", idempotent=True)(
        lambda name: undone.append(name)
    )
    async_front.tools.tool("par.do", **undone_by("par.undo", "name"))(do)
    session = async_front.session()
    gates["b"].set()
    async with session.turn() as turn:
        await asyncio.gather(
            turn.call("par.do", name="a"), turn.call("par.do", name="b")
        )
    await session.undo("t-1")
    assert undone == ["b", "a"]
