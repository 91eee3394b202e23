"""TX rows: one undo transaction per turn."""

import asyncio
from collections.abc import Awaitable

import pytest

from gitshadow.errors import JournalError
from gitshadow.sdk.turns.errors import SessionBusy, ToolCallLimitExceeded
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Limits, Policy
from gitshadow.sdk.turns.values import UndoEntry
from tests.sdk.turns.front import Front, in_journal, journal_of
from tests.sdk.turns.world import BoomError, World


class Spy:
    """The host's own undo machinery; not ours by inheritance, only by shape."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.stack: list[UndoEntry] = []

    def begin_transaction(self, label: str) -> "Spy":
        self.log.append(f"begin {label}")
        return self

    def add_entry(self, entry: UndoEntry) -> None:
        self.log.append("add")
        self.stack.append(entry)

    def commit(self) -> None:
        self.log.append("commit")

    def rollback(self) -> None:
        self.log.append("rollback")
        self.stack.clear()


class FullDisk(Spy):
    """A host that cannot commit."""

    def commit(self) -> None:
        raise OSError("disk full")


class AsyncSpy:
    """The same with coroutine functions."""

    def __init__(self) -> None:
        self.plain = Spy()

    async def begin_transaction(self, label: str) -> "AsyncSpy":
        await asyncio.sleep(0)
        self.plain.begin_transaction(label)
        return self

    async def add_entry(self, entry: UndoEntry) -> None:
        self.plain.add_entry(entry)

    async def commit(self) -> None:
        self.plain.commit()

    async def rollback(self) -> None:
        self.plain.rollback()


async def test_a_turn_is_one_transaction(front: Front) -> None:
    """TX-01."""
    spy = Spy()
    session = front.session(host=Host(undo=spy))
    async with session.turn("go") as turn:
        for title in "abc":
            await turn.call("draft.create", title=title)
    assert spy.log == ["begin go", "add", "add", "add", "commit"]


async def test_a_turn_without_calls_is_one_transaction(front: Front) -> None:
    """TX-02."""
    spy = Spy()
    session = front.session(host=Host(undo=spy))
    async with session.turn("talk") as turn:
        pass
    assert spy.log == ["begin talk", "commit"]
    assert [(one.id, one.status) for one in session.au.turns()] == [
        ("t-1", "committed")
    ]
    assert turn.inner.entries() == []


async def test_the_transaction_begins_before_the_first_tool(
    front: Front, world: World
) -> None:
    """TX-03."""
    spy = Spy()
    world.before_call = spy.log.append
    async with front.session(host=Host(undo=spy)).turn("go") as turn:
        await turn.call("notes.read", note="n")
    assert spy.log == ["begin go", "notes.read", "add", "commit"]


async def test_the_label_is_kept(front: Front) -> None:
    """TX-04."""
    spy = Spy()
    session = front.session(host=Host(undo=spy))
    async with session.turn("rename clips"):
        pass
    assert spy.log[0] == "begin rename clips"
    assert session.au.turns()[0].label == "rename clips"


async def test_entries_are_recorded_around_a_tool_that_knows_nothing(
    front: Front,
) -> None:
    """TX-05."""

    def plain(a: int, b: int) -> int:
        return a + b

    front.tools.tool("math.add")(plain)
    async with front.session().turn() as turn:
        outcome = await turn.call("math.add", a=1, b=2)
    assert outcome.content == 3
    assert plain(1, 2) == 3
    assert [one.tool_name for one in turn.inner.entries()] == ["math.add"]


async def test_success_commits_and_no_inverse_runs(front: Front, world: World) -> None:
    """TX-06."""
    async with front.session().turn() as turn:
        await turn.call("crm.update", id=7, field="name", value="A")
        await turn.call("draft.create", title="x")
    assert turn.inner.status == "committed"
    assert world.inverses == []
    assert world.state["crm"]["7"]["name"] == "A"


async def test_a_raising_tool_rolls_back(front: Front, world: World) -> None:
    """TX-07, OUT-06: the original exception reaches the caller."""
    spy = Spy()
    with pytest.raises(BoomError, match="boom"):
        async with front.session(host=Host(undo=spy)).turn() as turn:
            await turn.call("crm.update", id=7, field="name", value="A")
            await turn.call("toy.boom")
    assert world.state["crm"]["7"]["name"] == "Y"
    assert turn.inner.status == "rolled_back"
    assert spy.log == ["begin a turn", "add", "rollback"]


async def test_a_limit_rolls_back(front: Front, world: World) -> None:
    """TX-08."""
    before = world.text
    policy = Policy(limits=Limits(tool_calls=2))
    session = front.session(policy=policy)
    with pytest.raises(ToolCallLimitExceeded):
        async with session.turn() as turn:
            for title in "abc":
                await turn.call("draft.create", title=title)
    assert world.text == before
    assert world.names.count("draft.create") == 2
    assert session.au.turns()[0].cause == "limit"


async def test_rollback_runs_inverses_in_reverse(front: Front, world: World) -> None:
    """TX-10."""
    with pytest.raises(BoomError):
        async with front.session().turn() as turn:
            for title in "abc":
                await turn.call("draft.create", title=title)
            await turn.call("toy.boom")
    assert [args["id"] for args in world.args("undo:draft")] == [11, 10, 9]


async def test_turns_are_independent(front: Front, world: World) -> None:
    """TX-11."""
    session = front.session()
    async with session.turn() as first:
        await first.call("draft.create", title="kept")
    with pytest.raises(BoomError):
        async with session.turn() as second:
            await second.call("draft.create", title="gone")
            await second.call("toy.boom")
    assert world.state["drafts"] == {"9": "kept"}
    assert [one.status for one in session.au.turns()] == ["committed", "rolled_back"]


async def test_a_hosts_own_undo_is_plugged_in(front: Front) -> None:
    """TX-13: sync, and with the async front coroutine functions too."""
    plain = Spy()
    spy: Spy | AsyncSpy = plain
    if front.name == "async":
        spy = AsyncSpy()
        plain = spy.plain
    with pytest.raises(BoomError):
        async with front.session(host=Host(undo=spy)).turn() as turn:
            await turn.call("draft.create", title="x")
            assert len(plain.stack) == 1
            await turn.call("toy.boom")
    assert plain.log[-1] == "rollback"
    assert plain.stack == []


async def test_only_real_work_is_undone(front: Front, world: World) -> None:
    """TX-16."""
    with pytest.raises(BoomError):
        async with front.session().turn() as turn:
            await turn.call("draft.create", title="x")
            await turn.call("toy.soft_fail")
            await turn.call("toy.stale")
            await turn.call("no.such")
            await turn.call("toy.boom")
    assert world.inverses == ["undo:draft"]


async def test_a_host_that_fails_to_commit_rolls_back(
    front: Front, world: World
) -> None:
    before, spy = world.text, FullDisk()
    with pytest.raises(OSError, match="disk full"):
        async with front.session(host=Host(undo=spy)).turn() as turn:
            await turn.call("draft.create", title="x")
    assert world.text == before
    assert turn.inner.status == "rolled_back"
    assert spy.log[-1] == "rollback"


async def test_a_host_that_fails_to_begin_has_no_turn(front: Front) -> None:
    class Failing(Spy):
        def begin_transaction(self, label: str) -> Spy:
            raise OSError("no document")

    session = front.session(host=Host(undo=Failing()))
    with pytest.raises(OSError, match="no document"):
        async with session.turn():
            raise AssertionError("the block must not run")
    assert [one.status for one in session.au.turns()] == ["rolled_back"]


async def test_a_host_that_fails_to_roll_back_does_not_hide_the_cause(
    front: Front,
) -> None:
    """AN-14: the report says so, the exception stays the first one."""

    class Failing(Spy):
        def rollback(self) -> None:
            raise OSError("stuck")

    with pytest.raises(BoomError):
        async with front.session(host=Host(undo=Failing())).turn() as turn:
            await turn.call("toy.boom")
    report = turn.report
    assert [(one.tool, one.error) for one in report.items] == [
        ("the host's undo", "stuck")
    ]
    assert turn.inner.status == "partially_rolled_back"


@in_journal
async def test_a_journal_that_fails_does_not_hide_the_cause(front: Front) -> None:
    """AN-14: the rollback stops, the exception goes on with a note, the next look finds it."""
    session = front.session()
    with pytest.raises(BoomError) as caught:
        async with session.turn() as turn:
            await turn.call("draft.create", title="x")
            journal_of(session.au).close()
            raise BoomError("first")
    assert caught.value.__notes__[0].startswith("the rollback stopped: cannot use")
    again = front.session()
    assert [one.status for one in again.au.turns()] == ["open"]
    report = await again.undo("t-1")
    assert [item.state for item in report.items] == ["reversed"]
    assert [one.status for one in again.au.turns()] == ["undone"]


@in_journal
async def test_a_journal_that_fails_to_commit_is_said(front: Front) -> None:
    session = front.session()
    with pytest.raises(JournalError):
        async with session.turn():
            journal_of(session.au).close()


async def test_a_session_has_one_turn_at_a_time(front: Front) -> None:
    """AN-13: the second raises, and nothing of it is written."""
    session, again = front.session(), front.session()
    async with session.turn():
        for other in (session, again):
            with pytest.raises(SessionBusy):
                async with other.turn():
                    raise AssertionError("the block must not run")
            with pytest.raises(SessionBusy):
                await other.undo("t-1")
        async with front.session("another").turn():
            pass
    assert len(session.au.turns()) == 1
    async with again.turn():
        pass


async def test_a_function_can_be_a_turn(front: Front) -> None:
    """The decorator form: committed when it returns, rolled back when it raises."""
    from gitshadow.sdk.turns.session import AgentUndo

    session = front.session()
    au = session.au
    if isinstance(au, AgentUndo):

        @au.undoable
        def job(number: int) -> int:
            return number + 1

        assert job(1) == 2
    else:

        @au.undoable
        async def later(number: int) -> int:
            return number + 1

        waiting: Awaitable[int] = later(1)
        assert await waiting == 2
    assert [one.status for one in au.turns()] == ["committed"]


async def test_a_savepoint_takes_back_its_own_part(front: Front, world: World) -> None:
    """AN-30: inner failure undoes inner only; outer failure undoes both, newest first."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", title="outer")
        with pytest.raises(BoomError) as caught:
            async with turn.savepoint("risky"):
                await turn.call("draft.create", title="inner")
                await turn.call("toy.boom")
        assert caught.value.undo_report.target == "t-1:risky"  # type: ignore[attr-defined]
        assert world.state["drafts"] == {"9": "outer"}
    assert turn.inner.status == "committed"
    assert world.state["drafts"] == {"9": "outer"}
    report = await session.undo("t-1")
    assert [(one.call_id, one.already) for one in report.items] == [
        ("t-1.2", True),
        ("t-1.1", False),
    ]
    assert world.state["drafts"] == {}
