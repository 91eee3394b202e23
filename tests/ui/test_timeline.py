"""The time line as values: rows as blocks, lanes, and the pages that are held."""

from gitshadow.messages.history import HistoryRow
from gitshadow.messages.states import StatRow
from gitshadow.ui import data_source
from gitshadow.ui.data_source import PageWindow
from gitshadow.ui.history import said_of
from gitshadow.ui.timeline import (
    NOBODY,
    UNKNOWN,
    YOU,
    Block,
    BlockKind,
    TimelineLine,
    blocks_of,
    files_of,
    lettered,
    lines_of,
    placed,
)
from tests.ui.samples import pin_of, rare, row, wrote


def test_pins_stand_between_what_was_before_and_after() -> None:
    pins = [
        pin_of("new", "2026-01-01T00:00:40.000000Z"),
        pin_of("mid", "2026-01-01T00:00:20.000000Z"),
        pin_of("old", "2026-01-01T00:00:01.000000Z"),
    ]
    assert [block.key for block in blocks_of([row(30), row(10)], pins)] == [
        "pin new",
        "main t30",
        "pin mid",
        "main t10",
    ]


def test_same_turn_in_two_worktrees_is_two_blocks() -> None:
    assert Block(row(1, "t1")).key != Block(row(2, "t1", worktree="wt")).key


def test_lane_is_that_of_who_wrote() -> None:
    assert Block(row(1)).lane == "S1"
    assert Block(row(1, actor="human")).lane == YOU
    assert Block(row(1, actor="unknown")).lane == UNKNOWN
    assert Block(rare(1, "gap")).lane == NOBODY


def test_block_is_undone_only_with_all_its_files() -> None:
    assert Block(row(1, files=4, undone=4)).is_undone
    assert not Block(row(1, files=4, undone=1)).is_undone
    assert not Block(rare(1, "gap", files=0)).is_undone


def test_block_knows_whether_a_text_is_in_it() -> None:
    known = Block(row(1, prompt="Make the Parser", paths=("src/a.py",)))
    assert known.holds("parser")
    assert known.holds("SRC")
    assert not known.holds("docs")
    assert known.is_whole
    assert not Block(row(1, files=4, paths=("a", "b", "c"))).is_whole
    assert Block(rare(1, "head", files=4005, note="main")).is_whole


def test_text_of_a_block_says_what_it_is() -> None:
    found = [
        said_of(Block(one))
        for one in (
            row(1, prompt="tidy up"),
            row(2, files=4, paths=("a", "b", "c")),
            row(3, kind="undo", note="t1", files=2, actor="human"),
            rare(4, "head", files=4005, note="main -> old"),
            rare(5, "head", note="commit 1", files=0),
            rare(6, "gap", note="killed", files=0),
            rare(7, "coverage", paths=("x",)),
        )
    ]
    assert found == [
        "tidy up",
        "a, b, c, ...",
        "undo t1: 2 files  (you)",
        "git switched 4005 files: main -> old",
        "git: commit 1",
        "gap: killed",
        "coverage: x",
    ]


def test_files_of_events_are_told_by_what_became_of_them() -> None:
    events = (
        wrote(5, "c", kind="rename", old_path="b"),
        wrote(4, "d", kind="delete"),
        wrote(3, "d"),
        wrote(2, "b"),
        wrote(1, "b", kind="create"),
    )
    assert files_of(events) == (StatRow("c", "create"), StatRow("d", "delete"))


def test_lines_open_a_block_and_name_each_day_but_today_once() -> None:
    blocks = blocks_of([row(5, "t3"), row(3, "t2"), row(1, "t1")])
    days = {"main t3": "Saturday", "main t2": "Friday", "main t1": "Friday"}
    opened = {"main t2": (wrote(3), wrote(2))}
    assert [line.key for line in lines_of(blocks, opened, days, "Saturday")] == [
        "main t3",
        "day Friday",
        "main t2",
        "event 3",
        "event 2",
        "main t1",
    ]
    assert TimelineLine(blocks[2]).key == "main t1"


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


def page(newest: int, count: int = data_source.PAGE) -> tuple[HistoryRow, ...]:
    """Return a page of rows, newest first."""
    return tuple(row(seq) for seq in range(newest, newest - count, -1))


def test_window_grows_downwards_and_lets_go_above() -> None:
    window = PageWindow(page(100_000), older=True)
    while len(window.rows) <= data_source.HELD - data_source.PAGE:
        assert not window.newer
        window = data_source.with_older(window, page(window.oldest - 1))
    window = data_source.with_older(window, page(window.oldest - 1))
    assert (len(window.rows), window.newer, window.older) == (
        data_source.HELD,
        True,
        True,
    )
    seqs = [one.seq for one in window.rows]
    assert seqs == list(range(seqs[0], seqs[0] - data_source.HELD, -1))
    assert not data_source.with_older(window, page(window.oldest - 1, 3)).older


def test_window_grows_upwards_and_lets_go_below() -> None:
    window = PageWindow(page(3000, data_source.HELD), newer=True, older=False)
    window = data_source.with_newer(window, page(3010, 10))
    assert (len(window.rows), window.newest) == (data_source.HELD, 3010)
    assert window.oldest == 3011 - data_source.HELD
    assert (window.newer, window.older) == (False, True)


def test_row_that_has_grown_replaces_the_loaded_one() -> None:
    window = PageWindow((row(8, "t2"), row(7, "t1")))
    grown = data_source.with_newer(window, (row(9, "t1", files=2),))
    assert [(one.id, one.seq) for one in grown.rows] == [("t1", 9), ("t2", 8)]


def test_rows_that_come_twice_are_held_once() -> None:
    window = PageWindow(page(10, 5), newer=True, older=False)
    grown = data_source.with_older(window, page(8, 5))
    assert [one.seq for one in grown.rows] == [10, 9, 8, 7, 6, 5, 4]


def test_kinds_are_told_by_rows() -> None:
    rows = [row(4, kind="oops"), row(3), row(2, kind="changes"), rare(1, "gap")]
    blocks = blocks_of(rows, [pin_of("p", "2026-01-02T00:00:00Z")])
    assert [block.kind for block in blocks] == [
        BlockKind.PIN,
        BlockKind.OP,
        BlockKind.CHANGES,
        BlockKind.CHANGES,
        BlockKind.RARE,
    ]
