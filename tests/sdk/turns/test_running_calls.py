"""Calls that still run when what they belong to is rolled back: none of them is forgotten."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from gitshadow.sdk.integrations.runs import Asked, Runs
from gitshadow.sdk.turns.async_session import AsyncAgentUndo, AsyncTurn
from gitshadow.sdk.turns.commands import Command, Save
from gitshadow.sdk.turns.driver import Driver
from gitshadow.sdk.turns.errors import TurnClosed
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Limits, Policy, Proposal
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo, Turn
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import Inverse, Outcome, Reversibility
from tests.sdk.turns.front import FREE, fails
from tests.sdk.turns.test_savepoints import HostUndo
from tests.sdk.turns.world import BoomError, undone_by

HURRIED = replace(FREE, limits=Limits(rollback_wait_s=0.05))


@dataclass
class Seats:
    """A world with a tool that takes a seat when it is let go."""

    taken: set[int] = field(default_factory=set)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    during: Callable[[], Coroutine[object, object, object]] | None = None

    def open(
        self, place: Path, policy: Policy = FREE, *, pivot: bool | None = None
    ) -> AsyncAgentUndo:
        tools = ToolRegistry()

        async def take(n: int) -> None:
            self.begun.set()
            if self.during is not None:
                await self.during()
            await self.go.wait()
            self.taken.add(n)

        options: ToolOptions = {
            "reversibility": Reversibility.REVERSIBLE,
            "inverse": lambda a, c, r: Inverse.tool("seat.give", n=a["n"]),
        }
        if pivot is not None:
            options |= {"probe": lambda a: a["n"] in self.taken, "pivot": pivot}
        tools.handler("seat.give", idempotent=True)(lambda n: self.taken.discard(n))
        tools.add("seat.take", take, **options)
        tools.tool("seat.look", reversibility=Reversibility.READ_ONLY)(take)
        return AsyncAgentUndo.open(place, session="s", tools=tools, policy=policy)


async def left_running(
    turn: AsyncTurn, seats: Seats, part: bool
) -> "asyncio.Task[Outcome]":
    """Fail a savepoint, or the turn, beside a call that runs."""
    if part:
        async with fails(turn.savepoint("risky")):
            task = asyncio.ensure_future(turn.call("seat.take", n=1))
            await seats.begun.wait()
        return task
    task = asyncio.ensure_future(turn.call("seat.take", n=1))
    await seats.begun.wait()
    return task


@pytest.mark.parametrize("part", [True, False])
async def test_a_rollback_waits_for_a_call(place: Path, part: bool) -> None:
    """`gather` with one branch that fails: the other one is undone as well."""
    seats = Seats()
    asyncio.get_running_loop().call_later(0.1, seats.go.set)
    async with seats.open(place) as au:
        with suppress(BoomError):
            async with au.turn("go") as turn:
                task = await left_running(turn, seats, part)
                if not part:
                    raise BoomError("x")
        await task
        (call,) = au.calls("t-1")
        assert (call.outcome, call.undo, seats.taken) == ("success", "done", set())
        status = "committed" if part else "rolled_back"
        assert (au.attention(), au.turns()[0].status) == ([], status)


@pytest.mark.parametrize("part", [True, False])
async def test_a_call_that_ends_too_late_needs_somebody(
    place: Path, part: bool
) -> None:
    """It is named until it is undone, which is possible then."""
    seats = Seats()
    async with seats.open(place, HURRIED) as au:
        with suppress(BoomError):
            async with au.turn("go") as turn:
                task = await left_running(turn, seats, part)
                if not part:
                    raise BoomError("x")
        assert (turn.report is None) is part
        assert [one.outcome for one in au.attention()] == [None]
        seats.go.set()
        await task
        assert seats.taken == {1}
        (call,) = au.attention()
        assert (call.outcome, call.undo) == ("success", "failed")
        assert call.error == "it ended only after it was to be undone"
        status = "committed" if part else "partially_rolled_back"
        assert au.turns()[0].status == status
        assert (await au.undo("t-1")).status == "reversed"
        assert (seats.taken, au.attention()) == (set(), [])


@pytest.mark.parametrize("pivot", [True, False])
async def test_a_probe_is_not_asked_about_a_call_that_runs(
    place: Path, pivot: bool
) -> None:
    """It would say that nothing happened, of what is about to happen."""
    seats = Seats()
    async with seats.open(place, HURRIED, pivot=pivot) as au:
        with pytest.raises(BoomError) as caught:
            async with au.turn("go") as turn:
                task = await left_running(turn, seats, part=False)
                raise BoomError("x")
        (item,) = caught.value.undo_report.items  # type: ignore[attr-defined]
        assert (item.state, item.reason) == ("not_reversed", "in_doubt")
        assert [one.id for one in au.attention()] == ["t-1.1"]
        assert await au.recover() == []
        assert (await au.undo("t-1")).items[0].reason == "in_doubt"
        assert [one.outcome for one in au.attention()] == [None]
        seats.go.set()
        await task
        assert [one.id for one in au.attention()] == ["t-1.1"]


async def test_what_a_savepoint_left_in_doubt_stays_in_attention(place: Path) -> None:
    """The answer of a probe says that the effect is there, not that it may stay."""
    seats = Seats()
    async with seats.open(place, HURRIED, pivot=False) as au:
        async with au.turn("go") as turn:
            task = await left_running(turn, seats, part=True)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seats.taken.add(1)
        assert await au.recover() == []
        assert [(one.outcome, one.undo) for one in au.attention()] == [
            ("success", "failed")
        ]
        assert (await au.undo("t-1")).status == "reversed"
        assert (seats.taken, au.attention()) == (set(), [])


def test_a_call_that_is_undone_before_it_returns_is_not_the_hosts(
    place: Path,
) -> None:
    """M4: its outcome is written, and its entry is not given yet."""
    saved, go, host = threading.Event(), threading.Event(), HostUndo()
    tools = ToolRegistry()
    tools.handler("seat.give", idempotent=True)(lambda: None)
    tools.tool("seat.take", **undone_by("seat.give"))(lambda: None)

    class Slow(Driver):
        def perform(self, command: Command) -> object:
            event = super().perform(command)
            rows = command.rows if isinstance(command, Save) else ()
            is_saved = any(getattr(row, "outcome", None) == "success" for row in rows)
            if is_saved and not saved.is_set():  # later it is its inverse's
                saved.set()
                go.wait(10)
            return event

    with AgentUndo.open(
        place, session="s", tools=tools, policy=HURRIED, host=Host(undo=host)
    ) as au:
        au._driver = Slow(au.runtime)
        with au.turn("go") as turn:
            with suppress(BoomError), turn.savepoint("risky"):
                work = partial(copy_context().run, turn.call, "seat.take")
                thread = threading.Thread(target=work)
                thread.start()
                saved.wait(10)
                raise BoomError("x")
            go.set()
            thread.join()
        assert host.calls == ["commit"]


@pytest.mark.parametrize("error", [None, BoomError("x")])
def test_a_host_that_ends_its_transaction_gets_no_entry(
    place: Path, error: BoomError | None
) -> None:
    begun, go, threads = threading.Event(), threading.Event(), list[threading.Thread]()

    class Slow(HostUndo):
        def commit(self) -> None:
            super().commit()
            self.let_it_end()

        def rollback(self) -> None:
            super().rollback()
            self.let_it_end()

        def let_it_end(self) -> None:
            go.set()
            threads[0].join()

    def take() -> None:
        begun.set()
        go.wait(10)

    tools, host = ToolRegistry(), Slow()
    tools.add("seat.take", take, reversibility=Reversibility.NON_REVERSIBLE)
    with AgentUndo.open(
        place, session="s", tools=tools, policy=HURRIED, host=Host(undo=host)
    ) as au:
        with suppress(BoomError), au.turn("go") as turn:
            threads.append(threading.Thread(target=turn.call, args=("seat.take",)))
            threads[0].start()
            begun.wait(10)
            if error is not None:
                raise error
        assert host.calls == ["commit" if error is None else "rollback"]


async def test_a_late_call_that_reads_needs_nobody(place: Path) -> None:
    seats = Seats()
    async with seats.open(place, HURRIED) as au:
        async with fails(au.turn("go")) as turn:
            task = asyncio.ensure_future(turn.call("seat.look", n=1))
            await seats.begun.wait()
        seats.go.set()
        await task
        assert au.attention() == []


async def test_a_call_that_waits_for_its_guard_does_not_run_after_the_rollback(
    place: Path,
) -> None:
    seats, asked = Seats(), asyncio.Event()

    async def guard(call: Proposal) -> None:
        asked.set()
        await seats.go.wait()

    async with seats.open(place, replace(HURRIED, guards=(guard,))) as au:
        async with fails(au.turn("go")) as turn:
            task = asyncio.ensure_future(turn.call("seat.take", n=1))
            await asked.wait()
        seats.go.set()
        with pytest.raises(TurnClosed):
            await task
        assert (seats.taken, au.calls("t-1")) == (set(), [])


async def test_a_rollback_never_waits_for_the_call_around_it(place: Path) -> None:
    """A tool that ends the turn itself is in doubt, and nothing stands still."""
    seats = Seats()
    async with seats.open(place) as au:
        turn = au.turn("go")
        await turn.__aenter__()

        async def during() -> None:
            error = BoomError("x")
            await turn.__aexit__(BoomError, error, None)

        seats.during = during
        seats.go.set()
        begun = time.monotonic()
        await turn.call("seat.take", n=1)
        assert time.monotonic() - begun < 4
        assert [one.undo for one in au.attention()] == ["failed"]


async def test_a_cancelled_turn_does_not_wait_for_its_own_call(place: Path) -> None:
    """CAN-04: what was cancelled has ended."""
    seats = Seats()
    async with seats.open(place) as au:

        async def work() -> None:
            async with au.turn("go") as turn:
                await asyncio.gather(*(turn.call("seat.take", n=n) for n in range(3)))

        task = asyncio.ensure_future(work())
        await seats.begun.wait()
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begun < 3
        assert len(au.attention()) == 3


def test_a_rollback_waits_for_calls_of_other_threads(place: Path) -> None:
    begun, go, taken = threading.Event(), threading.Event(), set[int]()
    tools = ToolRegistry()

    def take(n: int) -> None:
        begun.set()
        go.wait(10)
        taken.add(n)

    tools.handler("seat.give", idempotent=True)(lambda n: taken.discard(n))
    tools.tool("seat.take", **undone_by("seat.give", "n"))(take)

    def work(turn: Turn) -> None:
        turn.call("seat.take", n=1)

    with AgentUndo.open(place, session="s", tools=tools) as au:
        with pytest.raises(BoomError) as caught, au.turn("go") as turn:
            thread = threading.Thread(target=work, args=(turn,))
            thread.start()
            begun.wait()
            threading.Timer(0.1, go.set).start()
            raise BoomError("x")
        thread.join()
        assert caught.value.undo_report.ok  # type: ignore[attr-defined]
        assert (taken, au.attention()) == (set(), [])


async def test_of_two_calls_with_one_id_at_once_one_runs(place: Path) -> None:
    """The other one would have an effect that no row names."""
    seats = Seats()
    seats.go.set()
    async with seats.open(place) as au:
        async with au.turn("go") as turn:
            ended = await asyncio.gather(
                *(turn.call("seat.take", n=n, call_id="c1") for n in (1, 2)),
                return_exceptions=True,
            )
        assert "the id c1 was already used" in str(ended[1])
        assert seats.taken == {1}
        assert (await au.undo("t-1")).status == "reversed"
    assert seats.taken == set()


async def test_a_framework_may_use_an_id_for_two_calls_at_once(place: Path) -> None:
    """Each has a row of its own, so both are undone."""
    seats = Seats()
    seats.go.set()
    async with seats.open(place) as au:
        runs = Runs(au)

        async def take(n: int) -> None:
            seats.taken.add(n)

        async with runs.turn("go"):
            await asyncio.gather(
                *(
                    runs.call(Asked("seat_take", {"n": n}, "c1"), partial(take, n))
                    for n in (1, 2)
                )
            )
        assert [call.id for call in au.calls("t-1")] == ["c1", "c1~2"]
        await au.undo("t-1")
    assert seats.taken == set()
