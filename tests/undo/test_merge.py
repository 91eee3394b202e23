"""Merging lines: what is kept, what is taken, what is a conflict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.undo.merge import (
    Labels,
    count_changes,
    mark,
    matching_blocks,
    merge,
    split_lines,
)

_LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"x"]), max_size=12)


@pytest.mark.parametrize(
    ("base", "before", "present", "merged"),
    [
        (b"1\n2\n3\n", b"0\n2\n3\n", b"1\n2\n4\n", b"0\n2\n4\n"),
        (b"1\nagent\n", b"1\n", b"1\nagent\nhuman\n", b"1\nhuman\n"),
        (b"agent\n1\n", b"1\n", b"human\nagent\n1\n", b"human\n1\n"),
        (b"s\n2\n", b"1\n2\n", b"s\nt\n", b"1\nt\n"),
        (b"s\n", b"1\n", b"t\n", None),
        (b"1\n2\n", b"1\nold\n2\n", b"1\nnew\n2\n", None),
        (b"1\nagent\n", b"1", b"1\nagent\nhuman\n", None),
        (b"x\n", b"x\n", b"", b""),
        (b"", b"", b"", b""),
    ],
)
def test_merge_takes_one_side_s_change_out_of_the_other(
    base: bytes, before: bytes, present: bytes, merged: bytes | None
) -> None:
    assert merge(base, before, present) == merged


def test_mark_writes_both_sides_with_the_line_ends_of_the_present() -> None:
    data, count = mark(
        b"s\r\n2\r\n", b"1\r\n2\r\n", b"t\r\n2\r\n", Labels("old", "yours")
    )
    assert count == 1
    assert data == (b"<<<<<<< old\r\n1\r\n=======\r\nt\r\n>>>>>>> yours\r\n2\r\n")


def test_mark_gives_a_marker_its_own_line_when_the_file_has_no_end() -> None:
    data, count = mark(b"s", b"1", b"t", Labels("old", "yours"))
    assert (count, data) == (1, b"<<<<<<< old\n1\n=======\nt\n>>>>>>> yours\n")


@given(_LINES)
def test_lines_join_to_what_was_split(lines: list[bytes]) -> None:
    data = b"".join(lines)
    split = split_lines(data)
    assert b"".join(split) == data
    assert all(line.endswith(b"\n") for line in split[:-1])


@given(_LINES, _LINES)
def test_matching_blocks_are_equal_and_rising(a: list[bytes], b: list[bytes]) -> None:
    blocks = matching_blocks(a, b)
    assert blocks[-1] == (len(a), len(b), 0)
    at_a = at_b = 0
    for start_a, start_b, length in blocks:
        assert (start_a, start_b) >= (at_a, at_b)
        assert start_a >= at_a
        assert start_b >= at_b
        assert a[start_a : start_a + length] == b[start_b : start_b + length]
        at_a, at_b = start_a + length, start_b + length


@given(_LINES, _LINES)
def test_merge_is_the_other_side_when_one_did_not_change(
    a: list[bytes], b: list[bytes]
) -> None:
    one, two = b"".join(a), b"".join(b)
    assert merge(one, one, two) == two
    assert merge(one, two, one) == two
    assert merge(one, two, two) == two


def test_a_changed_line_counts_as_added_and_removed() -> None:
    assert count_changes(b"1\n2\n3\n", b"1\nx\n3\n4\n") == (2, 1)
    assert count_changes(b"\0", b"1\n") is None


def test_merge_is_quick_when_a_long_file_repeats_its_lines() -> None:
    base = b"".join(b"}\n\n" for _ in range(4000))
    present = b"human\n" + base
    before = base + b"old\n"
    assert merge(base, before, present) == b"human\n" + base + b"old\n"


def test_lines_that_are_unique_only_between_others_are_matched_however_deep() -> None:
    levels = 1_500  # more than Python may nest calls
    lines = [b"%d\n" % n for k in range(levels, 0, -1) for n in (k - 1, k)]
    other = [
        one
        for at, line in enumerate(lines)
        for one in ((line, b"new %d\n" % at) if at % 2 else (line,))
    ]
    blocks = matching_blocks(lines, other)
    assert sum(size for _, _, size in blocks) == len(lines)
