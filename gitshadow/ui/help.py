"""The keys, on a screen of their own.

Invariant: it says what the table of keys says, nothing else.
"""

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from gitshadow.ui import keys
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.list_view import Listing, Piece

_NAMES = 18
_LEGEND = (
    "Y you   ? you, or unrecorded   A B C agent sessions   - Git, gaps, pins",
    "A added  M changed  D deleted  R renamed  X mode  T type",
)


class _Keys(Listing):
    def __init__(self) -> None:
        super().__init__()
        self._lines = [("", line) for line in _LEGEND]
        for title, group in keys.GROUPS.items():
            self._lines += [("", ""), ("", title)]
            self._lines += [(keys.spelled(key.keys), key.says) for key in group]

    def count(self) -> int:
        return len(self._lines)

    def draw(self, number: int, width: int) -> Sequence[Piece]:
        glyphs = glyphs_of(self)
        names, says = self._lines[number]
        if not names:
            return [Piece(" " + glyphs.cut(says, width - 1), Style(bold=True))]
        said = glyphs.cut(says, width - _NAMES - 1)
        return [Piece(" " + glyphs.fit(names, _NAMES)), Piece(said)]


class HelpScreen(ModalScreen[None]):
    """Show every key."""

    BINDINGS: ClassVar = [
        Binding("escape,q,question_mark,f1,enter,h,left,ctrl+c", "close", show=False)
    ]

    def compose(self) -> ComposeResult:
        """Make the list."""
        yield _Keys()

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(None)
