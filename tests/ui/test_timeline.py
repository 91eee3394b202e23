"""The time line as values: events into blocks, marks, lanes, and the pages that are held."""

from gitshadow.messages.rows import OpRow
from gitshadow.messages.states import StatRow
from gitshadow.ui import paging
from gitshadow.ui.paging import PageWindow
from gitshadow.ui.timeline import (
    NOBODY,
    UNKNOWN,
    YOU,
    BlockKind,
    TimelineLine,
    blocks_of,
    files_of,
    lane_of,
    lettered,
    lines_of,
    marks_of,
    placed,
)
from tests.ui.samples import by_hand, gap, op_of, pin_of, wrote


def keys(*events: object) -> list[str]:
    """Return the keys of the blocks of some events."""
    return [block.key for block in blocks_of(events)]  # type: ignore[arg-type]


def test_burst_is_one_block_at_its_newest_event() -> None:
    """A burst that another one interrupts stays one."""
    events = [wrote(4, burst="b1"), wrote(3, burst="b2"), wrote(2, burst="b1")]
    assert keys(*events) == ["burst b1", "burst b2"]


def test_op_is_one_block_whatever_its_bursts() -> None:
    assert keys(wrote(2, burst="b", op="o"), wrote(1, op="o")) == ["op o"]


def test_what_git_switched_is_one_block_up_to_the_next_thing() -> None:
    switched = [wrote(seq)._replace(switched=True) for seq in (5, 4)]
    assert keys(*switched, wrote(3, burst="b"), switched[0]._replace(seq=2)) == [
        "loose 5",
        "burst b",
        "loose 2",
    ]


def test_gaps_are_never_one() -> None:
    assert keys(gap(2), gap(1)) == ["loose 2", "loose 1"]


def test_pins_stand_between_what_was_before_and_after() -> None:
    events = [wrote(30, burst="b3"), wrote(10, burst="b1")]
    pins = [
        pin_of("new", "2026-01-01T00:00:40.000000Z"),
        pin_of("mid", "2026-01-01T00:00:20.000000Z"),
        pin_of("old", "2026-01-01T00:00:01.000000Z"),
    ]
    assert [block.key for block in blocks_of(events, pins)] == [
        "pin new",
        "burst b3",
        "pin mid",
        "burst b1",
    ]


def test_only_a_sure_write_of_an_agent_lies_in_its_lane() -> None:
    assert lane_of(wrote(1)) == "S1"
    assert lane_of(wrote(1, confidence="ambiguous")) == UNKNOWN
    assert lane_of(by_hand(1)) == YOU
    assert lane_of(wrote(1, actor="unknown")) == UNKNOWN
    assert lane_of(gap(1)) == NOBODY


def test_files_of_events_are_told_by_what_became_of_them() -> None:
    events = (
        wrote(5, "c", kind="rename", old_path="b"),
        wrote(4, "d", kind="delete"),
        wrote(3, "d"),
        wrote(2, "b"),
        wrote(1, "b", kind="create"),
    )
    assert files_of(events) == (StatRow("c", "create"), StatRow("d", "delete"))


def test_lines_open_a_block_and_name_each_day_once() -> None:
    blocks = blocks_of([wrote(3, burst="b"), wrote(2, burst="b"), wrote(1, burst="a")])
    days = {"burst b": "Friday", "burst a": "Friday"}
    assert [line.key for line in lines_of(blocks, {"burst b"}, days)] == [
        "day Friday",
        "burst b",
        "event 3",
        "event 2",
        "burst a",
    ]
    assert TimelineLine(blocks[1]).key == "burst a"


def op(id: str, *undoes: str, undone_by: str = "", status: str = "done") -> OpRow:
    """Return an undo, late in the day."""
    return op_of(id, "undo", "2026-01-01T23:00:00Z", "", undoes, status, undone_by)


def test_marks_name_what_an_op_in_effect_took_back() -> None:
    """By burst, turn, session or single event; not by an op that was itself taken back."""
    marks = marks_of(
        [op("o1", "b1"), op("o2", "7"), op("o3", "S3"), op("o4", "b4", undone_by="o9")]
    )
    found = [
        marks.of(blocks_of([event])[0])
        for event in (
            wrote(1, burst="b1"),
            wrote(7, burst="b2"),
            wrote(2, burst="b3", session="S3"),
            wrote(3, burst="b4"),
        )
    ]
    assert [one.id if one else None for one in found] == ["o1", "o2", "o3", None]


def test_marks_count_the_files_when_some_of_a_block_were_undone() -> None:
    (block,) = blocks_of(
        [wrote(seq, f"f{seq}", burst="b1", session="S1") for seq in (4, 3, 2, 1)]
    )
    assert marks_of([op("o1", "3")]).part_of(block) == (1, 4)
    assert marks_of([op("o1", "4", "3", "2", "1")]).part_of(block) is None
    assert marks_of([op("o1", "b1")]).part_of(block) is None
    assert marks_of([]).part_of(block) is None


