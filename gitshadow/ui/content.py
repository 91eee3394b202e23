"""A file as it was at a moment, on a screen of its own.

Invariant: only the lines on the screen are made; none is wider than it.
"""

import base64
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.list_view import Listing, Piece

_TAB = 8


class _Lines(Listing):
    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self._lines = lines

    def count(self) -> int:
        return len(self._lines)

    def draw(self, number: int, width: int) -> Sequence[Piece]:
        digits = len(str(len(self._lines)))
        room = width - digits - 2
        line = self._lines[number][: room * _TAB].expandtabs(_TAB)
        shown = glyphs_of(self).cut(line, room)
        return [Piece(f"{number + 1:>{digits}}  ", self.faint()), Piece(shown)]


class ContentScreen(ModalScreen[None]):
    """Show the lines of a file."""

    BINDINGS: ClassVar = [Binding("escape,q,v,h,left,ctrl+c", "close", show=False)]
    DEFAULT_CSS = """
    ContentScreen > Static { height: 1; background: $panel; color: $text; }
    """

    def __init__(self, title: str, data_base64: str) -> None:
        super().__init__()
        self._title = title
        data = base64.b64decode(data_base64)
        self._lines = ["(binary)"] if b"\0" in data else _lines_of(data)

    def compose(self) -> ComposeResult:
        """Make the title and the lines."""
        width = self.app.size.width
        yield Static(Content(" " + glyphs_of(self).cut(self._title, width - 1)))
        yield _Lines(self._lines)

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(None)


def _lines_of(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace")
    return text.removesuffix("\n").split("\n") if text else ["(empty)"]
