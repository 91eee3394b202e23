"""AN-30: a savepoint takes back what belongs to it, state and artifacts too, in every store."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.errors import TurnClosed
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import UndoEntry
from tests.sdk.turns.front import Front, Session, fails
from tests.sdk.turns.recorded import Recorded
from tests.sdk.turns.world import BoomError, World, undone_by


async def failed(session: Session) -> UndoReport:
    """Run a turn whose savepoint fails; return that part's report."""
    async with session.turn("go") as turn:
        await turn.set_state(k="outer", mine=1)
        await turn.save("plan", b"outer")
        with pytest.raises(BoomError) as caught:
            async with turn.savepoint("risky"):
                await turn.call("draft.create", title="inner")
                await turn.set_state(k="inner", new=2, **{"user:x": 3})
                await turn.set_state(mine=None)
                await turn.save("plan", b"inner")
                await turn.save("notes", b"inner")
                raise BoomError("x")
        assert session.au.state == {"k": "outer", "mine": 1}
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert isinstance(report, UndoReport)
    return report


async def test_a_savepoint_takes_back_the_state_of_its_part(
    front: Front, world: World
) -> None:
    """AN-30: keys get the values from before it, those of other scopes too, as in a rollback."""
    session = front.session()
    report = await failed(session)
    assert {(one.domain, one.path, one.state) for one in report.items if one.path} == {
        ("state", "k", "reversed"),
        ("state", "mine", "reversed"),
        ("state", "new", "reversed"),
        ("state", "user:x", "reversed"),
        ("artifacts", "plan", "reversed"),
        ("artifacts", "notes", "reversed"),
    }
    assert report.state_delta == {"k": "outer", "mine": 1, "new": None, "user:x": None}
    assert (report.target, report.status) == ("t-1:risky", "reversed")
    assert world.state["drafts"] == {}
    assert session.au.state == {"k": "outer", "mine": 1}
    assert session.au.artifacts.load("plan") == b"outer"
    assert session.au.artifacts.load("notes") is None


async def test_what_was_said_in_it_stays(front: Front) -> None:
    """AN-30, TX-12: the conversation is not transactional; nothing is deleted."""
    session = front.session()
    async with session.turn() as turn, fails(turn.savepoint("risky")):
        await turn.say("user", "a word", kind="user")
        await turn.set_state(k=1)
    events = session.au.live_events()
    assert [one.text for one in events if one.kind == "user"] == ["a word"]
    assert [one.text for one in events if one.author == "system"][-1] == (
        "Savepoint rolled back"
    )


async def test_savepoints_go_back_one_by_one(front: Front) -> None:
    """AN-30: an inner one to its own beginning, an outer one to what was before both."""
    session = front.session()
    async with session.turn() as turn:
        await turn.set_state(k=1)
        async with fails(turn.savepoint("outer")):
            await turn.set_state(k=2, o=2)
            async with fails(turn.savepoint("inner")):
                await turn.set_state(k=3, i=3)
            assert session.au.state == {"k": 2, "o": 2}
        assert session.au.state == {"k": 1}
        async with turn.savepoint("good"):
            await turn.set_state(k=4)
    assert session.au.state == {"k": 4}


async def test_the_turn_around_it_goes_back_as_ever(front: Front) -> None:
    """AN-30: an outer failure, and a later undo, take both parts back."""
    session = front.session()
    session.au.create({"k": "first"})
    await failed(session)
    report = await session.undo("t-1")
    assert (report.ok, session.au.state) == (True, {"k": "first"})
    async with fails(session.turn()) as turn:
        async with fails(turn.savepoint("risky")):
            await turn.set_state(k="inner")
        await turn.set_state(after=1)
    assert session.au.state == {"k": "first"}


async def test_a_savepoint_without_state_says_nothing_of_it(front: Front) -> None:
    """AN-30: no event where nothing was set, and what was set before it stays."""
    session = front.session()
    async with session.turn() as turn:
        await turn.set_state(k=1)
        before = len(session.au.events())
        with pytest.raises(BoomError) as caught:
            async with turn.savepoint("risky"):
                raise BoomError("x")
        assert len(session.au.events()) == before
    assert caught.value.undo_report.items == ()  # type: ignore[attr-defined]
    assert session.au.state == {"k": 1}


async def test_a_savepoint_past_no_return_keeps_its_state(front: Front) -> None:
    """AN-30, AN-35: what is kept up to a point of no return keeps its state too."""
    front.tools.tool("order.place", pivot=True)(lambda: None)
    session = front.session()
    async with session.turn() as turn, fails(turn.savepoint("risky")):
        await turn.set_state(k=1)
        await turn.call("order.place")
    assert session.au.state == {"k": 1}