def test_part_of_a_block_taken_back_is_marked_by_what_was_named() -> None:
    """An undo of some hunks lists nothing as undone: the rest of it still can be."""
    part = op_of("o1", "undo", "", target="b1")
    restored = op_of("o2", "restore", "", target="b2")
    marks = marks_of([part, restored])
    assert marks.of(blocks_of([wrote(1, burst="b1")])[0]) == part
    assert marks.of(blocks_of([wrote(2, burst="b2")])[0]) is None


def test_what_is_being_applied_is_not_marked_yet() -> None:
    marks = marks_of([op("o1", "b1", status="applying")])
    assert marks.of(blocks_of([wrote(1, burst="b1")])[0]) is None


def test_letters_stay_when_others_come() -> None:
    first = lettered({}, ["S1", YOU])
    assert (first["S1"], first[YOU]) == ("A", "Y")
    then = lettered(first, ["S0", "S1"])
    assert (then["S1"], then["S0"]) == ("A", "B")


def test_letters_never_are_that_of_a_person_and_never_run_out() -> None:
    letters = lettered({}, [f"S{number}" for number in range(60)])
    given = [letters[f"S{number}"] for number in range(60)]
    assert "Y" not in given
    assert len(set(given[:50])) == 50
    assert set(given[50:]) == {"*"}


def test_lanes_that_overlap_lie_beside_each_other() -> None:
    """As in `git log --graph`: a column is free again below the last block of its lane."""
    found = placed(["S1", "S2", YOU, "S1", NOBODY, "S3"], 8)
    assert [place.column for place in found] == [2, 3, 0, 2, -1, 2]
    assert found[1].beside == (2,)
    assert found[4].beside == ()


def test_lanes_without_a_free_column_share_the_last() -> None:
    found = placed(["S1", "S2", "S3", "S3", "S2", "S1"], 3)
    assert [place.column for place in found] == [2] * 6


def page(newest: int, count: int = paging.PAGE) -> tuple[object, ...]:
    """Return a page of rows, newest first."""
    return tuple(wrote(seq) for seq in range(newest, newest - count, -1))


def test_window_grows_downwards_and_lets_go_above() -> None:
    window = paging.opened(page(100_000), newer=False)  # type: ignore[arg-type]
    while len(window.rows) < paging.HELD:
        assert not window.newer
        window = paging.with_older(window, page(window.oldest - 1))  # type: ignore[arg-type]
    window = paging.with_older(window, page(window.oldest - 1))  # type: ignore[arg-type]
    assert (len(window.rows), window.newer, window.older) == (paging.HELD, True, True)
    seqs = [row.seq for row in window.rows]
    assert seqs == list(range(seqs[0], seqs[0] - paging.HELD, -1))


def test_window_grows_upwards_and_lets_go_below() -> None:
    window = PageWindow(page(3000, paging.HELD), newer=True, older=False)  # type: ignore[arg-type]
    window = paging.with_newer(window, page(3010, 10))  # type: ignore[arg-type]
    assert (len(window.rows), window.newest, window.oldest) == (paging.HELD, 3010, 11)
    assert (window.newer, window.older) == (False, True)


def test_rows_on_the_screen_stay_however_many_they_are() -> None:
    """Storms: thousands of rows in a few lines, which would else slide out by themselves."""
    window = PageWindow(page(9000, paging.HELD), older=True)  # type: ignore[arg-type]
    window = paging.with_older(window, page(6000), keep=9000)  # type: ignore[arg-type]
    assert (window.newest, window.newer, window.older) == (9000, False, True)
    assert window.is_heavy
    assert window.page > paging.PAGE
    window = paging.with_older(window, page(5750), keep=8000)  # type: ignore[arg-type]
    assert (window.newest, len(window.rows), window.newer) == (8500, paging.HELD, True)


def test_no_more_than_the_most_is_held_whatever_is_on_the_screen() -> None:
    window = PageWindow(page(90_000, paging.MOST), older=True)  # type: ignore[arg-type]
    assert window.is_full
    window = paging.with_older(window, page(50_000, 10), keep=90_000)  # type: ignore[arg-type]
    assert (len(window.rows), window.newest) == (paging.MOST, 89_990)
    window = paging.with_newer(window, page(90_000, 10), keep=1)  # type: ignore[arg-type]
    assert (len(window.rows), window.newest, window.older) == (
        paging.MOST,
        90_000,
        True,
    )


def test_rows_that_come_twice_are_held_once() -> None:
    window = PageWindow(page(10, 5), newer=True, older=False)  # type: ignore[arg-type]
    grown = paging.with_newer(window, page(12, 5))  # type: ignore[arg-type]
    assert [row.seq for row in grown.rows] == [12, 11, 10, 9, 8, 7, 6]


def test_kinds_are_told_by_keys() -> None:
    blocks = blocks_of([wrote(3, op="o"), wrote(2, burst="b"), gap(1)])
    assert [block.kind for block in blocks] == [
        BlockKind.OP,
        BlockKind.BURST,
        BlockKind.LOOSE,
    ]
