"""The main screen's frame: which panes are seen at which size, and what its lines say.

Invariant: at any size that a terminal can have, the pane with the focus is seen.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from gitshadow.ui.glyphs import Glyphs

_WIDE, _NARROW, _LOW = 120, 70, 16


class PaneLayout(Enum):
    """Say how the panes are laid out."""

    WIDE = "wide"
    TALL = "tall"
    SINGLE = "single"


class Pane(Enum):
    """Name the panes, by the ids of their widgets, in the order of looking closer."""

    HISTORY = "history"
    FILES = "files"
    DIFF = "diff"

    def step(self, by: int) -> "Pane":
        """Return the pane so many steps on, around the corner."""
        panes = list(Pane)
        return panes[(panes.index(self) + by) % len(panes)]

    def closer(self) -> "Pane":
        """Return the pane that shows more of what is selected in this one."""
        return Pane.FILES if self is Pane.HISTORY else Pane.DIFF

    def farther(self) -> "Pane":
        """Return the pane in which is selected what this one shows."""
        return Pane.FILES if self is Pane.DIFF else Pane.HISTORY


class FootState(NamedTuple):
    """Hold what the foot of the screen tells."""

    said: str = ""
    wrong: bool = False
    read_only: str = ""
    waiting: bool = False


def shape_of(width: int, height: int) -> PaneLayout:
    """Return how the panes are laid out on a terminal of a size."""
    if width < _NARROW or height < _LOW:
        return PaneLayout.SINGLE
    return PaneLayout.WIDE if width >= _WIDE else PaneLayout.TALL


def foot(state: FootState, hint: str, width: int, glyphs: Glyphs) -> str:
    """Return the last line: what went wrong or is going on before anything else."""
    said = state.said
    if state.read_only and not state.wrong:
        said = f"read-only: {state.read_only}"
    elif state.waiting and not said:
        said = "waiting for the recorder" + glyphs.more
    if not said:
        return glyphs.fit(" " + hint, width)
    left = glyphs.cut(" " + said, width)
    room = width - len(left) - 2
    return left + (f"  {hint:>{room}}" if len(hint) <= room else "")


def title(
    name: str, legend: Sequence[tuple[str, str]], shown: str, width: int, glyphs: Glyphs
) -> str:
    """Return the first line: where this is, the lanes that are seen, the filter.

    Args:
        name: The repository.
        legend: Letters, and what they stand for.
        shown: The filter or search, empty where there is none.
        width: How many cells there are.
        glyphs: The signs of this terminal.
    """
    lanes = "  ".join(f"{letter} {said}" for letter, said in legend)
    parts = [name, f"filter: {shown}" if shown else "", lanes]
    return glyphs.fit(" " + "   ".join(part for part in parts if part), width)
