"""The application: the main screen over a backend, and the order of keys.

Textual hands every key at once to the widget that has the focus now: keys typed after one that
opens another screen went to the screen before, and were lost. So each key waits for the one before.
Invariant: it ends with an exit code; what failed was shown before.
"""

import asyncio
import signal
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.worker import WorkerFailed

from gitshadow.messages.backend import HistoryBackend
from gitshadow.ui.data_source import DataSource
from gitshadow.ui.filters import Filter
from gitshadow.ui.glyphs import Glyphs
from gitshadow.ui.main import MainScreen

_ROUNDS = 2
"""The first follows the key, the second the messages that a widget sent itself because of it."""
_LONGEST_S = 0.25
_STRONG = 60
"""So far apart the parts of a colour are, of 255, when it is no grey and no tint."""


class Past(Message):
    """Follow a key through the widgets: when this arrives, all of them have seen the key."""

    def __init__(self, screen: Screen[object], rounds: int) -> None:
        super().__init__()
        self.screen, self.rounds = screen, rounds


class UiSettings(NamedTuple):
    """What the UI needs to know about its environment.

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
        self,
        engine_of: Callable[[Callable[[str], None]], HistoryBackend],
        setting: UiSettings,
    ) -> None:
        super().__init__()
        self._typed: deque[events.Event] = deque()
        self._past: Past | None = None
        self._late: Timer | None = None
        self.glyphs = Glyphs(setting.unicode)
        self.theme = "textual-light" if setting.light else "textual-dark"
        source = DataSource(engine_of(self._told), setting.moment, setting.filter)
        self.main = MainScreen(source, setting.name)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what every line passes: with NO_COLOR nothing is left but signs."""
        return [Uncoloured()] if self.no_color else super().get_line_filters()

    def on_mount(self) -> None:
        """Show the main screen."""
        # By default it would leave the terminal without echo, and with the mouse reported to it.
        leave = partial(self.exit, return_code=128 + signal.SIGTERM)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave)
        self.push_screen(self.main)

    @property
    def unexpected(self) -> BaseException | None:
        """Return the unexpected error that ended the UI, if there was one."""
        found = self._exception
        # An error in a worker arrives wrapped; the caller reports the error itself.
        return found.error if isinstance(found, WorkerFailed) else found

    def _fatal_error(self) -> None:
        """End; the caller of the app reports why.

        textual 8.2 would print a traceback with the values of variables, prompts among them.
        """
        self._close_messages_no_wait()

    async def on_event(self, event: events.Event) -> None:
        """Hand on what is typed, each key when the one before it has done what it does."""
        typed = isinstance(event, events.Key | events.Paste)
        if not typed or event.is_forwarded:
            await super().on_event(event)
            return
        self._typed.append(event)
        if self._past is None:
            await self._hand_on()

    async def _hand_on(self) -> None:
        """Hand the next key on, and have it followed."""
        self._past = None
        if self._late is not None:
            self._late.stop()
        if self._typed:
            await super().on_event(self._typed.popleft())
            self._follow(_ROUNDS)
            # what a screen that closes had before it is lost, and with it what follows a key
            self._late = self.set_timer(_LONGEST_S, self._hand_on)

    def _follow(self, rounds: int) -> None:
        self._past = Past(self.screen, rounds)
        # A widget that is being removed takes no messages any more.
        if not (self.focused or self.screen).post_message(self._past):
            self.post_message(self._past)

    @on(Past)
    async def _followed(self, past: Past) -> None:
        """Continue when all have seen a key, and the screen that it opened is shown."""
        if past is not self._past:
            return
        # The key opened or closed a screen, so the one that is shown now gets the message too.
        if past.screen is not self.screen:
            self._follow(_ROUNDS)
        elif past.rounds > 1:
            self._follow(past.rounds - 1)
        else:
            await self._hand_on()

    def _told(self, note: str) -> None:
        """Show a note that came with an answer; called on any thread."""
        self.call_from_thread(self.main.say, note)


class Uncoloured(LineFilter):
    """Remove the colours from segments, for people who set NO_COLOR (no-color.org).

    A strong background becomes reversed text; weak tints and greys are dropped, because signs and
    words next to them have the same meaning.
    """

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
