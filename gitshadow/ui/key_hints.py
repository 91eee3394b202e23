"""The keys that do something now, at the foot of a dialogue; a click on one does the same.

Invariant: only our own words come in, so that they may be markup.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.style import Style
from textual.widgets import Static

_BETWEEN = "  "


class KeyHint(NamedTuple):
    """Hold a key, what it does in a word or two, and the screen's action."""

    key: str
    says: str
    action: str


class KeyLine(Static):
    """Show keys; they wrap where there is little room."""

    DEFAULT_CSS = """
    KeyLine {
        height: auto; color: $text-muted;
        link-color: $text-muted; link-style: none;
        link-color-hover: $text; link-background-hover: $primary-muted;
    }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._keys: Sequence[KeyHint] = ()

    def show(self, keys: Iterable[KeyHint]) -> None:
        """Show other keys."""
        self._keys = tuple(keys)
        self._lay_out(self.size.width)

    def on_resize(self, event: events.Resize) -> None:
        """Break the line anew."""
        self._lay_out(event.size.width)

    def _lay_out(self, width: int) -> None:
        """Break between keys, never within what one does."""
        said, column = Content(""), 0
        for key in self._keys:
            words = f"{key.key} {key.says}"
            if column:
                fits = column + len(_BETWEEN) + len(words) <= width
                said += Content(_BETWEEN if fits else "\n")
                column = column + len(_BETWEEN) if fits else 0
            said += Content.styled(words, _on(key.action))
            column += len(words)
        self.update(said)


def _on(action: str) -> Style:
    return Style.from_meta({"@click": f"screen.{action}"})