async def test_a_savepoint_takes_files_effects_and_state_back(
    recorded: Recorded,
) -> None:
    """AN-30: one op for all of it."""
    session = recorded.front.session()
    async with session.turn() as turn:
        await turn.set_state(k=1)
        with pytest.raises(ValueError, match="no") as caught:
            async with turn.savepoint("risky"):
                await turn.call("shell.run", path="inner", text="2\n")
                await turn.call("draft.create", title="inner")
                await turn.set_state(k=2)
                raise ValueError("no")
    assert (recorded.text("inner"), session.au.state) == (None, {"k": 1})
    assert recorded.front.world.state["drafts"] == {}
    [op] = recorded.rows("ops")
    assert op["op_id"] == caught.value.undo_report.op_id  # type: ignore[attr-defined]


@dataclass
class Numbers:
    """A world of numbers, with a tool that adds one and can wait in between."""

    there: set[int] = field(default_factory=set)
    gates: dict[int, asyncio.Event] = field(default_factory=dict)

    def tools(self) -> ToolRegistry:
        tools = ToolRegistry()

        async def take(n: int) -> None:
            if n in self.gates:
                await self.gates[n].wait()
            self.there.add(n)

        tools.handler("n.give", idempotent=True)(lambda n: self.there.discard(n))
        tools.tool("n.take", **undone_by("n.give", "n"))(take)
        return tools


async def test_parallel_branches_keep_what_is_theirs(place: Path) -> None:
    """AN-30: one branch fails, the savepoints of the others are kept, and what they did."""
    world = Numbers()
    begun = asyncio.Event()
    async with AsyncAgentUndo.open(place, session="s", tools=world.tools()) as au:

        async def branch(n: int) -> None:
            async with turn.savepoint(f"b{n}"):
                await turn.call("n.take", n=n)
                await turn.set_state({f"k{n}": n})
                await turn.save_artifact(f"a{n}", b"x")
                if n == 1:
                    await begun.wait()
                    raise BoomError("x")
                await turn.call("n.take", n=n + 10)
                if n == 3:
                    begun.set()

        async with au.turn("go") as turn:
            ended = await asyncio.gather(
                *map(branch, (1, 2, 3)), return_exceptions=True
            )
        assert [type(one) for one in ended] == [BoomError, type(None), type(None)]
        report = ended[0].undo_report  # type: ignore[union-attr]
        assert (report.status, report.counts["reversed"]) == ("reversed", 3)
        assert (world.there, au.state) == ({2, 3, 12, 13}, {"k2": 2, "k3": 3})
        assert au.artifacts.list() == ["a2", "a3"]
        assert (await au.undo("t-1")).status == "reversed"
        assert (world.there, au.state) == (set(), {})


def test_threads_with_their_context_are_branches(place: Path) -> None:
    """AN-30: a thread without a copy of the context is outside of every savepoint."""
    there: set[int] = set()
    tools = ToolRegistry()
    tools.handler("n.give", idempotent=True)(lambda n: there.discard(n))
    tools.tool("n.take", **undone_by("n.give", "n"))(lambda n: there.add(n))

    def run(*works: Callable[[], object]) -> None:
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with AgentUndo.open(place, session="s", tools=tools) as au, au.turn("go") as turn:
        with pytest.raises(BoomError), turn.savepoint("risky"):
            turn.call("n.take", n=1)
            inside = partial(copy_context().run, turn.call, "n.take", n=2)
            run(
                inside,
                partial(turn.call, "n.take", n=3),
                partial(turn.set_state, {"k": 1}),
            )
            raise BoomError("x")
        assert (there, au.state) == ({3}, {"k": 1})


async def test_what_another_task_does_meanwhile_stays(place: Path) -> None:
    """AN-30: a call, a state write and an artifact outside of any savepoint."""
    world = Numbers()
    begun, done = asyncio.Event(), asyncio.Event()
    async with AsyncAgentUndo.open(place, session="s", tools=world.tools()) as au:

        async def beside() -> None:
            await begun.wait()
            await turn.call("n.take", n=2)
            await turn.set_state({"beside": 1, "both": "beside"})
            await turn.save_artifact("a", b"x")
            done.set()

        async with au.turn("go") as turn:
            task = asyncio.ensure_future(beside())
            with pytest.raises(BoomError) as caught:
                async with turn.savepoint("risky"):
                    await turn.call("n.take", n=1)
                    await turn.set_state({"mine": 1, "both": "mine"})
                    begun.set()
                    await done.wait()
                    raise BoomError("x")
            await task
        left = [one for one in caught.value.undo_report.items if one.reason]  # type: ignore[attr-defined]
        assert [(one.path, one.reason) for one in left] == [("both", "drifted")]
        assert (world.there, au.state) == ({2}, {"beside": 1, "both": "beside"})
        assert au.artifacts.list() == ["a"]


