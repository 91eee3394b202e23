"""The frame of the main screen: its panes at each size, and the lines at its top and foot.

Invariant: at any size that a terminal can have, the pane with the focus is seen. A line is drawn
again only if its text changes, and no part of it is markup.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from textual.content import Content
from textual.widgets import Static

from gitshadow.ui.glyphs import Glyphs, glyphs_of

_WIDE, _NARROW, _LOW = 120, 70, 16
_HINT = "? help  / search  f filter  u undo  r redo  q quit"
_WAITS_S = 0.7
"""An answer may take so long before the foot shows that it is pending."""


class PaneLayout(Enum):
    """How the panes are laid out."""

    WIDE = "wide"
    TALL = "tall"
    SINGLE = "single"


class Pane(Enum):
    """The panes, by the ids of their widgets, from the overview to the details."""

    HISTORY = "history"
    FILES = "files"
    DIFF = "diff"

    def step(self, by: int) -> "Pane":
        """Return the pane so many steps on; after the last comes the first."""
        panes = list(Pane)
        return panes[(panes.index(self) + by) % len(panes)]

    def closer(self) -> "Pane":
        """Return the pane that shows more of what is selected in this one."""
        return Pane.FILES if self is Pane.HISTORY else Pane.DIFF

    def farther(self) -> "Pane":
        """Return the pane that selects what this one shows."""
        return Pane.FILES if self is Pane.DIFF else Pane.HISTORY


class FootState(NamedTuple):
    """What the foot of the screen shows."""

    said: str = ""
    wrong: bool = False
    read_only: str = ""
    waiting: bool = False


def shape_of(width: int, height: int) -> PaneLayout:
    """Return how the panes are laid out on a terminal of a size."""
    # Three panes on such a terminal would leave each too few lines to read.
    if width < _NARROW or height < _LOW:
        return PaneLayout.SINGLE
    return PaneLayout.WIDE if width >= _WIDE else PaneLayout.TALL


def foot(state: FootState, hint: str, width: int, glyphs: Glyphs) -> str:
    """Return the last line: an error or what is running, else hints."""
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
    """Return the first line: the repository, the lanes on the screen, the filter.

    Args:
        name: The repository.
        legend: Letters, and their meaning.
        shown: The filter or search, empty if there is none.
        width: How many cells there are.
        glyphs: The signs of this terminal.
    """
    lanes = "  ".join(f"{letter} {said}" for letter, said in legend)
    parts = [name, f"filter: {shown}" if shown else "", lanes]
    return glyphs.fit(" " + "   ".join(part for part in parts if part), width)


class Bar(Static):
    """Show one line."""

    DEFAULT_CSS = "Bar { height: 1; background: $panel; color: $text; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown = ""

    def show(self, line: str) -> None:
        """Show a line that fits."""
        # An update lays out the widget again, and the bar is written at each move of the cursor.
        if line != self._shown:
            self._shown = line
            self.update(Content(line), layout=False)


class Foot(Bar):
    """Show an error, what is running, else some keys."""

    DEFAULT_CSS = """
    Foot.wrong { background: $error; color: $text; }
    Foot.read-only { background: $warning; color: $text; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.state = FootState()
        self._asked = 0

    def say(self, said: str, *, wrong: bool = False) -> None:
        """Show a text until the next one."""
        self._change(self.state._replace(said=said, wrong=wrong))

    def forbid(self, why: str) -> None:
        """Show that nothing can be changed now, and why; an empty text ends that."""
        self._change(self.state._replace(read_only=why))

    def asked(self) -> None:
        """Count a question that waits for its answer."""
        self._asked += 1
        # Most answers come at once, and a foot that flickers at each key is hard to read.
        self.set_timer(_WAITS_S, self._still)

    def answered(self) -> None:
        """Count an answer."""
        self._asked -= 1
        if not self._asked:
            self._change(self.state._replace(waiting=False))

    def on_resize(self) -> None:
        """Fit the line to the new width."""
        self._change(self.state)

    def _still(self) -> None:
        if self._asked:
            self._change(self.state._replace(waiting=True))

    def _change(self, state: FootState) -> None:
        self.state = state
        self.show(foot(state, _HINT, self.app.size.width, glyphs_of(self)))
        self.set_class(state.wrong, "wrong")
        self.set_class(bool(state.read_only) and not state.wrong, "read-only")
