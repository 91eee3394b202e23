"""Lines without a colour, for who has set NO_COLOR (no-color.org).

Invariant: what a strong ground told is told by reversing it; weak tints and greys are dropped,
because signs and words beside them say the same.
"""

from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

_STRONG = 60
"""So far apart the parts of a colour are, of 255, when it is no grey and no tint."""


class Uncoloured(LineFilter):
    """Take the colours out of segments."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without colours."""
        del background
        return [
            Segment(text, style and _plain(style), control)
            for text, style, control in segments
        ]


@lru_cache(maxsize=1024)
def _plain(style: Style) -> Style:
    ground = style.bgcolor and style.bgcolor.triplet
    strong = ground is not None and max(ground) - min(ground) > _STRONG
    return Style(
        bold=style.bold,
        italic=style.italic,
        underline=style.underline,
        reverse=strong or style.reverse,
    )
