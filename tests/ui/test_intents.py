"""What the keys of change ask for where they are pressed, and when they ask for nothing."""

import pytest

from gitshadow.errors import UsageError
from gitshadow.messages.history import HistoryRow
from gitshadow.messages.lists import PinRow
from gitshadow.ui import intents
from gitshadow.ui.timeline import TimelineLine, blocks_of
from tests.support.screens import wish_of
from tests.ui.samples import pin_of, rare, row, wrote


def line(*rows: HistoryRow, pins: tuple[PinRow, ...] = ()) -> TimelineLine:
    """Return the first block of some rows as a line."""
    return TimelineLine(blocks_of(rows, pins)[0])


PIN = line(row(1), pins=(pin_of("before", "2026-01-02T00:00:00Z"),))
TURN = line(row(8, "t1", files=2))
GROUP = line(row(8, "b-1", kind="changes"))
UNDO = line(row(9, "u3", kind="undo", actor="human", session="H1"))


def test_block_is_undone_by_its_id_and_a_file_of_it_alone() -> None:
    assert intents.undo(TURN) == wish_of("undo", ("t1",))
    assert intents.undo(TURN, "a") == wish_of("undo", ("t1",), only=("a",))
    assert intents.undo(GROUP) == wish_of("undo", ("b-1",))
    assert intents.undo(UNDO) == wish_of("undo", ("u3",))


def test_one_write_of_a_block_is_undone_by_its_number() -> None:
    event = TURN._replace(event=wrote(7))
    assert intents.undo(event) == wish_of("undo", ("7",))


def test_turn_and_session_are_undone_by_their_ids() -> None:
    assert intents.undo_turn(TURN) == wish_of("undo", ("t1",))
    assert intents.undo_session(TURN) == wish_of("undo", ("S1",))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: intents.undo(None), "nothing is selected"),
        (lambda: intents.undo(line(rare(1, "gap"))), "no file was changed"),
        (lambda: intents.undo(line(rare(1, "coverage"))), "no file was changed"),
        (lambda: intents.undo(PIN), "R restores"),
        (lambda: intents.undo(line(rare(1, "head", files=9))), "Git switched"),
        (lambda: intents.undo_turn(GROUP), "not part of a turn"),
        (lambda: intents.undo_session(line(rare(1, "gap"))), "no session"),
    ],
)
def test_where_nothing_can_be_undone_the_reason_is_said(make: object, why: str) -> None:
    assert callable(make)
    with pytest.raises(UsageError, match=why):
        make()


def test_redo_is_of_the_op_that_took_the_block_back_else_of_the_newest() -> None:
    undone = line(row(8, "t1", undone=1, undone_by="o1"))
    assert intents.redo(undone) == wish_of("redo", ("o1",))
    assert intents.redo(TURN) == wish_of("redo")
    assert intents.redo(UNDO) == wish_of("redo", ("u3",))
    assert intents.redo(line(row(9, "u4", kind="redo"))) == wish_of("redo")


def test_restore_is_of_the_moment_after_what_is_selected() -> None:
    assert intents.restore(TURN) == wish_of("restore", at="8")
    assert intents.restore(TURN, "a") == wish_of("restore", paths=("a",), at="8")
    assert intents.restore(TURN._replace(event=wrote(7))) == wish_of("restore", at="7")
    assert intents.restore(PIN) == wish_of("restore", pin="before")
