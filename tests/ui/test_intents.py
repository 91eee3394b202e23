"""What the keys of change ask for where they are pressed, and when they ask for nothing."""

import pytest

from gitshadow.errors import UsageError
from gitshadow.messages.lists import PinRow
from gitshadow.messages.rows import EventRow
from gitshadow.ui import intents
from gitshadow.ui.timeline import TimelineLine, UndoMarks, blocks_of, marks_of
from tests.support.screens import wish_of
from tests.ui.samples import gap, op_of, pin_of, wrote


def line(*events: EventRow, pins: tuple[PinRow, ...] = ()) -> TimelineLine:
    """Return the first block of some events as a line."""
    return TimelineLine(blocks_of(events, pins)[0])


PIN = line(wrote(1), pins=(pin_of("before", "2026-01-02T00:00:00Z"),))
BURST = line(wrote(8, "b", burst="b1", turn="t1"), wrote(7, burst="b1", turn="t1"))


def test_block_is_undone_by_its_burst_and_a_file_of_it_alone() -> None:
    assert intents.undo(BURST) == wish_of("undo", ("b1",))
    assert intents.undo(BURST, "a") == wish_of("undo", ("b1",), only=("a",))


def test_one_write_of_a_block_is_undone_by_its_number() -> None:
    event = BURST._replace(event=wrote(7))
    assert intents.undo(event) == wish_of("undo", ("7",))


def test_turn_and_session_are_undone_by_their_ids() -> None:
    assert intents.undo_turn(BURST) == wish_of("undo", ("t1",))
    assert intents.undo_session(BURST) == wish_of("undo", ("S1",))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: intents.undo(None), "nothing is selected"),
        (lambda: intents.undo(line(gap(1))), "no file was changed"),
        (lambda: intents.undo(PIN), "R restores"),
        (lambda: intents.undo(line(wrote(1)._replace(switched=True))), "Git switched"),
        (lambda: intents.undo_turn(line(wrote(1, burst="b"))), "not part of a turn"),
        (lambda: intents.undo_session(line(gap(1))), "no session"),
    ],
)
def test_where_nothing_can_be_undone_the_reason_is_said(make: object, why: str) -> None:
    assert callable(make)
    with pytest.raises(UsageError, match=why):
        make()


def test_redo_is_of_the_op_that_took_the_block_back_else_of_the_newest() -> None:
    ops = (op_of("o1", "undo", "2026-01-03T00:00:00Z", undoes=("b1",), status="done"),)
    assert intents.redo(BURST, marks_of(ops)) == wish_of("redo", ("o1",))
    assert intents.redo(BURST, UndoMarks()) == wish_of("redo")
    assert intents.redo(line(wrote(9, op="o1")), marks_of(ops)) == wish_of(
        "redo", ("o1",)
    )


def test_restore_is_of_the_moment_after_what_is_selected() -> None:
    assert intents.restore(BURST) == wish_of("restore", at="8")
    assert intents.restore(BURST, "a") == wish_of("restore", paths=("a",), at="8")
    assert intents.restore(PIN) == wish_of("restore", pin="before")
