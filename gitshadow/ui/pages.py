"""Screens of lines to read: a file as it was, and the keys."""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from gitshadow.ui import keys
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.lines import Listing

_TAB = 8
_TWO_COLUMNS, _KEYS = 76, 14
_LEGEND = {
    "Signs": {
        "Y ? A B": "you, unsure, agents",
        "-": "Git, gaps, pins",
        "A M D": "added, modified, deleted",
        "R X": "renamed, mode only",
    }
}


class _FileLines(Listing):
    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self._lines = lines

    def on_mount(self) -> None:
        self.changed()

    def row_count(self) -> int:
        return len(self._lines)

    def draw(self, row: int, width: int) -> Iterable[Segment]:
        digits = len(str(len(self._lines)))
        room = width - digits - 2
        # Cut before tabs are expanded: a minified file has lines of megabytes.
        line = self._lines[row][: room * _TAB].expandtabs(_TAB)
        yield Segment(f"{row + 1:>{digits}}  ", self.faint())
        yield Segment(glyphs_of(self).cut(line, room))


class ContentScreen(ModalScreen[None]):
    """Show the lines of a file."""

    BINDINGS: ClassVar = [Binding("escape,q,v,h,left,ctrl+c", "dismiss", show=False)]
    DEFAULT_CSS = """
    ContentScreen > Static { height: 1; background: $panel; color: $text; }
    """

    def __init__(self, title: str, data_base64: str) -> None:
        super().__init__()
        self._title = title
        data = base64.b64decode(data_base64)
        # A NUL byte marks binary content, as in Git.
        self._lines = ["(binary)"] if b"\0" in data else _lines_of(data)

    def compose(self) -> ComposeResult:
        """Make the title and the lines."""
        width = self.app.size.width
        yield Static(Content(" " + glyphs_of(self).cut(self._title, width - 1)))
        yield _FileLines(self._lines)


def _lines_of(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace")
    return text.removesuffix("\n").split("\n") if text else ["(empty)"]


class _HelpLine(NamedTuple):
    says: str
    keys: str = ""


def _help_lines(groups: Mapping[str, Mapping[str, str]]) -> list[_HelpLine]:
    found: list[_HelpLine] = []
    for title, group in groups.items():
        found += [_HelpLine(title)]
        found += [_HelpLine(says, keys) for keys, says in group.items()]
    return found


class _KeyLines(Listing):
    def __init__(self) -> None:
        super().__init__()
        self._left = _help_lines(keys.HELP_LEFT) + _help_lines(_LEGEND)
        self._right = _help_lines(keys.HELP_RIGHT)

    def on_mount(self) -> None:
        self.changed()

    def on_resize(self) -> None:
        self.changed()

    @property
    def _is_wide(self) -> bool:
        return self.size.width >= _TWO_COLUMNS

    def row_count(self) -> int:
        left, right = len(self._left), len(self._right)
        return max(left, right) if self._is_wide else left + right

    def draw(self, row: int, width: int) -> Iterable[Segment]:
        if not self._is_wide:
            yield from self._cell([*self._left, *self._right], row, width)
            return
        half = min(width // 2, 50)
        yield from self._cell(self._left, row, half)
        yield from self._cell(self._right, row, half)

    def _cell(
        self, lines: Sequence[_HelpLine], row: int, width: int
    ) -> Iterator[Segment]:
        glyphs = glyphs_of(self)
        line = lines[row] if row < len(lines) else _HelpLine("")
        if not line.keys:
            yield Segment(" " + glyphs.fit(line.says, width - 1), Style(bold=True))
            return
        yield Segment("  " + glyphs.fit(line.keys, _KEYS))
        yield Segment(glyphs.fit(line.says, width - _KEYS - 2))


class HelpScreen(ModalScreen[None]):
    """Show every key."""

    BINDINGS: ClassVar = [
        Binding("escape,q,question_mark,f1,enter,h,left,ctrl+c", "dismiss", show=False)
    ]

    def compose(self) -> ComposeResult:
        """Make the list."""
        yield _KeyLines()
