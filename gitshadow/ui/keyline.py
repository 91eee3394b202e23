"""The keys that do something now, at the foot of a dialogue; a click on one does the same.

Invariant: only our own words come in, so that they may be markup.
"""

from collections.abc import Iterable
from typing import NamedTuple

from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from gitshadow.ui.glyphs import glyphs_of


class Key(NamedTuple):
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

    def show(self, keys: Iterable[Key]) -> None:
        """Show other keys."""
        blank = "\u00a0" if glyphs_of(self).unicode else " "  # a key stays on one line
        parts = [
            Content.styled(f"{key.key} {key.says}".replace(" ", blank), _on(key.action))
            for key in keys
        ]
        self.update(Content("  ").join(parts))


def _on(action: str) -> Style:
    return Style.from_meta({"@click": f"screen.{action}"})
