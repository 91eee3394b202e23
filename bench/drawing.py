"""Plots as plain SVG, made from numbers alone.

Invariant: the same numbers give the same bytes.
"""

from collections.abc import Callable, Sequence
from html import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 720, 360, 64, 28, 150, 44
_STROKE = 'stroke="#ddd"'
Point = tuple[float, float]


class Plot:
    """Collect the parts of one plot; shares are 0 to 1, to the right and upwards."""

    def __init__(self, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
            ' font-family="sans-serif" font-size="12" fill="#444">',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        ]
        self._words(_LEFT, 16, title)

    def level(self, up: float, text: str) -> None:
        """Draw a line across, with its value on the left."""
        (x, y), (end, _) = _at(0, up), _at(1, up)
        self._parts.append(f'<path d="M{x:.1f},{y:.1f} L{end:.1f},{y:.1f}" {_STROKE}/>')
        self._words(x - 8, y + 4, text, "end")

    def mark(self, across: float, text: str, *, line: bool = False) -> None:
        """Name a value below the plot, with a line upwards where it is wanted."""
        x, y = _at(across, 0)
        if line:
            _, top = _at(across, 1)
            self._parts.append(
                f'<path d="M{x:.1f},{y:.1f} L{x:.1f},{top:.1f}" {_STROKE}/>'
            )
        self._words(x, y + 18, text, "middle")

    def curve(self, points: Sequence[Point], colour: str) -> None:
        """Draw a line through points."""
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in (_at(*one) for one in points))
        self._parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{places}"/>'
        )

    def beside(self, up: float, text: str, colour: str = "") -> None:
        """Write on the right of the plot."""
        x, y = _at(1, up)
        self._words(x + 8, y + 4, text, colour=colour)

    def text(self) -> str:
        """Return the whole picture."""
        return "\n".join([*self._parts, "</svg>", ""])

    def _words(
        self, x: float, y: float, text: str, anchor: str = "start", *, colour: str = ""
    ) -> None:
        fill = f' fill="{colour}"' if colour else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{fill}>{escape(text)}</text>'
        )


def steps(values: Sequence[float], across: Callable[[float], float]) -> list[Point]:
    """Return the distribution of values: how large a share of them is at most so large."""
    ordered, points = sorted(values), []
    for number, value in enumerate(ordered):
        points.append((across(value), number / len(ordered)))
        points.append((across(value), (number + 1) / len(ordered)))
    return points


def _at(across: float, up: float) -> Point:
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    return _LEFT + width * across, _HEIGHT - _BOTTOM - height * up
