"""A widget of very many rows: only the visible ones are drawn, a cursor stands on one.

Invariant: a row is cut to the width, never wrapped, so a row is one line of the screen.
"""

from collections.abc import Iterable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.input_line import LineScreen

_SIDEWAYS = 8
_FARTHEST = 4_000


class LineView(ScrollView, can_focus=True):
    """Show rows that a subclass counts and draws."""

    DEFAULT_CSS = """
    LineView {
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1)", "down", show=False),
        Binding("k,up", "step(-1)", "up", show=False),
        Binding("pagedown,ctrl+d,space", "page(1)", "page down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "page up", show=False),
        Binding("g,home", "first", "first line", show=False),
        Binding("G,end", "last", "last line", show=False),
        Binding("l", "sideways(1)", "to the right", show=False),
        Binding("h", "sideways(-1)", "to the left", show=False),
        Binding("F", "find", "find in the text", show=False),
    ]

    cursor: reactive[int] = reactive(0, repaint=False)
    shift: reactive[int] = reactive(0)
    """By how many cells the text is moved to the left."""

    _sought = ""

    class Moved(Message):
        """Say that the cursor stands on another row."""

    def on_show(self) -> None:
        """Leave out the scrollbar, which is drawn with blocks, where there is ASCII alone."""
        if not glyphs_of(self).unicode:
            self.styles.scrollbar_size_vertical = 0

    # -- what a subclass says ----------------------------------------------------------------

    def row_count(self) -> int:
        """Return how many rows there are."""
        raise NotImplementedError

    def draw(self, row: int, width: int, *, standing: bool) -> Iterable[Segment]:
        """Return one row; `standing` says that the cursor is on it."""
        raise NotImplementedError

    def said(self, row: int) -> str:
        """Return the text of a row, where it may be searched."""
        raise NotImplementedError

    @property
    def columns(self) -> int:
        """Return how many columns there are beside the scrollbar."""
        return self.scrollable_content_region.width

    # -- rows --------------------------------------------------------------------------------

    def changed(self, cursor: int = 0) -> None:
        """Take in that the rows are others now."""
        self.virtual_size = Size(1, self.row_count())
        self.cursor = self._within(cursor)
        self.show_cursor()
        self.refresh()

    def _within(self, row: int) -> int:
        return max(0, min(row, self.row_count() - 1))

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        row = self.scroll_offset.y + y
        width, style = self.columns, self.rich_style
        if row >= self.row_count():
            return Strip.blank(width, style)
        standing = row == self.cursor
        strip = Strip(self.draw(row, width, standing=standing))
        return strip.crop_extend(0, width, style)

    def shifted(self, parts: Iterable[Segment], width: int, fill: Style) -> Strip:
        """Return text in just so many cells, moved to the left as far as one has gone."""
        return Strip(parts).crop_extend(self.shift, self.shift + width, fill)

    # -- the cursor --------------------------------------------------------------------------

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two rows anew and tell."""
        if self.is_mounted:
            self.refresh_lines(old)
            self.refresh_lines(new)
            self.post_message(self.Moved())

    def go(self, row: int) -> None:
        """Put the cursor on a row and show it."""
        self.cursor = self._within(row)
        self.show_cursor()

    def show_cursor(self) -> None:
        """Scroll so far that the cursor is seen, and no further."""
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, immediate=True)

    def on_resize(self, event: events.Resize) -> None:
        """Keep the cursor on the screen whatever becomes of its size."""
        del event
        self.show_cursor()

    def action_step(self, by: int) -> None:
        """Move the cursor by some rows."""
        self.go(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by some screens."""
        self.go(self.cursor + by * max(1, self.size.height - 1))

    def action_first(self) -> None:
        """Go to the first row."""
        self.go(0)

    def action_last(self) -> None:
        """Go to the last row."""
        self.go(self.row_count() - 1)

    def action_sideways(self, by: int) -> None:
        """Move the text sideways."""
        self.shift = max(0, min(_FARTHEST, self.shift + by * _SIDEWAYS))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is."""
        self.go(self.scroll_offset.y + event.y)

    # -- finding -----------------------------------------------------------------------------

    def action_find(self) -> None:
        """Ask for a text and go to the next row that has it."""

        def find(typed: str | None) -> None:
            if typed:
                self.find(typed)

        self.app.push_screen(LineScreen("find in this text", self._sought), find)

    def find(self, wanted: str) -> None:
        """Go to the next row that has a text, after the last one to the first.

        Small letters stand for large ones too.
        """
        self._sought = wanted
        count, small = self.row_count(), wanted.islower()
        for step in range(1, count + 1):
            row = (self.cursor + step) % count
            said = self.said(row)
            if wanted in (said.lower() if small else said):
                self.go(row)
                return
        self.notify(f"no line contains {glyphs_of(self).text(wanted)}", markup=False)
