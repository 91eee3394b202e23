"""Widgets of very many lines: lists with a selected line, and text to read.

Invariant: only the lines on the screen are drawn, each cut to the width of one line of the screen.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gitshadow.ui import keys
from gitshadow.ui.dialogs import LineScreen
from gitshadow.ui.glyphs import glyphs_of

_WHEEL = 3
_SIDEWAYS = 8
# Lines are cut to 2,000 characters before, and a character has at most two cells.
_FARTHEST = 4_000


class LineView(ScrollView, can_focus=True, inherit_bindings=False):
    """Show lines that a subclass counts and draws, one of them under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(keys.MOVING)
    COMPONENT_CLASSES: ClassVar[set[str]] = {"line--cursor"}
    DEFAULT_CSS = "LineView { overflow-x: hidden; overflow-y: scroll; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.cursor = 0
        self._base = Style.null()

    def row_count(self) -> int:
        """Return how many lines there are."""
        raise NotImplementedError

    def draw(self, row: int, width: int) -> Iterable[Segment]:
        """Return a line, safe to show; its styles are added to those of the widget."""
        raise NotImplementedError

    def can_stop(self, row: int) -> bool:
        """Return whether the cursor may be on a line."""
        del row
        return True

    def moved(self) -> None:
        """Do what follows a move of the cursor, or of the lines on the screen."""

    @property
    def columns(self) -> int:
        """Return how many columns there are without the scrollbar."""
        return self.scrollable_content_region.width

    @property
    def top(self) -> int:
        """Return the number of the first line on the screen."""
        return self.scroll_offset.y

    def changed(self, cursor: int = 0, top: int | None = None) -> None:
        """Draw other lines.

        Args:
            cursor: The line to put the cursor on.
            top: The first line on the screen, if the cursor can be seen then; None: as it is.
        """
        self.virtual_size = Size(1, self.row_count())
        if top is not None:
            self.scroll_to_line(top)
        self.refresh()
        self.go(cursor)

    def go(self, row: int, step: int = 1) -> None:
        """Put the cursor on a line, or on the next one in a direction where it may be."""
        old, count = self.cursor, self.row_count()
        row = max(0, min(count - 1, row))
        while 0 <= row < count and not self.can_stop(row):
            row += step
        if 0 <= row < max(1, count):
            self.cursor = row
        # Two lines are drawn again, not the screen: holding a key down moves many times a second.
        for changed in {old, self.cursor}:
            self.refresh_line(changed)
        self.show_cursor()

    def show_cursor(self) -> None:
        """Scroll until the cursor is seen, and no further."""
        height, top = max(1, self.size.height), self.top
        top = max(min(top, self.cursor), self.cursor - height + 1)
        top = min(top, max(0, self.row_count() - height))
        if self.cursor < height and not any(map(self.can_stop, range(top))):
            # A heading above the first line that can be selected is shown.
            top = 0
        self.scroll_to_line(top)
        self.moved()

    def scroll_to_line(self, row: int) -> None:
        """Show a line as the first one on the screen, as far as the end allows."""
        self.scroll_to(y=row, animate=False, immediate=True)

    def move(self, by: int) -> None:
        """Move by some lines."""
        self.go(self.cursor + by, 1 if by > 0 else -1)

    def action_line(self, by: int) -> None:
        """Go one line down or up."""
        self.move(by)

    def action_page(self, by: int) -> None:
        """Go a page down or up."""
        self.move(by * max(1, self.size.height - 1))

    def action_first(self) -> None:
        """Go to the first line."""
        self.go(0)

    def action_last(self) -> None:
        """Go to the last line."""
        self.go(self.row_count() - 1, -1)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is; a second click opens the line."""
        row = self.top + event.get_content_offset_capture(self).y
        if row < self.row_count() and self.can_stop(row):
            self.go(row)
            if event.chain == 2:
                self.call_later(self.screen.run_action, "into")

    def on_resize(self) -> None:
        """Keep the cursor on the screen."""
        self.show_cursor()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw some lines."""
        # textual computes the style of a widget at each call; once is enough here.
        self._base = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        row, width = self.top + y, self.columns
        base, cursor = self._base, Style.null()
        if row >= self.row_count():
            return Strip.blank(width, base)
        if row == self.cursor:
            cursor = self.get_component_rich_style("line--cursor", partial=True)
        parts = [
            Segment(part.text, base + (part.style or Style.null()) + cursor)
            for part in self.draw(row, width)
        ]
        return Strip(parts).adjust_cell_length(width, base + cursor)


