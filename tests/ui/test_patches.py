"""Text of patches as values: what is drawn of them, and that nothing stops it."""

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.messages.states import FileDiff
from gitshadow.render.hunks import PatchLine
from gitshadow.ui.patches import (
    CHARACTERS,
    Pair,
    of_hunk,
    paired,
    patch_of,
)
from tests.ui.samples import files_of_git

PATCH = """\
diff --git a/src/app.py b/src/app.py
index 1111111111..2222222222
--- a/src/app.py
+++ b/src/app.py
@@ -1,3 +1,4 @@ def run():
 one
-two
+2
+two and a half
 three
@@ -10 +11 @@
-ten
\\ No newline at end of file
+ten!
"""


def test_a_patch_is_read_with_the_numbers_of_its_lines() -> None:
    (file,) = patch_of(files_of_git(PATCH)).files
    first, second = file.hunks
    assert (file.path, file.title, file.notes) == ("src/app.py", "src/app.py", ())
    assert first.head == "@@ -1,3 +1,4 @@ def run():"
    assert first.lines == (
        PatchLine(" ", "one", 1, 1),
        PatchLine("-", "two", 2, None),
        PatchLine("+", "2", None, 2),
        PatchLine("+", "two and a half", None, 3),
        PatchLine(" ", "three", 3, 4),
    )
    assert second.lines == (
        PatchLine("-", "ten", 10, None, ended=False),
        PatchLine("+", "ten!", None, 11),
    )


def changed(path: str, old_path: str, header: tuple[str, ...]) -> FileDiff:
    return FileDiff(path, old_path, header, ())


@pytest.mark.parametrize(
    ("diff", "title", "notes"),
    [
        (
            changed("a b", "a b", ("old mode 100644", "new mode 100755")),
            "a b",
            ("mode was 100644", "mode is now 100755"),
        ),
        (
            changed("y", "x", ("rename from x", "rename to y")),
            "x → y",
            ("renamed from x",),
        ),
        (
            changed(
                "logo.png",
                "logo.png",
                ("index 1..2", "Binary files a/logo.png and b/logo.png differ"),
            ),
            "logo.png",
            ("binary content",),
        ),
        (
            changed(
                "tab\there",
                "tab\there",
                ("new file mode 100644", "content is missing from the object store"),
            ),
            '"tab\\there"',
            ("new file, mode 100644", "content is missing from the object store"),
        ),
        (
            changed("gone", "gone", ("deleted file mode 100755",)),
            "gone",
            ("deleted, mode was 100755",),
        ),
        (changed("é", "é", ("index 1..2",)), "é", ()),
    ],
)
def test_what_lines_cannot_say_is_a_note(
    diff: FileDiff, title: str, notes: tuple[str, ...]
) -> None:
    (file,) = patch_of([diff]).files
    assert (file.path, file.title, file.notes) == (diff.path, title, notes)


def _hunk(*lines: str) -> list[FileDiff]:
    return [FileDiff("a", "a", (), lines)]


def test_a_line_that_looks_like_a_head_belongs_to_its_hunk() -> None:
    (file,) = patch_of(_hunk("@@ -1,2 +1,1 @@", "--- b/other", " two")).files
    assert [line.text for line in file.hunks[0].lines] == ["-- b/other", "two"]


def test_control_characters_are_escaped() -> None:
    (file,) = patch_of(_hunk("@@ -0,0 +1 @@", "+a\x1b[2J\tb\r")).files
    assert file.hunks[0].lines[0].text == r"a\x1b[2J    b\r"


def test_a_line_of_a_megabyte_is_cut_and_says_so() -> None:
    patch = patch_of(_hunk("@@ -0,0 +1 @@", f"+{'x' * 1_000_000}"))
    (line,) = patch.files[0].hunks[0].lines
    assert (len(line.text), line.left_out) == (CHARACTERS, 1_000_000 - CHARACTERS)


