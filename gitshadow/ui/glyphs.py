"""What a terminal can show: safe texts, and the signs of the UI.

Invariant: every text is one line without control characters, and only ASCII if the
terminal has nothing else.
"""

from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.dom import DOMNode

from gitshadow.render.style import printable

_PER_CELL = 4
"""So many characters of a text are read for one cell: marks without a width are rare."""


class Glyphs(NamedTuple):
    """The characters that the terminal can show."""

    unicode: bool = True

    def text(self, text: str) -> str:
        """Return a text as one line that can be shown."""
        safe = printable(text)
        if self.unicode or safe.isascii():
            return safe
        # Replacement signs would make different names look the same.
        return safe.encode("ascii", "backslashreplace").decode("ascii")

    def cut(self, text: str, width: int) -> str:
        """Return a text as one line of at most so many cells; a mark shows that more follows.

        Only the beginning of a long text is read.
        """
        if width <= 0:
            return ""
        # Escaping and measuring a whole prompt of megabytes for 40 cells would stop the UI.
        shown = self.text(text[: width * _PER_CELL + 1])
        if len(text) <= width * _PER_CELL and cell_len(shown) <= width:
            return shown
        return set_cell_size(shown, width - 1).rstrip() + self.more

    def fit(self, text: str, width: int) -> str:
        """Return a text of exactly so many cells."""
        return set_cell_size(self.cut(text, width), max(0, width))

    @property
    def more(self) -> str:
        """Return the sign of what was cut off."""
        return "…" if self.unicode else "~"

    @property
    def bar(self) -> str:
        """Return the sign of a lane that continues."""
        return "│" if self.unicode else "|"

    @property
    def rule(self) -> str:
        """Return the sign of separating lines."""
        return "─" if self.unicode else "-"

    @property
    def undone(self) -> str:
        """Return the sign of what was undone."""
        return "↶" if self.unicode else "<"

    @property
    def opened(self) -> str:
        """Return the sign of what shows its parts."""
        return "▾" if self.unicode else "v"

    @property
    def closed(self) -> str:
        """Return the sign of what hides its parts."""
        return "▸" if self.unicode else ">"


def glyphs_of(widget: DOMNode) -> Glyphs:
    """Return the signs of the app that shows a widget; all of them if it has none."""
    found = getattr(widget.app, "glyphs", None)
    return found if isinstance(found, Glyphs) else Glyphs()
