"""Buffers beside their files: which line is which, and what an edit of one is in the other."""

from hypothesis import given
from hypothesis import strategies as st

from gitshadow.lsp.buffers import mapped
from gitshadow.undo.merge import MergeEdit

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n"]), max_size=12)


def test_changed_lines_are_of_no_line_of_the_file() -> None:
    lines = mapped([b"a\n", b"new\n", b"b\n", b"d\n"], [b"a\n", b"b\n", b"c\n", b"d\n"])
    assert lines.in_file == (0, None, 1, 3)
    assert lines.is_changed


def test_same_text_is_not_changed() -> None:
    lines = mapped([b"a\n"], [b"a\n"])
    assert (lines.in_file, lines.is_changed) == ((0,), False)


def test_edit_beside_a_change_of_the_buffer_is_not_carried() -> None:
    lines = mapped([b"new\n", b"b\n", b"c\n", b"d\n"], [b"a\n", b"b\n", b"c\n", b"d\n"])
    assert lines.carried(MergeEdit(1, 2, ())) is None
    assert lines.carried(MergeEdit(2, 3, ())) == MergeEdit(2, 3, ())


def test_edit_behind_longer_text_moves_with_it() -> None:
    lines = mapped([b"x\n", b"y\n", b"a\n", b"b\n"], [b"a\n", b"b\n"])
    assert lines.carried(MergeEdit(1, 2, ())) == MergeEdit(3, 4, ())


@given(LINES, LINES)
def test_every_unchanged_line_is_one_of_the_file(
    buffer: list[bytes], file: list[bytes]
) -> None:
    lines = mapped(buffer, file)
    assert len(lines.in_file) == len(buffer)
    known = [
        (at, number) for at, number in enumerate(lines.in_file) if number is not None
    ]
    assert all(buffer[at] == file[number] for at, number in known)
    assert [number for _, number in known] == sorted({number for _, number in known})
