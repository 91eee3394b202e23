"""Buffers beside their files: which line is which, and what an edit of one is in the other."""

from hypothesis import given
from hypothesis import strategies as st

from gitshadow.lsp.documents import compared
from gitshadow.undo.merge import MergeEdit

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n"]), max_size=12)


def test_changed_lines_are_of_no_line_of_the_file() -> None:
    lines = compared("a\nnew\nb\nd\n", b"a\nb\nc\nd\n")
    assert lines.in_file == (0, None, 1, 3)
    assert lines.changes


def test_same_text_is_not_changed() -> None:
    lines = compared("a\n", b"a\n")
    assert (lines.in_file, lines.changes) == ((0,), ())


def test_edit_beside_a_change_of_the_buffer_is_not_carried() -> None:
    lines = compared("new\nb\nc\nd\n", b"a\nb\nc\nd\n")
    assert lines.carried(MergeEdit(1, 2, ())) is None
    assert lines.carried(MergeEdit(2, 3, ())) == MergeEdit(2, 3, ())


def test_edit_behind_longer_text_moves_with_it() -> None:
    lines = compared("x\ny\na\nb\n", b"a\nb\n")
    assert lines.carried(MergeEdit(1, 2, ())) == MergeEdit(3, 4, ())


@given(LINES, LINES)
def test_every_unchanged_line_is_one_of_the_file(
    buffer: list[bytes], file: list[bytes]
) -> None:
    lines = compared(b"".join(buffer).decode(), b"".join(file))
    assert len(lines.in_file) == len(buffer)
    known = [
        (at, number) for at, number in enumerate(lines.in_file) if number is not None
    ]
    assert all(buffer[at] == file[number] for at, number in known)
    assert [number for _, number in known] == sorted({number for _, number in known})
