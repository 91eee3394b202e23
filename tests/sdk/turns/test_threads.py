"""Where inverses and calls run: in whose thread, with what limits, beside whom."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import Outcome, Retry, Reversibility
from tests.sdk.turns.front import FREE, Front, journal_of
from tests.sdk.turns.world import undone_by


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Return what a hanging inverse waits for; it is let go at the end."""
    found = threading.Event()
    yield found
    found.set()


def hanging(
    front: Front, gate: threading.Event, retry: Retry, **options: bool
) -> list[str]:
    """Register `door.open`, whose inverse waits; return what that did."""
    done: list[str] = []

    def close() -> None:
        gate.wait(30)
        done.append("closed")

    front.tools.handler("door.close", **options)(close)  # type: ignore[arg-type]
    front.tools.tool("door.open", **undone_by("door.close"), retry=retry)(lambda: None)
    return done


async def test_an_inverse_runs_in_the_thread_that_asks_for_it(front: Front) -> None:
    """A connection that was made when the program was imported works in it."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE seats (name TEXT)")

        def book(name: str) -> None:
            connection.execute("INSERT INTO seats VALUES (?)", (name,))

        def free(name: str) -> None:
            connection.execute("DELETE FROM seats WHERE name = ?", (name,))

        front.tools.handler("seat.free", idempotent=True)(free)
        front.tools.tool("seat.book", **undone_by("seat.free", "name"))(book)
        session = await front.after("seat.book", name="12A")
        (item,) = (await session.undo("t-1")).items
        left = connection.execute("SELECT name FROM seats").fetchall()
    assert (item.state, left) == ("reversed", [])


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_plain_inverse_that_hangs_is_in_doubt(
    front: Front, gate: threading.Event, idempotent: bool
) -> None:
    """Its thread goes on and may act after the report, so nothing is promised."""
    retry = Retry(attempts=3, backoff_s=0, timeout_s=0.05)
    done = hanging(front, gate, retry, idempotent=idempotent)
    session = await front.after("door.open")
    (item,) = (await session.undo("t-1")).items
    assert (item.reason, item.attempts, done) == ("in_doubt", 1, [])
    assert item.error == "no answer after 0.05 s"
    assert [one.undo for one in session.au.attention()] == ["in_doubt"]


async def test_an_inverse_that_hung_can_be_tried_again_where_that_is_safe(
    front: Front, gate: threading.Event
) -> None:
    retry = Retry(attempts=1, timeout_s=0.05)
    done = hanging(front, gate, retry, idempotent=True)
    session = await front.after("door.open")
    assert not (await session.undo("t-1")).ok
    gate.set()
    (item,) = (await session.undo("t-1")).items
    assert item.state == "reversed"
    assert "closed" in done


async def test_a_keyed_inverse_that_hangs_has_failed(
    front: Front, gate: threading.Event
) -> None:
    """What it does later counts as the same attempt, so it is only tried again."""

    def close(*, idempotency_key: str) -> None:
        gate.wait(30)

    front.tools.handler("door.close")(close)
    front.tools.tool(
        "door.open",
        **undone_by("door.close"),
        retry=Retry(attempts=2, backoff_s=0, timeout_s=0.05),
    )(lambda: None)
    session = await front.after("door.open")
    (item,) = (await session.undo("t-1")).items
    assert (item.reason, item.attempts) == ("failed", 2)


async def test_the_loop_goes_on_while_a_plain_inverse_hangs(
    async_front: Front, gate: threading.Event
) -> None:
    hanging(async_front, gate, Retry(attempts=1, timeout_s=10))
    session = await async_front.after("door.open")
    task = asyncio.ensure_future(session.undo("t-1"))
    asyncio.get_running_loop().call_later(0.05, gate.set)
    (item,) = (await task).items
    assert item.state == "reversed"


async def test_an_inverse_that_lets_a_cancellation_through_has_failed(
    front: Front,
) -> None:
    """Some task of its own was cancelled, not the rollback: the others run all the same."""
    done: list[str] = []

    def undo(name: str) -> None:
        if name == "b":
            raise asyncio.CancelledError
        done.append(name)

    front.tools.handler("it.undo", idempotent=True)(undo)
    front.tools.tool("it.do", **undone_by("it.undo", "name"), retry=Retry(attempts=1))(
        lambda name: None
    )
    with pytest.raises(ZeroDivisionError) as caught:
        async with front.session().turn() as turn:
            for name in ("a", "b", "c"):
                await turn.call("it.do", name=name)
            raise ZeroDivisionError
    assert done == ["c", "a"]
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert [item.reason for item in report.items] == [None, "failed", None]


def test_fifty_threads_may_call_one_turn(place: Path) -> None:
    """Their effects are all written down, and all undone."""
    tools, world = ToolRegistry(), set[int]()
    found: list[Outcome | BaseException] = []

    def call(n: int) -> None:
        try:
            found.append(turn.call("n.take", n=n))
        except BaseException as error:  # noqa: BLE001 - looked at below
            found.append(error)

    def take(n: int) -> None:
        world.add(n)

    def give(n: int) -> None:
        world.discard(n)

    tools.handler("n.give", idempotent=True)(give)
    tools.tool("n.take", **undone_by("n.give", "n"))(take)
    with closing(AgentUndo.open(place, session="s", tools=tools, policy=FREE)) as au:
        with pytest.raises(ZeroDivisionError), au.turn("many") as turn:
            threads = [threading.Thread(target=call, args=(n,)) for n in range(50)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(world) == 50
            raise ZeroDivisionError
        assert [one for one in found if not isinstance(one, Outcome)] == []
        rows = au.calls("t-1")
    assert world == set()
    assert sorted(row.ordinal for row in rows) == list(range(1, 51))
    assert {row.undo for row in rows} == {"done"}


def commits_of_an_undo(place: Path, count: int) -> int:
    """Return how often the journal is committed to undo a turn of so many calls."""
    tools, ran = ToolRegistry(), list[str]()
    tools.handler("n.give", idempotent=True)(lambda n: None)
    tools.tool("n.take", **undone_by("n.give", "n"))(lambda n: None)
    session = f"s{count}"
    with closing(
        AgentUndo.open(place, session=session, tools=tools, policy=FREE)
    ) as au:
        with au.turn("many") as turn:
            for n in range(count):
                turn.call("n.take", n=n)
        journal_of(au).db._connection.set_trace_callback(ran.append)
        assert au.undo("t-1").status == "reversed"
    return sum(sql.startswith("COMMIT") for sql in ran)


def test_an_inverse_costs_one_commit(place: Path) -> None:
    """The claim of the next one is written with the outcome of the one before."""
    assert commits_of_an_undo(place, 25) - commits_of_an_undo(place, 5) == 20


async def test_calls_are_written_down_outside_of_the_loop(place: Path) -> None:
    """However many calls run at once, the loop of the program goes on."""
    tools, writers = ToolRegistry(), set[int]()
    tools.tool("n.take", reversibility=Reversibility.READ_ONLY)(lambda n: None)

    def traced(_: str) -> None:
        writers.add(threading.get_ident())

    async with AsyncAgentUndo.open(place, session="s", tools=tools, policy=FREE) as au:
        connection = journal_of(au).db._connection
        async with au.turn("many") as turn:
            connection.set_trace_callback(traced)
            await asyncio.gather(*(turn.call("n.take", n=n) for n in range(20)))
            connection.set_trace_callback(None)
    assert writers
    assert threading.get_ident() not in writers


def test_a_stop_iteration_of_a_tool_is_raised_as_it_is(place: Path) -> None:
    """TX-07: Python makes a RuntimeError of it in a generator, and the core is one."""
    tools = ToolRegistry()

    def newest() -> object:
        return next(iter(()))

    tools.tool("it.newest", reversibility=Reversibility.READ_ONLY)(newest)
    with (
        AgentUndo.open(place, session="s", tools=tools) as au,
        pytest.raises(StopIteration) as caught,
        au.turn("go") as turn,
    ):
        turn.call("it.newest")
    assert caught.value.undo_report.ok  # type: ignore[attr-defined]


@pytest.mark.parametrize("coroutine", [False, True])
async def test_an_inverse_that_raises_generator_exit_has_failed(
    front: Front, coroutine: bool
) -> None:
    """It closes no generator of ours: the other inverses run."""
    done: list[str] = []

    def undo(name: str) -> None:
        if name == "b":
            raise GeneratorExit
        done.append(name)

    async def undo_later(name: str) -> None:
        undo(name)

    later = coroutine and front.name == "async"
    front.tools.handler("it.undo", idempotent=True)(undo_later if later else undo)
    front.tools.tool("it.do", **undone_by("it.undo", "name"), retry=Retry(attempts=1))(
        lambda name: None
    )
    session = front.session()
    async with session.turn() as turn:
        for name in ("a", "b", "c"):
            await turn.call("it.do", name=name)
    report = await session.undo("t-1")
    assert [item.reason for item in report.items] == [None, "failed", None]
    assert (done, [one.undo for one in session.au.attention()]) == (
        ["c", "a"],
        ["failed"],
    )
