"""The frame of the main screen: its panes at each size, and the lines at its top and foot.

Invariant: at any size that a terminal can have, the pane with the focus is seen. A line is drawn
again only if its text changes, and no part of it is markup.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from textual.content import Content
from textual.widgets import Static

from gitshadow.ui import keys
from gitshadow.ui.glyphs import Glyphs, glyphs_of

_BROAD, _WIDE, _NARROW, _LOW = 170, 120, 70, 16
_BETWEEN = "  "
_WAITS_S = 0.7
"""An answer may take so long before the foot shows that it is pending."""


class PaneLayout(Enum):
    """How the panes are laid out."""

    BROAD = "broad"
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
    waiting: str = ""


def shape_of(width: int, height: int) -> PaneLayout:
    """Return how the panes are laid out on a terminal of a size."""
    # Three panes on such a terminal would leave each too few lines to read.
    if width < _NARROW or height < _LOW:
        return PaneLayout.SINGLE
    if width >= _BROAD:
        return PaneLayout.BROAD
    return PaneLayout.WIDE if width >= _WIDE else PaneLayout.TALL


def hints_of(pane: Pane, width: int) -> str:
    """Return the keys of a pane and those of every pane, as many as fit."""
    last = _BETWEEN.join(keys.ALWAYS)
    said = ""
    for hint in keys.HINTS[pane.value]:
        longer = said + hint + _BETWEEN
        if len(longer) + len(last) > width:
            break
        said = longer
    return said + last


def foot(state: FootState, pane: Pane, width: int, glyphs: Glyphs) -> str:
    """Return the last line: an error or what is running, else the keys of a pane."""
    said = state.said
    if state.read_only and not state.wrong:
        said = f"read-only: {state.read_only}"
    elif state.waiting and not said:
        said = f"loading {state.waiting} {glyphs.more}"
    if not said:
        return glyphs.fit(" " + hints_of(pane, width - 1), width)
    left = glyphs.cut(" " + said, width)
    room = width - len(left) - 2
    hint = hints_of(pane, room)
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
        self.pane = Pane.HISTORY
        self._asked: dict[str, object] = {}

    def say(self, said: str, *, wrong: bool = False) -> None:
        """Show a text until the next one."""
        self._change(self.state._replace(said=said, wrong=wrong))

    def enter(self, pane: Pane) -> None:
        """Show the keys of another pane."""
        self.pane = pane
        self._change(self.state)

    def forbid(self, why: str) -> None:
        """Show that nothing can be changed now, and why; an empty text ends that."""
        self._change(self.state._replace(read_only=why))

    def asked(self, about: str, question: object) -> None:
        """Record a question that waits for its answer, in place of an older one."""
        self._asked[about] = question
        # Most answers come at once, and a foot that flickers at each key is hard to read.
        self.set_timer(_WAITS_S, lambda: self._still(about, question))

    def answered(self, about: str, question: object) -> None:
        """Record an answer; one to an older question is not waited for any more."""
        if self._asked.get(about) is question:
            del self._asked[about]
            if self.state.waiting == about:
                self._change(self.state._replace(waiting=""))

    def on_resize(self) -> None:
        """Fit the line to the new width."""
        self._change(self.state)

    def _still(self, about: str, question: object) -> None:
        if self._asked.get(about) is question:
            self._change(self.state._replace(waiting=about))

    def _change(self, state: FootState) -> None:
        self.state = state
        self.show(foot(state, self.pane, self.app.size.width, glyphs_of(self)))
        self.set_class(state.wrong, "wrong")
        self.set_class(bool(state.read_only) and not state.wrong, "read-only")
