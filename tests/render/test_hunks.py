"""Hunks of diffs as values: the edits that they make, whatever the lines look like."""

import difflib
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gitshadow.render.hunks import PatchHunk, read_hunks
from gitshadow.undo.merge import MergeEdit

# Lines that look like heads, too.
LINES = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"-- c\n", b"\n", b"++ d\n"]), max_size=12
)


def _edits(lines: Sequence[str]) -> list[MergeEdit]:
    hunks = [one for one in read_hunks(lines) if isinstance(one, PatchHunk)]
    return [edit for hunk in hunks for edit, _ in hunk.edits()]


@given(LINES, LINES)
def test_hunks_of_a_diff_are_the_edits_that_it_makes(
    old: list[bytes], new: list[bytes]
) -> None:
    """The hunks are those of difflib, with git's heads."""
    was, now = ([line.decode().rstrip("\n") for line in side] for side in (old, new))
    shown = list(difflib.unified_diff(was, now, lineterm=""))[2:]
    made = list(old)
    for edit in reversed(_edits(shown)):
        made[edit.start : edit.end] = edit.lines
    assert made == new


def test_line_without_an_end_stays_one() -> None:
    end = "\\ No newline at end of file"
    lines = ["@@ -1 +1 @@", "-a", end, "+b", end]
    assert _edits(lines) == [MergeEdit(0, 1, (b"b",))]


def test_line_that_is_in_no_hunk_is_given_as_it_is() -> None:
    lines = ["old mode 100644", "@@ -1,0 +2 @@", "+b", "\x1b", "", "@@ -x"]
    first, hunk, *rest = read_hunks(lines)
    assert (first, rest) == ("old mode 100644", ["\x1b", "", "@@ -x"])
    assert isinstance(hunk, PatchHunk)
    assert [edit for edit, _ in hunk.edits()] == [MergeEdit(1, 1, (b"b\n",))]
