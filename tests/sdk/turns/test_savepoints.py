"""AN-30: a savepoint takes back state and artifacts of its part as well, in every store."""

import pytest

from gitshadow.sdk.turns.report import UndoReport
from tests.sdk.turns.front import Front, Session
from tests.sdk.turns.recorded import Recorded
from tests.sdk.turns.world import BoomError, World


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
    async with session.turn() as turn:
        with pytest.raises(BoomError):
            async with turn.savepoint("risky"):
                await turn.say("user", "a word", kind="user")
                await turn.set_state(k=1)
                raise BoomError("x")
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
        with pytest.raises(BoomError):
            async with turn.savepoint("outer"):
                await turn.set_state(k=2, o=2)
                with pytest.raises(BoomError):
                    async with turn.savepoint("inner"):
                        await turn.set_state(k=3, i=3)
                        raise BoomError("x")
                assert session.au.state == {"k": 2, "o": 2}
                raise BoomError("x")
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
    with pytest.raises(BoomError):
        async with session.turn() as turn:
            with pytest.raises(BoomError):
                async with turn.savepoint("risky"):
                    await turn.set_state(k="inner")
                    raise BoomError("x")
            await turn.set_state(after=1)
            raise BoomError("y")
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
    async with session.turn() as turn:
        with pytest.raises(BoomError):
            async with turn.savepoint("risky"):
                await turn.set_state(k=1)
                await turn.call("order.place")
                raise BoomError("x")
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
