"""A list of lines with a cursor, of which only what is on the screen is ever drawn.

Invariant: a line is made when it is drawn, cut to the width; nothing of it is markup.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from gitshadow.ui import keys

_WHEEL = 3


class Piece(NamedTuple):
    """Hold a part of a line that is drawn in one style."""

    text: str
    style: Style = Style.null()


class Listing(Widget, can_focus=True):
    """Show lines, one of them under the cursor. Subclasses say how many, and draw one."""

    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(keys.MOVING)
    COMPONENT_CLASSES: ClassVar[set[str]] = {"listing--cursor", "listing--faint"}
    DEFAULT_CSS = """
    Listing { height: 1fr; background: $background; color: $foreground; }
    Listing > .listing--cursor { background: $surface-lighten-2; text-style: bold; }
    Listing:focus > .listing--cursor { background: $primary; color: $text; }
    Listing > .listing--faint { color: $text-muted; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor = 0
        self.top = 0
        self._base = Style.null()
        self._drawn = (-1, -1)

    # -- what subclasses say -----------------------------------------------------------------

    def count(self) -> int:
        """Return how many lines there are."""
        raise NotImplementedError

    def draw(self, number: int, width: int) -> Sequence[Piece]:
        """Return the pieces of a line, safe to show and no wider than the width."""
        raise NotImplementedError

    def can_stop(self, number: int) -> bool:
        """Tell whether the cursor may stand on a line."""
        del number
        return True

    def moved(self) -> None:
        """Do what follows when the cursor, or what is on the screen, has moved."""

    # -- drawing -----------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw some lines; what all have in common is worked out once."""
        self._base = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        width, number = self.size.width, self.top + y
        base = self._base
        if number >= self.count():
            return Strip.blank(width, base)
        standing = number == self.cursor
        if standing:
            base += self.get_component_rich_style("listing--cursor", partial=True)
        pieces = self.draw(number, width)
        if (
            standing and self.has_focus
        ):  # its ground is strong: one colour is read on it
            pieces = [Piece(piece.text) for piece in pieces]
        segments = [Segment(piece.text, base + piece.style) for piece in pieces]
        return Strip(segments).adjust_cell_length(width, base)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height that it would like."""
        del container, viewport, width
        return self.count()

    def faint(self) -> Style:
        """Return the style of what matters less."""
        # not its ground; and as a partial style textual gives white for what it works out
        return Style(color=self.get_component_rich_style("listing--faint").color)

    # -- moving ------------------------------------------------------------------------------

    def changed(self) -> None:
        """Take note that the lines are others: all are drawn anew."""
        self._drawn = (-1, -1)

    def go(self, number: int, step: int = 1) -> None:
        """Put the cursor on a line, or on the next one in a direction where it may stand."""
        number = max(0, min(self.count() - 1, number))
        while 0 <= number < self.count() and not self.can_stop(number):
            number += step
        if not 0 <= number < self.count():
            return self._see()
        self.cursor = number
        return self._see()

    def _see(self) -> None:
        """Scroll so far that the cursor can be seen, and draw anew."""
        height = max(1, self.size.height)
        self.top = max(min(self.top, self.cursor), self.cursor - height + 1)
        self.top = min(self.top, max(0, self.count() - height))
        if self.top and not any(self.can_stop(line) for line in range(self.top)):
            self.top = 0 if self.cursor < height else self.top
        self.top = max(0, self.top)
        self._draw_moved()
        self.moved()

    def _draw_moved(self) -> None:
        """Draw what a move of the cursor changes: two lines, or all where others are seen."""
        top, cursor = self._drawn
        self._drawn = self.top, self.cursor
        if top != self.top:
            self.refresh()
            return
        for number in {cursor, self.cursor}:
            self.refresh(Region(0, number - self.top, self.size.width, 1))

    def wheel(self, lines: int) -> None:
        """Move what is seen; the cursor stays where it is, or at the edge."""
        height = max(1, self.size.height)
        self.top = max(0, min(self.top + lines, self.count() - height))
        number = max(self.top, min(self.cursor, self.top + height - 1))
        self.go(number, 1 if lines > 0 else -1)

    def action_down(self) -> None:
        """Go one line down."""
        self.go(self.cursor + 1)

    def action_up(self) -> None:
        """Go one line up."""
        self.go(self.cursor - 1, -1)

    def action_page_down(self) -> None:
        """Go a page down."""
        self.go(self.cursor + max(1, self.size.height - 1))

    def action_page_up(self) -> None:
        """Go a page up."""
        self.go(self.cursor - max(1, self.size.height - 1), -1)

    def action_first(self) -> None:
        """Go to the first line."""
        self.go(0)

    def action_last(self) -> None:
        """Go to the last line."""
        self.go(self.count() - 1, -1)

    # -- mouse and size ----------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is; a second click goes into the line."""
        number = self.top + event.get_content_offset_capture(self).y
        if number < self.count() and self.can_stop(number):
            self.go(number)
            if event.chain == 2:
                self.call_later(self.screen.run_action, "into")

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        self.wheel(_WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self.wheel(-_WHEEL)

    def on_resize(self) -> None:
        """Keep the cursor on the screen."""
        self._see()
