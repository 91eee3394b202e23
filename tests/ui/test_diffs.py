"""A patch on the screen: what is drawn of it, and how one walks through it."""

import threading
from collections.abc import Callable

import pytest
from textual.geometry import Region

from gitshadow.ui.data_source import Answered, Waiting, ask
from gitshadow.ui.diffs import DiffView, Tint, TokenKind, tints
from gitshadow.ui.patches import Patch, patch_of
from tests.support.screens import Play, play
from tests.support.waiting import HANGS_S
from tests.ui.samples import files_of_git

PATCH = """\
diff --git a/app.py b/app.py
index 1111111111..2222222222
--- a/app.py
+++ b/app.py
@@ -1,3 +1,3 @@
 import os
-old = 1
+new = 2
 print(os)
@@ -40 +40,2 @@
 last
+\ttab\x1b[2J
diff --git a/logo.png b/logo.png
index 1111111111..2222222222
Binary files a/logo.png and b/logo.png differ
"""


def _patch(text: str) -> Patch | None:
    return patch_of(files_of_git(text)) if text else None


class Shown(DiffView):
    """Show a patch from the start."""

    def __init__(self, patch: str = PATCH) -> None:
        super().__init__()
        self.given = patch

    def on_mount(self) -> None:
        self.show(_patch(self.given), title="turn [x]")


class Asking(Shown):
    """Show the answers to questions about patches, as the screen does."""

    ended = 0

    def on_answered(self, message: Answered) -> None:
        message.deliver()

    def on_waiting(self, message: Waiting) -> None:
        self.ended += not message.begun

    def ask(self, question: Callable[[], Patch | None]) -> None:
        ask(self, "the diff", question, self.show)


def test_a_large_patch_does_not_come_after_the_one_shown_since() -> None:
    view = Asking("")
    entered, let_go = threading.Event(), threading.Event()

    def large() -> Patch | None:
        entered.set()
        assert let_go.wait(HANGS_S)
        return _patch(PATCH.replace("app.py", "large.py"))

    async def steps(on: Play) -> None:
        view.ask(large)
        await on.until(entered.is_set, "the first question")
        view.ask(lambda: _patch(PATCH))
        await on.seen("app.py")
        let_go.set()
        # An answer comes before the message that its question has ended.
        await on.until(lambda: view.ended == 2, "the end of both questions")
        await on.pilot.pause()
        assert "large.py" not in on.text()
        await on.seen("app.py")

    play(view, steps)


def _lines(text: str) -> list[str]:
    """Return what is on the screen without the mark of the cursor and the scrollbar."""
    return [line[1:79].rstrip() for line in text.splitlines()]


def test_a_patch_is_shown_with_signs_and_numbers() -> None:
    async def steps(on: Play) -> None:
        shown = _lines(await on.seen("app.py", "binary content"))
        assert shown[:12] == [
            "app.py",
            "@@ -1,3 +1,3 @@",
            " 1  import os",
            " 2 -old = 1",
            " 2 +new = 2",
            " 3  print(os)",
            "@@ -40 +40,2 @@",
            "40  last",
            r"41 +    tab\x1b[2J",
            "logo.png",
            "binary content",
            "",
        ]

    play(Shown(), steps, size=(79, 24))


def test_a_wide_screen_shows_both_numbers() -> None:
    async def steps(on: Play) -> None:
        shown = await on.seen("app.py")
        assert " 2    -old = 1" in shown
        assert "    2 +new = 2" in shown

    play(Shown(), steps, size=(90, 24))


def test_s_shows_it_side_by_side_where_there_is_room() -> None:
    view = Shown()

    async def steps(on: Play) -> None:
        await on.seen("app.py")
        await on.press("s")
        shown = await on.seen("│")
        row = next(line for line in shown.splitlines() if "old = 1" in line)
        left, right = row.split("│")
        assert (left[1:].rstrip(), right.rstrip()) == (" 2 -old = 1", " 2 +new = 2")
        await on.pilot.resize_terminal(80, 24)
        await on.until(lambda: "│" not in on.text())
        assert " 2 +new = 2" in on.text()

    play(view, steps, size=(120, 24))


def test_n_goes_to_the_next_hunk_and_stays_there_side_by_side() -> None:
    view = Shown()

    async def steps(on: Play) -> None:
        await on.seen("app.py")
        await on.press("n", "n")
        assert _head(view) == "@@ -40 +40,2 @@"
        await on.press("s")
        assert _head(view) == "@@ -40 +40,2 @@"
        await on.press("N")
        assert _head(view) == "@@ -1,3 +1,3 @@"
        await on.press("right_square_bracket")
        assert view.place is not None
        assert (view.place.file.path, view.place.hunk) == ("logo.png", None)

    play(view, steps, size=(120, 24))


def _head(view: DiffView) -> str | None:
    place = view.place
    return None if place is None or place.hunk is None else place.hunk.head


