"""Search, filter, moment: the ways to get somewhere on the time line without scrolling.

Invariant: what is held is looked through first; the engine is asked for what lies beyond.
"""

from collections.abc import Callable

from textual.screen import Screen

from gitshadow.errors import UsageError
from gitshadow.ui.dialogs import LineScreen
from gitshadow.ui.filters import Filter, parse
from gitshadow.ui.history import History
from gitshadow.ui.page_loader import Loader
from gitshadow.ui.status_bars import Foot

_SEARCH = "search paths and prompts"
_FILTER = "filter: agent: session: file: kind: since: until: words"
_MOMENT = "go to: 10m, 2h ago, yesterday, 2026-11-21 14:00"


class Finder:
    """Find things on a time line, and ask for what is to be found."""

    def __init__(self, history: History, loader: Loader, foot: Foot) -> None:
        self._history, self._loader, self._foot = history, loader, foot
        self._wanted = ""

    def ask(self, screen: Screen[None]) -> None:
        """Ask for a text, and go to the next block with it, this one included."""

        def take(typed: str) -> None:
            self._wanted = typed.strip()
            if self._wanted:
                self.find(older=True, here=True)

        _ask_line(screen, _SEARCH, "", take)

    def find(self, *, older: bool, here: bool = False) -> None:
        """Go to the next block with the text that was asked for last."""
        wanted, window = self._wanted, self._history.window
        if not wanted:
            self._foot.say("nothing to search for: press / first")
            return
        if self._history.find(wanted, older=older, here=here):
            self._foot.say("")
            return
        source = self._loader.source
        where = "older" if older else "newer"
        self._foot.say("searching")
        self._loader.go_to(
            lambda: source.find(wanted, window, older=older),
            lambda: self._foot.say(f"nothing {where} has {wanted}"),
        )

    def ask_filter(self, screen: Screen[None]) -> None:
        """Ask for a filter."""

        def take(typed: str) -> None:
            try:
                self._loader.filter(parse(typed))
            except UsageError as error:
                self._foot.say(str(error), wrong=True)

        _ask_line(screen, _FILTER, str(self._loader.source.filter), take)

    def unfilter(self) -> None:
        """Show everything again."""
        if self._loader.source.filter != Filter():
            self._loader.filter(Filter())

    def ask_moment(self, screen: Screen[None]) -> None:
        """Ask for a moment, and go to the newest block up to it."""
        source = self._loader.source

        def take(typed: str) -> None:
            self._loader.go_to(
                lambda: source.at(typed),
                lambda: self._foot.say(f"nothing is older than {typed}"),
            )

        _ask_line(screen, _MOMENT, "", take)


def _ask_line(
    screen: Screen[None], says: str, typed: str, then: Callable[[str], None]
) -> None:
    def take(given: str | None) -> None:
        if given is not None:
            then(given)

    screen.app.push_screen(LineScreen(says, typed), take)
