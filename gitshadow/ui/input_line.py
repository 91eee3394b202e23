"""One line to type into, at the foot of the screen: a search, a filter, a moment.

Invariant: Esc gives back None, Enter what was typed.
"""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class LineScreen(ModalScreen[str | None]):
    """Ask for one line."""

    BINDINGS: ClassVar = [Binding("escape,ctrl+c", "close", show=False)]
    DEFAULT_CSS = """
    LineScreen { background: transparent; align: left bottom; }
    LineScreen > Static { height: 1; background: $panel; color: $text-muted; }
    LineScreen > Input, LineScreen > Input:focus {
        height: 1; border: none; padding: 0 1; background: $boost;
    }
    """

    def __init__(self, says: str, typed: str = "") -> None:
        super().__init__()
        self._says, self._typed = says, typed

    def compose(self) -> ComposeResult:
        """Make the line, and above it what is to be typed."""
        yield Static(Content(f" {self._says}"))
        yield Input(self._typed, select_on_focus=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give back what was typed."""
        self.dismiss(event.value)

    def action_close(self) -> None:
        """Give nothing back."""
        self.dismiss(None)