def test_a_huge_patch_is_taken_in_part_and_says_so() -> None:
    lines = (f"+{number}" for number in range(100))
    patch = patch_of(_hunk("@@ -0,0 +1,100 @@", *lines), limit=11)
    assert len(patch.files[0].hunks[0].lines) == 10
    assert patch.left_out == 90


def test_the_bare_lines_of_a_plan_are_read() -> None:
    (file,) = of_hunk("a", ["old mode 100644", "new mode 100755"]).files
    assert file.notes == ("mode was 100644", "mode is now 100755")
    (file,) = of_hunk("a\x1b", ["@@ -1 +1 @@", "-x", "+y"]).files
    assert file.title == r"a\x1b"
    assert [line.sign for line in file.hunks[0].lines] == ["-", "+"]


def test_what_was_replaced_stands_beside_what_replaced_it() -> None:
    same, less, more, new = (
        PatchLine(" ", "one", 1, 1),
        PatchLine("-", "two", 2, None),
        PatchLine("+", "2", None, 2),
        PatchLine("+", "3", None, 3),
    )
    assert list(paired([same, less, more, new])) == [
        Pair(same, same),
        Pair(less, more),
        Pair(None, new),
    ]


_WORDS = st.sampled_from(
    [
        "diff --git a/x b/x",
        'diff --git "a/\\3" b',
        "@@ -1,2 +1,2 @@",
        "@@ -1 +0,0 @@ f",
        "--- a/x",
        "+++ b/x",
        "rename from x",
        "rename to y",
        "\\ No newline",
        "+",
        "-",
    ]
)
_ANY_LINE = st.one_of(_WORDS, st.text(st.characters(), max_size=12))


_ANY_LINES = st.lists(_ANY_LINE, max_size=30)


@given(_ANY_LINE, _ANY_LINE, _ANY_LINES, _ANY_LINES)
def test_any_text_is_read_without_a_control_character(
    path: str, old_path: str, header: list[str], hunks: list[str]
) -> None:
    """ROB-12: for every text, whatever it claims to be."""
    shown: list[str] = []
    diff = FileDiff(path, old_path, tuple(header), tuple(hunks))
    for file in patch_of([diff]).files:
        shown += [file.title, *file.notes]
        for hunk in file.hunks:
            shown += [hunk.head, *(line.text for line in hunk.lines)]
    found = {unicodedata.category(char) for char in "".join(shown)}
    assert found & {"Cc", "Cs", "Zl", "Zp"} == set()


_LINES = st.lists(st.tuples(st.sampled_from(" +-"), st.text("ab -+@\\", max_size=5)))


def _numbered(drawn: Sequence[tuple[str, str]]) -> list[PatchLine]:
    old = new = 1
    lines: list[PatchLine] = []
    for sign, text in drawn:
        less, more = sign != "+", sign != "-"
        lines.append(
            PatchLine(sign, text, old if less else None, new if more else None)
        )
        old, new = old + less, new + more
    return lines


@given(_LINES)
def test_parsing_takes_formatting_back(drawn: list[tuple[str, str]]) -> None:
    lines = _numbered(drawn)
    old = sum(line.old is not None for line in lines)
    new = sum(line.new is not None for line in lines)
    body = (line.sign + line.text for line in lines)
    patch = patch_of(_hunk(f"@@ -1,{old} +1,{new} @@", *body))
    assert list(patch.files[0].hunks[0].lines) == lines


@given(_LINES)
def test_side_by_side_keeps_every_line_once(drawn: list[tuple[str, str]]) -> None:
    """On the left what was there, on the right what is there, each in its order."""
    lines = _numbered(drawn)
    pairs = list(paired(lines))
    left = [pair.left for pair in pairs if pair.left is not None]
    right = [pair.right for pair in pairs if pair.right is not None]
    assert left == [line for line in lines if line.sign != "+"]
    assert right == [line for line in lines if line.sign != "-"]
