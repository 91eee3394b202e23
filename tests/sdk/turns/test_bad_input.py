"""What others get wrong: hosts, clocks, processes, inverses. Each alone, and named."""

import os
import signal
from pathlib import Path

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.session import AgentUndo, Turn
from gitshadow.sdk.turns.values import Inverse, Retry, Reversibility
from tests.sdk.turns.front import FREE, AnyTurn, Front
from tests.sdk.turns.test_transaction import Spy
from tests.sdk.turns.world import World, decorated, registry, undone_by


class Hasty(Spy):
    """A host that ends the turn once more from within its own commit."""

    def __init__(self) -> None:
        super().__init__()
        self.turn: AnyTurn | None = None

    def commit(self) -> object:  # type: ignore[override]
        super().commit()
        assert self.turn is not None
        if isinstance(self.turn.inner, Turn):
            self.turn.inner.__exit__(None, None, None)
            return None
        return self.turn.inner.__aexit__(None, None, None)


async def test_a_turn_that_is_ended_twice_commits_once(front: Front) -> None:
    """Bad input: a provider that commits twice, from within and afterwards."""
    spy = Hasty()
    session = front.session(host=Host(undo=spy))
    turn = spy.turn = session.turn()
    async with turn:
        await turn.call("draft.create", title="a")
    await turn.__aexit__(None, None, None)
    assert spy.log.count("commit") == 1
    assert "rollback" not in spy.log
    kinds = [row.kind for row in session.au.log()]
    assert kinds.count("turn_committed") == 1


async def test_a_clock_that_goes_back_orders_nothing(
    front: Front, world: World
) -> None:
    """Bad input: calls, turns, undos and rewinds follow each other by their rows."""
    hours = iter(range(10_000, 0, -1))
    host = Host(clock=lambda: next(hours) * 3_600_000_000_000)
    session = front.session(host=host)
    for value in ("A", "B"):
        async with session.turn() as turn:
            await turn.call("crm.update", id=7, field="name", value=value)
            await turn.call("crm.update", id=7, field="city", value=value)
            await turn.set_state(name=value)
    report = await session.undo("t-2")
    assert [item.call_id for item in report.items if item.call_id] == ["t-2.2", "t-2.1"]
    assert session.au.state == {"name": "A"}
    assert world.state["crm"]["7"] == {"name": "A", "city": "A"}
    await session.rewind("t-2")
    assert session.au.state == {"name": "A"}
    assert [(row.id, row.ordinal) for row in session.au.turns()] == [
        ("t-1", 1),
        ("t-2", 2),
    ]
    assert (await session.undo("t-2")).already_undone
    assert session.au.verify() is None
    async with session.turn() as turn:
        assert turn.inner.id == "t-3"


class StoppedError(BaseException):
    """What an interrupt is to a program: no exception that anybody handles."""


async def test_an_inverse_that_is_interrupted_is_finished_later(
    front: Front, world: World
) -> None:
    """Bad input: Ctrl-C inside an inverse goes out; what was done is not done again."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", title="a")
        await turn.call("draft.create", title="b")

    def stop(name: str) -> None:
        if len(world.inverses) == 1:
            world.before_call = lambda name: None
            raise StoppedError

    world.before_call = stop
    with pytest.raises(StoppedError):
        await session.undo("t-1")
    (report,) = await session.recover()
    assert [item.state for item in report.items] == ["reversed", "reversed"]
    assert len(world.inverses) == 2
    assert world.state["drafts"] == {}


async def test_an_error_without_words_is_an_error(front: Front) -> None:
    """Bad input: an exception that cannot say what it is about."""

    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError("never")

    def fails() -> None:
        raise MuteError

    front.tools.handler("toy.undo", idempotent=True)(fails)
    front.tools.tool("toy.do", **undone_by("toy.undo"), retry=Retry(attempts=1))(
        lambda: None
    )
    session = await front.after("toy.do")
    (item,) = (await session.undo("t-1")).items
    assert (item.state, item.reason, item.error) == (
        "not_reversed",
        "failed",
        "MuteError",
    )


async def test_a_handler_that_does_not_fit_any_more_was_not_called(
    front: Front,
) -> None:
    """It is not in doubt, and the undo works once the handler fits again."""
    put: list[int] = []
    front.tools.handler("toy.put")(lambda price: put.append(price))
    front.tools.tool(
        "toy.do",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.tool("toy.put", price=1),
    )(lambda: None)
    session = await front.after("toy.do")
    for changed in (lambda: None, decorated(lambda: None)):
        front.tools.remove("toy.put")
        front.tools.handler("toy.put")(changed)
        (item,) = (await session.undo("t-1")).items
        assert item.reason in ("handler_missing", "failed")
        assert "price" in f"{item.detail} {item.error}"
    front.tools.remove("toy.put")
    front.tools.handler("toy.put")(lambda price: put.append(price))
    assert (await session.undo("t-1")).status == "reversed"
    assert put == [1]


def test_a_second_process_keeps_off_a_session_at_work(place: Path) -> None:
    """AN-13, bad input: turn, undo and rewind; once it is killed, its turn is interrupted."""
    world = World.make(place / "world")
    tools = registry(world)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with AgentUndo.open(str(place), session="s", tools=tools).turn("go") as turn:
            turn.call("draft.create", title="a")
            os.write(writing, b".")
            signal.pause()
    assert os.read(reading, 1) == b"."
    os.close(reading)
    os.close(writing)
    with AgentUndo.open(str(place), session="s", tools=tools, policy=FREE) as au:
        before = (au.turns(), au.calls("t-1"), au.log(), au.events())
        for act in (
            lambda: au.turn("mine").__enter__(),
            lambda: au.undo("t-1"),
            lambda: au.rewind("t-1"),
            lambda: au.recover(),
            lambda: au.resolve("t-1", "t-1.1", "reversed", note="x"),
        ):
            with pytest.raises(SessionBusy):
                act()
        assert (au.turns(), au.calls("t-1"), au.log(), au.events()) == before
        other = AgentUndo.open(str(place), session="other", tools=tools)
        with other, other.turn("elsewhere") as turn:
            assert turn.call("notes.read", note="n").ok
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert au.undo("t-1").status == "reversed"
        assert [turn.status for turn in au.turns()] == ["undone"]
    assert world.state["drafts"] == {}


async def test_a_session_that_is_closed_says_so(front: Front) -> None:
    session = await front.after("draft.create", title="a")
    session.au.close()
    said = r"^cannot use session .*: it is closed$"
    for use in (session.au.turns, session.au.attention, session.au.log):
        with pytest.raises(UsageError, match=said):
            use()
    with pytest.raises(UsageError, match=said):
        await session.undo("t-1")
    with pytest.raises(UsageError, match=said):
        await session.turn().__aenter__()
    session.au.close()
