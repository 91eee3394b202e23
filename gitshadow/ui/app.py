"""The application: one main screen over an engine.

Invariant: it ends with an exit code; what it could not do it has said before.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual.app import App
from textual.filter import LineFilter
from textual.worker import WorkerFailed

from gitshadow.ui.filters import Filter
from gitshadow.ui.glyphs import Glyphs
from gitshadow.ui.main import MainScreen
from gitshadow.ui.ports import Engine
from gitshadow.ui.source import Source
from gitshadow.ui.uncoloured import Uncoloured


class Setting(NamedTuple):
    """Hold what the view is to know of its surroundings.

    `moment` reads a time as typed, into nanoseconds, and raises UsageError.
    """

    name: str
    moment: Callable[[str], int]
    unicode: bool = True
    light: bool = False
    filter: Filter = Filter()


class ViewApp(App[object]):
    """Show the history of a worktree."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { scrollbar-size-vertical: 1; }"

    def __init__(
        self, engine_of: Callable[[Callable[[str], None]], Engine], setting: Setting
    ) -> None:
        super().__init__()
        self.glyphs = Glyphs(setting.unicode)
        self.theme = "textual-light" if setting.light else "textual-dark"
        source = Source(engine_of(self._told), setting.moment, setting.filter)
        self.main = MainScreen(source, setting.name)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what every line passes: with NO_COLOR nothing is left but signs."""
        return [Uncoloured()] if self.no_color else super().get_line_filters()

    def on_mount(self) -> None:
        """Show the main screen."""
        self.push_screen(self.main)

    @property
    def unexpected(self) -> BaseException | None:
        """Return the error that nobody expected and that ended the view, if one did."""
        found = self._exception
        return found.error if isinstance(found, WorkerFailed) else found

    def _fatal_error(self) -> None:
        """End; who runs the view says why.

        textual 8.2 would print a traceback with the values of variables, prompts among them.
        """
        self._close_messages_no_wait()

    def _told(self, note: str) -> None:
        """Show what an answer had to say beside itself; called on any thread."""
        self.call_from_thread(self.main.say, note)
