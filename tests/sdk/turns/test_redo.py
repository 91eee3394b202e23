"""Redo of a whole undo, rewinds with files, and going back to where one has been before."""

from collections.abc import Sequence

import pytest

from gitshadow.errors import RefusedError, UsageError
from gitshadow.sdk.turns.report import UndoReport
from tests.sdk.turns.front import Session
from tests.sdk.turns.recorded import Recorded


async def three_turns(recorded: Recorded, session: Session) -> None:
    """Run three turns; each sets a state, writes a file of its own and adds to one of all."""
    recorded.hand("shared", "start\n")
    for number in (1, 2, 3):
        async with session.turn(f"turn {number}") as turn:
            await turn.say("user", f"ask {number}", kind="user")
            await turn.set_state(k=number)
            await turn.call("draft.create", f"d{number}", title=str(number))
            await turn.call("shell.run", path=f"own{number}", text="agent\n")
            text = (recorded.text("shared") or "") + f"line {number}\n"
            await turn.call("shell.run", path="shared", text=text)


def files(report: UndoReport) -> Sequence[tuple[str | None, str]]:
    """Return path and state of the files of a report."""
    return [
        (item.path, item.state.value)
        for item in report.items
        if item.domain.value == "files"
    ]


async def test_redo_brings_files_and_state_forward(recorded: Recorded) -> None:
    """AN-23: equal to before; no forward effect is fired again, and that is said."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    words = [message.text for message in session.au.messages()]
    undone = await session.undo("t-3")
    assert session.au.state == {"k": 2}
    assert recorded.text("shared") == "start\nline 1\nline 2\n"
    calls = recorded.front.world.names
    assert undone.op_id is not None
    report = await session.redo(undone.op_id)
    assert session.au.state == {"k": 3}
    assert recorded.text("shared") == "start\nline 1\nline 2\nline 3\n"
    assert recorded.text("own3") == "agent\n"
    assert [message.text for message in session.au.messages()] == words
    assert recorded.front.world.names == calls
    left = [item for item in report.items if item.state == "not_reversed"]
    assert [(item.call_id, item.reason) for item in left] == [("d3", "non_reversible")]
    assert report.kind == "redo"


async def test_a_turn_is_undone_once_all_of_it_is(recorded: Recorded) -> None:
    session = recorded.front.session()

    def status() -> list[str]:
        return [turn.status for turn in session.au.turns()]

    async with session.turn() as turn:
        await turn.set_state(k=1)
        await turn.call("crm.update", "c", id=7, field="name", value="A")
    async with session.turn() as turn:
        await turn.call("mail.send", to="ann@example.com")
    part = await session.undo("t-1", scope={"state"})
    assert status() == ["committed", "committed"]
    undone = await session.undo("t-1")
    await session.undo("t-2")
    # A mail is never taken back.
    assert status() == ["undone", "committed"]
    # The undo that found nothing left has nothing to give back.
    again = await session.undo("t-1")
    await session.redo(str(again.op_id))
    assert status() == ["undone", "committed"]
    # What only a part of the undo took is given back; the turn is undone still.
    await session.redo(str(part.op_id))
    assert status() == ["undone", "committed"]
    await session.redo(str(undone.op_id))
    assert status() == ["committed", "committed"]


async def test_second_redo_says_too_what_it_does_not_make_again(
    recorded: Recorded,
) -> None:
    """AN-23: undone, redone, undone and redone: the effect is gone since the first undo."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    for _ in range(2):
        undone = await session.undo("t-3")
        assert undone.op_id is not None
        report = await session.redo(undone.op_id)
        left = [item.call_id for item in report.items if item.state == "not_reversed"]
        assert left == ["d3"]
        assert report.status == "partial"


async def test_redo_twice_changes_nothing_more(recorded: Recorded) -> None:
    """AN-23."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    undone = await session.undo("t-3", scope={"files", "state"})
    assert undone.op_id is not None
    await session.redo(undone.op_id)
    again = await session.redo(undone.op_id)
    assert (again.status, again.exit_code) == ("nothing_to_do", 0)
    assert (recorded.text("own3"), session.au.state) == ("agent\n", {"k": 3})


async def test_undo_works_again_after_redo(recorded: Recorded) -> None:
    """AN-23: undo, redo, undo is undo; effects stay taken back."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    undone = await session.undo("t-3")
    assert undone.op_id is not None
    await session.redo(undone.op_id)
    report = await session.undo("t-3")
    assert report.ok
    assert recorded.text("own3") is None
    assert session.au.state == {"k": 2}