class Listing(LineView):
    """Show lines to select from, without a scrollbar; the mouse wheel moves the cursor too."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"line--faint"}
    # The ground of the focused line is strong: its text has one colour, to be readable.
    DEFAULT_CSS = """
    Listing {
        height: 1fr; scrollbar-size-vertical: 0;
        background: $background; color: $foreground;
    }
    Listing > .line--cursor { background: $surface-lighten-2; text-style: bold; }
    Listing:focus > .line--cursor { background: $primary; color: $text; }
    Listing > .line--faint { color: $text-muted; }
    """

    def faint(self) -> Style:
        """Return the style of what matters less."""
        # not its ground; and as a partial style textual gives white for what it works out
        return Style(color=self.get_component_rich_style("line--faint").color)

    def wheel(self, lines: int) -> None:
        """Move the lines on the screen; the cursor stays, or goes to the edge."""
        height = max(1, self.size.height)
        self.scroll_to_line(self.top + lines)
        row = max(self.top, min(self.cursor, self.top + height - 1))
        self.go(row, 1 if lines > 0 else -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        event.prevent_default()
        self.wheel(_WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        event.prevent_default()
        self.wheel(-_WHEEL)


class TextView(LineView):
    """Show lines of text with a scrollbar; they can be searched and moved sideways."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(keys.TEXT),
        Binding("space", "page(1)", show=False),
    ]
    DEFAULT_CSS = "TextView { scrollbar-size-vertical: 1; }"

    shift = 0
    """By how many cells the text is moved to the left."""
    _sought = ""

    def said(self, row: int) -> str:
        """Return the text of a line that is searched."""
        raise NotImplementedError

    def on_show(self) -> None:
        """Leave out the scrollbar, which is drawn with blocks, where only ASCII can be."""
        if not glyphs_of(self).unicode:
            self.styles.scrollbar_size_vertical = 0

    def shifted(self, parts: Iterable[Segment], width: int, fill: Style) -> Strip:
        """Return text in exactly so many cells, moved to the left."""
        return Strip(parts).crop_extend(self.shift, self.shift + width, fill)

    def action_sideways(self, by: int) -> None:
        """Move the text sideways."""
        self.shift = max(0, min(_FARTHEST, self.shift + by * _SIDEWAYS))
        self.refresh()

    def action_find(self) -> None:
        """Ask for a text and go to the next line that has it."""

        def find(typed: str | None) -> None:
            if typed:
                self.find(typed)

        self.app.push_screen(LineScreen("find in this text", self._sought), find)

    def find(self, wanted: str) -> None:
        """Go to the next line that has a text, from the last line on to the first.

        Small letters match capital letters too.
        """
        self._sought = wanted
        count, small = self.row_count(), wanted.islower()
        for step in range(1, count + 1):
            row = (self.cursor + step) % count
            said = self.said(row)
            # As less(1) does with -i.
            if wanted in (said.lower() if small else said):
                self.go(row)
                return
        self.notify(f"no line contains {glyphs_of(self).text(wanted)}", markup=False)


class Choices(TextView):
    """Show lines to choose from, the one under the cursor with a mark."""

    DEFAULT_CSS = """
    Choices { background: $surface; color: $foreground; height: 1fr; }
    Choices > .line--cursor { background: $primary-muted; text-style: bold; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[str] = ()

    def show(self, lines: Iterable[str]) -> None:
        """Show other lines, with the cursor where it was.

        Args:
            lines: They have passed `render.style`.
        """
        self._lines = list(lines)
        self.changed(self.cursor)

    def row_count(self) -> int:
        """Return how many lines there are."""
        return len(self._lines)

    def said(self, row: int) -> str:
        """Return the text of a line."""
        return self._lines[row]

    def draw(self, row: int, width: int) -> Iterator[Segment]:
        """Draw one line."""
        yield Segment("> " if row == self.cursor else "  ")
        said = Segment(glyphs_of(self).text(self._lines[row]))
        yield from self.shifted([said], max(0, width - 2), Style.null())


class Prose(TextView):
    """Show text wrapped to the width; there is no cursor, and keys scroll."""

    DEFAULT_CSS = "Prose { background: $surface; color: $foreground; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Text] = []
        self._rows: list[Text] = []

    def show(self, lines: Iterable[str]) -> None:
        """Show other lines, from the first one on.

        Args:
            lines: They have passed `render.style`, whose colour escapes become styles.
        """
        self._lines = [self._text(line) for line in lines]
        self._wrap()
        self.scroll_to_line(0)

    def _text(self, line: str) -> Text:
        found = Text.from_ansi(line)
        glyphs = glyphs_of(self)
        return found if glyphs.unicode else Text(glyphs.text(found.plain))

    def _wrap(self) -> None:
        width = max(10, self.columns)
        self._rows = []
        for line in self._lines:
            # `wrap` is slow, and most lines are short.
            fits = line.cell_len <= width
            self._rows += [line] if fits else line.wrap(self.app.console, width)
        self.virtual_size = Size(1, len(self._rows))
        self.refresh()

    def on_resize(self) -> None:
        """Wrap the lines again."""
        self._wrap()

    def row_count(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    def said(self, row: int) -> str:
        """Return the text of a row."""
        return self._rows[row].plain

    def draw(self, row: int, width: int) -> Iterable[Segment]:
        """Draw one row."""
        del width
        return self._rows[row].render(self.app.console)

    def go(self, row: int, step: int = 1) -> None:
        """Scroll to a row."""
        del step
        self.cursor = row
        self.scroll_to_line(row)

    def move(self, by: int) -> None:
        """Scroll by some rows."""
        self.scroll_to_line(self.top + by)

    def show_cursor(self) -> None:
        """Leave the rows where they are."""