def test_the_mouse_puts_the_cursor_on_a_line() -> None:
    view = Shown()

    async def steps(on: Play) -> None:
        await on.seen("app.py")
        await on.pilot.click(view, offset=(5, 7))
        await on.until(lambda: _head(view) == "@@ -40 +40,2 @@")

    play(view, steps)


def test_a_text_is_found_in_the_lines() -> None:
    view = Shown()

    async def steps(on: Play) -> None:
        await on.seen("app.py")
        await on.press("F")
        await on.seen("find in this text")
        await on.press(*"new", "enter")
        await on.until(lambda: view.line == 2 and view.cursor == 4)
        await on.press("F")
        await on.seen("find in this text")
        await on.press("x", "enter")
        await on.seen("no line contains newx")

    play(view, steps)


def test_long_lines_are_cut_and_can_be_moved() -> None:
    line = "begin " + "x" * 100 + " end"
    view = Shown(f"diff --git a/a b/a\n@@ -0,0 +1 @@\n+{line}\n")

    async def steps(on: Play) -> None:
        assert "end" not in await on.seen("begin")
        await on.press(*["l"] * 8)
        await on.seen("end")
        await on.press(*["h"] * 8)
        await on.seen("begin")

    play(view, steps)


def test_a_line_of_a_megabyte_is_shown_cut_with_a_mark() -> None:
    view = Shown(f"diff --git a/a b/a\n@@ -0,0 +1 @@\n+{'x' * 1_000_000}\n")

    async def steps(on: Play) -> None:
        await on.seen("+xxxx")
        on.type(*["l"] * 245)
        await on.seen("[998000 more characters]")

    play(view, steps)


def test_a_patch_of_many_lines_is_walked_through_to_its_end() -> None:
    body = "".join(f"+line {number}\n" for number in range(40_000))
    view = Shown(f"diff --git a/a b/a\n@@ -0,0 +1,40000 @@\n{body}")

    async def steps(on: Play) -> None:
        await on.seen("line 7")
        await on.press("G")
        await on.seen("line 39999")
        await on.press("g")
        await on.seen("line 0")

    play(view, steps)


def test_nothing_is_shown_of_an_empty_patch() -> None:
    view = Shown("")

    async def steps(on: Play) -> None:
        await on.press("j", "n", "N", "G", "enter")
        assert on.text().strip("▁ \n") == ""
        assert view.place is None

    play(view, steps)


@pytest.mark.parametrize("theme", ["textual-light", "textual-dark", "ansi-light"])
def test_more_and_less_have_signs_in_every_theme(theme: str) -> None:
    async def steps(on: Play) -> None:
        on.app.theme = theme
        await on.seen("-old = 1", "+new = 2")

    play(Shown(), steps)


def test_without_colour_nothing_is_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    view = Shown()

    async def steps(on: Play) -> None:
        await on.seen("-old = 1", "+new = 2")
        strips = view.render_lines(Region(0, 0, *view.size))
        styles = [part.style for strip in strips for part in strip if part.style]
        colours = [one for style in styles for one in (style.color, style.bgcolor)]
        shown = {one.get_truecolor() for one in colours if one is not None}
        assert shown
        assert {one for one in shown if len(set(one)) > 1} == set(), "not a grey"

    play(view, steps)


def test_keywords_texts_and_comments_are_told_apart() -> None:
    assert tints("src/app.py", ["return 'x'  # why"]) == [
        [
            Tint(0, 6, TokenKind.KEYWORD),
            Tint(7, 10, TokenKind.STRING),
            Tint(12, 17, TokenKind.COMMENT),
        ]
    ]


def test_a_text_over_several_lines_is_one_on_each() -> None:
    found = tints("app.py", ['x = """one', 'two"""', "if y:"])
    assert [tint.kind for tint in found[1]] == [TokenKind.STRING]
    assert [tint.kind for tint in found[2]] == [TokenKind.KEYWORD]


@pytest.mark.parametrize("path", ["README", "x.nothing-like-it", "", "a/.py/"])
def test_what_is_of_no_known_type_has_no_colours(path: str) -> None:
    assert tints(path, ["if x:", "return 1"]) == [[], []]


def test_a_line_that_is_no_source_text_has_no_colours() -> None:
    assert tints("app.py", ["if x:", "x" * 5_000]) == [[], []]


def test_the_colours_arrive_after_the_lines() -> None:
    view = Shown()

    async def steps(on: Play) -> None:
        await on.seen("import os")
        await on.until(lambda: _colours(view) > 1, "the keyword in its own colour")

    play(view, steps)


def _colours(view: DiffView) -> int:
    row = next(y for y in range(24) if "import os" in view.render_line(y).text)
    parts = [
        part for part in view.render_line(row) if part.text.strip() in ("import", "os")
    ]
    return len({part.style.color for part in parts if part.style})
