"""The lines at the top and at the foot of the main screen.

Invariant: a line that says the same is not drawn again; nothing of it is markup.
"""

from textual.content import Content
from textual.widgets import Static

from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.layout import FootState, foot

_HINT = "? help  / search  f filter  u undo  r redo  q quit"
_WAITS_S = 0.7
"""So long an answer may take before the foot says that it is waited for."""


class Bar(Static):
    """Show one line."""

    DEFAULT_CSS = "Bar { height: 1; background: $panel; color: $text; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown = ""

    def show(self, line: str) -> None:
        """Show a line that fits."""
        if line != self._shown:
            self._shown = line
            self.update(Content(line), layout=False)


class Foot(Bar):
    """Show what went wrong, what is going on, else some keys."""

    DEFAULT_CSS = """
    Foot.wrong { background: $error; color: $text; }
    Foot.read-only { background: $warning; color: $text; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.state = FootState()
        self._asked = 0

    def say(self, said: str, *, wrong: bool = False) -> None:
        """Say something until something else is said."""
        self._change(self.state._replace(said=said, wrong=wrong))

    def forbid(self, why: str) -> None:
        """Say that nothing can be changed now, and why; nothing says that it can."""
        self._change(self.state._replace(read_only=why))

    def asked(self) -> None:
        """Take note that an answer is waited for."""
        self._asked += 1
        self.set_timer(_WAITS_S, self._still)

    def answered(self) -> None:
        """Take note that one has come."""
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
