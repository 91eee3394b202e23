"""Fetching: the pages that the timeline needs as it moves, and new changes.

Invariant: one page is fetched at a time; a page that was asked for under another filter, or for
another window, is dropped. A change of the journal may be reported late, but is never lost.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from gitshadow.messages.history import HistoryRow
from gitshadow.messages.rows import EventRow
from gitshadow.ui.data_source import (
    DataSource,
    FoundRow,
    HistoryState,
    Looked,
    PageWindow,
    ask,
    with_newer,
    with_older,
)
from gitshadow.ui.filters import Filter
from gitshadow.ui.history import History
from gitshadow.ui.timeline import Block, TimelineLine

_T = TypeVar("_T")
_Then = Callable[[], None]
_LOOKS_S = 1.0
"""How often the journal is checked for new changes."""
_LONGEST_S = 30.0
_PAGE, _NEWS, _PINS = "the history", "new changes", "ops and pins"
_EVENTS = "the changes"
UNASKED = frozenset({_NEWS, _PINS})
"""What is asked for without a key, so that nobody waits for it."""


class Loader:
    """Keep a timeline filled; answers come through the screen that it belongs to."""

    def __init__(self, history: History, source: DataSource) -> None:
        self._history = history
        self.source = source
        self.applying = ""
        self.is_going = False
        self._busy = False
        self._asked = 0
        self._standing: HistoryState | None = None
        self._watch = Watch(source.engine.mark, self._changed)

    def newest(self) -> None:
        """Show the newest page, the cursor on its first line."""

        def hold(window: PageWindow) -> None:
            self._hold(window)
            self._history.go(0)
            # Pins in an empty list would select one, and that takes the page's error off the foot.
            self.pins()

        self._ask_page(self.source.newest, hold)

    def filter(self, wanted: Filter) -> None:
        """Show what matches another filter, from the newest change on."""
        self.source = self.source._replace(filter=wanted)
        self.newest()

    def show_worktrees(self, names: tuple[str, ...]) -> None:
        """Show other worktrees; without any, the one of the engine."""
        self.source = self.source._replace(worktrees=names)
        self._history.worktrees = names
        self.newest()

    def oldest(self) -> None:
        """Show the oldest page, the cursor on its last line."""

        def hold(window: PageWindow) -> None:
            self._hold(window)
            self._history.go(self._history.row_count() - 1, -1)

        self._ask_page(self.source.oldest, hold)

    def go_to(
        self, question: Callable[[], FoundRow | None], missed: _Then, found: _Then
    ) -> None:
        """Show what is searched, with the cursor on it; without a match, call `missed`.

        Until then `is_going` is set: the cursor is not where it will be.
        """

        def hold(answer: FoundRow | None) -> None:
            if answer is None:
                missed()
                return
            key = Block(answer.row).key
            # A loaded row stays where it is: the window around it would move the screen.
            if not self._history.select(key):
                self._hold(answer.window)
                self._history.select(key)
            found()

        self._ask_page(question, hold)
        self.is_going = True

    def reach(self, seq: int, missed: _Then) -> None:
        """Show an event, without the filter if that hides it."""
        source = self.source
        plain = source._replace(filter=Filter())

        def unfiltered() -> None:
            self.source = plain
            self.go_to(lambda: plain.of(seq), missed, lambda: None)

        if source == plain:
            unfiltered()
        else:
            self.go_to(lambda: source.of(seq), unfiltered, lambda: None)

    def toggle(self, line: TimelineLine) -> None:
        """Show the events of a block, or hide them."""
        block, source = line.block, self.source
        if block.key in self._history.opened:
            self._history.open(block, ())
            return

        def show(events: tuple[EventRow, ...]) -> None:
            self._history.open(block, events)

        ask(self._history.screen, _EVENTS, lambda: source.events(line), show)

    def grown(self, line: TimelineLine) -> None:
        """Show the events of a block again that has more of them now."""
        key, source = line.block.key, self.source

        def show(events: tuple[EventRow, ...]) -> None:
            self._history.update_events(key, events)

        about = f"{_EVENTS} of {key}"
        ask(self._history.screen, about, lambda: source.events(line), show)

    def _ask_page(self, question: Callable[[], _T], hold: Callable[[_T], None]) -> None:
        """Ask for a page; the answer to an older question is dropped.

        `ask` cancels the older question, but its answer may already be on its way here. Taken
        as the newer one's, it would let the next page be asked for, which cancels the newer one.
        """
        self._busy, self.is_going = True, False
        self._asked += 1
        asked = self._asked

        def take(answer: _T) -> None:
            if asked == self._asked:
                self._busy, self.is_going = False, False
                hold(answer)

        ask(self._history.screen, _PAGE, question, take)

    def _hold(self, window: PageWindow) -> None:
        is_filtered = self.source.filter != Filter()
        self._history.empty = (
            "no matching changes" if is_filtered else "nothing is recorded here yet"
        )
        self._history.hold(window)

    def pins(self) -> None:
        """Ask for pins and the newest op again."""

        def take(standing: HistoryState) -> None:
            before, self._standing = self._standing, standing
            self.applying = standing.applying
            if standing == before:
                return
            self._watch.brought(something=True)
            self._history.pin(standing.pins)
            # An op changes what older rows say: whether they are undone.
            if before is not None and standing.op != before.op:
                self.again()

        ask(self._history.screen, _PINS, self.source.standing, take)

    def again(self) -> None:
        """Fetch the loaded rows again, and newer ones; the cursor stays."""
        window, source = self._history.window, self.source
        self._ask_page(lambda: source.again(window), self._hold)

    def more(self, *, older: bool) -> None:
        """Fetch the page at one end, unless one is on its way."""
        window = self._history.window
        if self._busy or not (window.older if older else window.newer):
            return
        fetch = self.source.below if older else self.source.above
        add = with_older if older else with_newer

        def hold(page: tuple[HistoryRow, ...]) -> None:
            # Another window came in between; this page does not join it without a hole.
            if self._history.window is window:
                self._history.hold(add(window, page))

        self._ask_page(lambda: fetch(window), hold)

    def failed(self, about: str, *, locked: bool) -> None:
        """Record that a question has failed: the next one may be asked.

        If another process is running, it is asked again at the next check.
        """
        if locked:
            self._watch.again()
        if about in (_PAGE, _NEWS):
            self._busy, self.is_going = False, False
            self._history.empty = "could not be read"
            self._history.refresh()

    def watch(self) -> None:
        """Watch the journal from now on, and fetch what is new."""
        self._watch.start(_LOOKS_S)

    def unwatch(self) -> None:
        """Stop watching the journal."""
        self._watch.stop()

    def _changed(self) -> None:
        """Request a fetch of what is new; called on the watching thread."""
        self._history.post_message(Looked(self._fetch))

    def _fetch(self) -> None:
        if self._history.window.rows:
            self.news()
        elif not self._busy:
            self.newest()

    def news(self) -> None:
        """Fetch what is newer than the loaded rows, unless only older rows are loaded."""
        self.pins()
        window = self._history.window
        # The newest rows are not loaded, so new ones would leave a hole.
        if window.newer or self._busy:
            self._watch.brought(something=False)
            if self._busy:
                self._watch.again()
            return

        def hold(page: tuple[HistoryRow, ...]) -> None:
            self._watch.brought(bool(page))
            if self._history.window is not window:
                self._watch.again()
            elif page:
                self._history.hold(with_newer(window, page))

        ask(self._history.screen, _NEWS, lambda: self.source.above(window), hold)


class Watch:
    """Report when a mark changes, on a thread of its own.

    Without a daemon a question itself changes the journal's files. So a change that had nothing
    new doubles the wait before the next report, and one that had something ends that.
    """

    # A thread, because a worker of textual for each check took 20 ms of CPU.

    def __init__(self, mark: Callable[[], object], changed: Callable[[], None]) -> None:
        self._mark, self._changed = mark, changed
        self._ended = threading.Event()
        self._again = threading.Event()
        self._pause_s = 0.0

    def start(self, seconds: float) -> None:
        """Check the mark so often from now on; `changed` is called on the watching thread."""
        # A daemon thread, so that a check that hangs on a slow disk does not keep the program.
        thread = threading.Thread(target=self._run, args=(seconds,), daemon=True)
        thread.start()

    def again(self) -> None:
        """Report a change at the next check, whatever it finds."""
        self._again.set()

    def brought(self, something: bool) -> None:
        """Record whether a reported change had anything new."""
        longer = min(_LONGEST_S, max(1.0, 2 * self._pause_s))
        self._pause_s = 0.0 if something else longer

    def stop(self) -> None:
        """Stop; a check that runs may still report."""
        self._ended.set()

    def _run(self, seconds: float) -> None:
        known, told = self._mark(), time.monotonic()
        while not self._ended.wait(seconds):
            found = self._mark()
            waited = time.monotonic() - told >= self._pause_s
            if self._again.is_set() or (found != known and waited):
                known, told = found, time.monotonic()
                self._again.clear()
                self._changed()