async def test_only_undos_can_be_taken_back(recorded: Recorded) -> None:
    """AN-23: an id that names no undo of this session is a usage error."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    with pytest.raises(UsageError, match="no such undo"):
        await session.redo("op-0")


async def test_a_rewind_gives_files_back_too(recorded: Recorded) -> None:
    """AN-26: all but effects by default; the newest turn's files first."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    recorded.hand("shared", "person\n" + (recorded.text("shared") or ""))
    report = await session.rewind("t-2")
    assert recorded.text("shared") == "person\nstart\nline 1\n"
    assert (recorded.text("own1"), recorded.text("own2")) == ("agent\n", None)
    assert session.au.state == {"k": 1}
    assert [one.what for one in report.not_covered] == [
        "draft.create d2",
        "draft.create d3",
    ]
    assert files(report) == [
        ("own2", "reversed"),
        ("own3", "reversed"),
        ("shared", "reversed"),
    ]


async def test_a_rewind_may_leave_files_alone(recorded: Recorded) -> None:
    """AN-26: `scope` chooses."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    report = await session.rewind("t-2", scope={"state", "events"})
    assert (files(report), recorded.text("own3")) == ([], "agent\n")
    assert session.au.state == {"k": 1}


async def test_a_rewind_can_be_taken_back(recorded: Recorded) -> None:
    """AN-23: state, files and conversation as they were before it."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    before = (session.au.state, recorded.text("shared"), session.au.messages())
    report = await session.rewind("t-2")
    assert report.op_id is not None
    await session.redo(report.op_id)
    after = (session.au.state, recorded.text("shared"), session.au.messages())
    assert after == before


async def test_rewinding_before_a_rewind_takes_it_back_with_its_files(
    recorded: Recorded,
) -> None:
    """AN-23, EVT: as ADK has it, but the files come along."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    before = (session.au.state, recorded.text("shared"), recorded.text("own3"))
    report = await session.rewind("t-2")
    await session.rewind(f"r-{report.marker_event}")
    after = (session.au.state, recorded.text("shared"), recorded.text("own3"))
    assert after == before


async def test_a_point_that_was_rewound_is_allowed_without_effects(
    recorded: Recorded,
) -> None:
    """AN-24: for state, artifacts and files."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    await session.rewind("t-2")
    async with session.turn() as turn:
        await turn.set_state(k=9)
        await turn.call("shell.run", path="own9", text="agent\n")
    report = await session.rewind("t-2")
    assert report.ok
    assert (session.au.state, recorded.text("own9")) == ({"k": 1}, None)


async def test_a_point_that_was_rewound_is_refused_with_effects(
    recorded: Recorded,
) -> None:
    """AN-24: a clear error that names the reason, and nothing is changed."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    await session.rewind("t-2", effects=True)
    before = session.au.events()
    with pytest.raises(RefusedError, match="not repeated") as caught:
        await session.rewind("t-2", effects=True)
    assert caught.value.exit_code == 5
    assert session.au.events() == before


async def test_undo_last_goes_back_with_files(recorded: Recorded) -> None:
    """UC-01: again, one further."""
    session = recorded.front.session()
    await three_turns(recorded, session)
    await session.undo_last()
    assert recorded.text("shared") == "start\nline 1\nline 2\n"
    await session.undo_last()
    assert recorded.text("shared") == "start\nline 1\n"
    assert recorded.text("own2") is None


async def test_a_and_b_begin_from_the_same_files(recorded: Recorded) -> None:
    """UC-04: variant B sees what A saw; both runs are kept and listed."""
    session = recorded.front.session()
    recorded.hand("shared", "start\n")

    async def variant(line: str) -> tuple[object, object]:
        context = (recorded.text("shared"), session.au.messages())
        async with session.turn("same prompt") as turn:
            await turn.say("user", "go", kind="user")
            await turn.call("shell.run", path="shared", text=f"start\n{line}\n")
        return context

    a = await variant("A")
    await session.undo_last()
    b = await variant("B")
    assert a == b
    assert recorded.text("shared") == "start\nB\n"
    assert [turn.label for turn in session.au.turns()] == ["same prompt"] * 2