async def test_values_of_an_undone_branch_never_come_back(place: Path) -> None:
    """AN-30: what a branch wrote over is gone where that was undone before."""
    async with AsyncAgentUndo.open(place, session="s", tools=Numbers().tools()) as au:
        steps = [asyncio.Event() for _ in range(2)]

        async def first() -> None:
            async with turn.savepoint("a"):
                await turn.set_state({"k": "a"})
                steps[0].set()
                await steps[1].wait()
                raise BoomError("a")

        async def second() -> None:
            async with turn.savepoint("b"):
                await steps[0].wait()
                await turn.set_state({"k": "b"})
                steps[1].set()
                await asyncio.gather(one, return_exceptions=True)
                assert au.state == {"k": "b"}
                raise BoomError("b")

        async with au.turn("go") as turn:
            await turn.set_state({"k": "turn"})
            one = asyncio.ensure_future(first())
            await asyncio.gather(one, second(), return_exceptions=True)
        assert au.state == {"k": "turn"}


async def test_nothing_begins_in_a_savepoint_that_was_undone(place: Path) -> None:
    """A task that it left behind is told so, and has no effect."""
    world = Numbers()
    gone = asyncio.Event()
    async with AsyncAgentUndo.open(place, session="s", tools=world.tools()) as au:

        async def late() -> None:
            await gone.wait()
            await turn.call("n.take", n=1)

        async with au.turn("go") as turn:
            async with fails(turn.savepoint("risky")):
                task = asyncio.ensure_future(late())
            gone.set()
            with pytest.raises(TurnClosed, match="savepoint risky was undone"):
                await task
            await turn.call("n.take", n=2)
        assert world.there == {2}


async def test_a_savepoint_without_a_name_is_one(front: Front, world: World) -> None:
    """It does not undo the turn."""
    async with front.session().turn() as turn:
        await turn.set_state(k=1)
        await turn.call("draft.create", title="outer")
        async with fails(turn.savepoint("")):
            await turn.call("draft.create", title="inner")
    assert list(world.state["drafts"].values()) == ["outer"]


async def test_the_hosts_transaction_never_has_what_was_undone(front: Front) -> None:
    """AN-30, TX-01: it gets the calls of a savepoint when that is kept, in their order."""
    host = HostUndo()
    async with front.session(host=Host(undo=host)).turn() as turn:
        await turn.call("draft.create", "c1", title="1")
        async with turn.savepoint("kept"):
            await turn.call("draft.create", "c2", title="2")
            async with fails(turn.savepoint("inner")):
                await turn.call("draft.create", "c3", title="3")
                await turn.call("mail.send", "c4", to="a")
            assert host.calls == ["c1"]
        async with fails(turn.savepoint("undone")):
            await turn.call("draft.create", "c5", title="5")
        await turn.call("draft.create", "c6", title="6")
    # The mail was not undone, so the host must know of it.
    assert host.calls == ["c1", "c2", "c4", "c6", "commit"]


async def test_the_host_gets_nothing_of_a_branch_that_is_being_undone(
    place: Path,
) -> None:
    """AN-30: a savepoint beside it is kept while its own calls are undone."""
    host, world = HostUndo(), Numbers()
    kept = asyncio.Event()
    tools = world.tools()

    async def give(n: int) -> None:
        kept.set()
        await asyncio.sleep(0.1)

    tools.remove("n.give")
    tools.handler("n.give", idempotent=True)(give)
    async with AsyncAgentUndo.open(
        place, session="s", tools=tools, host=Host(undo=host)
    ) as au:

        async def fails() -> None:
            async with turn.savepoint("fails"):
                await turn.call("n.take", {"n": 1}, call_id="c1")
                raise BoomError("x")

        async def stays() -> None:
            async with turn.savepoint("stays"):
                await turn.call("n.take", {"n": 2}, call_id="c2")
                await kept.wait()

        async with au.turn("go") as turn:
            await asyncio.gather(fails(), stays(), return_exceptions=True)
    assert host.calls == ["c2", "commit"]


class HostUndo:
    """A host's own undo machinery."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin_transaction(self, label: str) -> "HostUndo":
        return self

    def add_entry(self, entry: UndoEntry) -> None:
        self.calls.append(entry.tool_call_id)

    def commit(self) -> None:
        self.calls.append("commit")

    def rollback(self) -> None:
        self.calls.append("rollback")


@pytest.mark.parametrize("by", ["savepoint", "undo"])
async def test_a_file_goes_back_to_the_savepoint(recorded: Recorded, by: str) -> None:
    """AN-30: what an outer call wrote to it is kept, without a daemon too."""
    session = recorded.front.session()
    recorded.hand("f", "old\n")
    path = str(recorded.repo.root / "f")
    async with session.turn() as turn:
        await turn.call("file.write", "outer", path=path, text="outer\n")
        with suppress(ValueError):
            async with turn.savepoint("risky"):
                await turn.call("shell.run", "inner", path="f", text="inner\n")
                if by == "savepoint":
                    raise ValueError("no")
    if by == "undo":
        assert (await session.undo("inner")).status == "reversed"
    assert recorded.text("f") == "outer\n"
    assert (await session.undo("t-1")).ok
    assert recorded.text("f") == "old\n"
