"""What the UI asks its backend for, as values: pages of events, marks, files, patches.

Invariant: every question is asked on a thread of its own; it may take seconds and may raise. An
answer that is no longer waited for is dropped; an error is an answer.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from gitshadow.errors import ShadowError
from gitshadow.messages.backend import HistoryBackend
from gitshadow.messages.codec import Nothing, Unset
from gitshadow.messages.history import HISTORY, HistoryRequest, HistoryRow
from gitshadow.messages.lists import LOG, OPS, PINS, OpsRequest, PinRow
from gitshadow.messages.rows import EventRow, OpRow
from gitshadow.messages.states import (
    CAT,
    DIFF,
    SHOW,
    CatRequest,
    DiffRequest,
    FileDiff,
    ShowAnswer,
    ShowRequest,
    StatRow,
)
from gitshadow.ui.filters import Filter
from gitshadow.ui.patches import Patch, patch_of
from gitshadow.ui.timeline import BlockKind, TimelineLine, files_of, moment_named

PAGE = 80
HELD = 1000


class PageWindow(NamedTuple):
    """Consecutive rows, and whether the history has newer and older ones."""

    rows: tuple[HistoryRow, ...] = ()
    newer: bool = False
    older: bool = False

    @property
    def newest(self) -> int:
        """Return the number of the newest event, 0 without rows."""
        return self.rows[0].seq if self.rows else 0

    @property
    def oldest(self) -> int:
        """Return the number of the newest event of the oldest row, 0 without rows."""
        return self.rows[-1].seq if self.rows else 0


def with_older(window: PageWindow, page: tuple[HistoryRow, ...]) -> PageWindow:
    """Add a whole page, or the last one, below a window; rows above are dropped."""
    known = set(map(name_of, window.rows))
    rows = window.rows + tuple(row for row in page if name_of(row) not in known)
    dropped = max(0, len(rows) - HELD)
    return PageWindow(rows[dropped:], window.newer or dropped > 0, len(page) >= PAGE)


def with_newer(window: PageWindow, page: tuple[HistoryRow, ...]) -> PageWindow:
    """Add a whole page, or the last one, above a window; rows below are dropped.

    A row that has grown since is in the page, and replaces the loaded one.
    """
    grown = set(map(name_of, page))
    rows = page + tuple(row for row in window.rows if name_of(row) not in grown)
    older = window.older or len(rows) > HELD
    return PageWindow(rows[:HELD], len(page) >= PAGE, older)


def name_of(row: HistoryRow) -> tuple[str, str]:
    """Return what identifies a row."""
    return row.worktree, row.id


_T = TypeVar("_T")
_FILES = 20_000
"""So many files that Git switched at once are listed."""


class HistoryState(NamedTuple):
    """The pins, and the newest op."""

    pins: tuple[PinRow, ...]
    op: OpRow | None

    @property
    def applying(self) -> str:
        """Return the op that is applied right now, if there is one."""
        op = self.op
        return op.id if op is not None and op.status == "applying" else ""


class FoundRow(NamedTuple):
    """A row that was searched, and a window around it."""

    window: PageWindow
    row: HistoryRow


class Listed(NamedTuple):
    """The files of a line, and whether there are more than were read."""

    files: tuple[StatRow, ...]
    is_cut: bool = False


class DataSource(NamedTuple):
    """Ask an engine, under a filter; `moment` reads a time as typed.

    `worktrees` are the names of those that are shown; without any, it is the engine's own.
    """

    engine: HistoryBackend
    moment: Callable[[str], int]
    filter: Filter = Filter()
    worktrees: tuple[str, ...] = ()

    def newest(self) -> PageWindow:
        """Return a window on the newest page."""
        page = self._page()
        return PageWindow(page, newer=False, older=len(page) >= PAGE)

    def oldest(self) -> PageWindow:
        """Return a window on the oldest page."""
        page = self._page(above=0)
        return PageWindow(page, newer=len(page) >= PAGE, older=False)

    def below(self, window: PageWindow) -> tuple[HistoryRow, ...]:
        """Return the page below a window."""
        return self._page(below=window.oldest)

    def above(self, window: PageWindow) -> tuple[HistoryRow, ...]:
        """Return the page above a window."""
        return self._page(above=window.newest)

    def again(self, window: PageWindow) -> PageWindow:
        """Return the rows of a window as they are now, and newer ones if it had the newest."""
        below = window.newest + 1 if window.newer else None
        most = max(PAGE, len(window.rows))
        rows = self._page(below=below, limit=most)
        return PageWindow(rows, window.newer, window.older or len(rows) >= most)

    def around(self, row: HistoryRow) -> PageWindow:
        """Return a window with a row about in the middle."""
        # Half of the window is above the row, so that it is not at an edge that loads at once.
        page = self._page(below=row.seq + 1)
        window = PageWindow(page, newer=False, older=len(page) >= PAGE)
        return with_newer(window, self._page(above=row.seq))

    def at(self, words: str) -> FoundRow | None:
        """Return the newest row that ended by a moment; None where there is none.

        Raises:
            UsageError: the words are no moment.
        """
        until, request = self.moment(words), self.filter.log_request(self.moment)
        # A time outside the filter would show what the filter hides.
        if request.until is not None:
            until = min(until, request.until)
        asked = request._replace(until=until, limit=1, all=len(self.worktrees) > 1)
        events = self.engine.send(LOG, asked).rows
        return self._found(below=events[0].seq + 1) if events else None

    def of(self, seq: int) -> FoundRow | None:
        """Return the row of an event; None if it is not among what is shown."""
        return self._found(of=seq)

    def find(self, wanted: str, seq: int, *, older: bool) -> FoundRow | None:
        """Return the next row beyond an event whose paths or prompt hold a text."""
        if older:
            return self._found(text=wanted, below=seq)
        return self._found(text=wanted, above=seq)

    def _found(
        self,
        *,
        text: str | None = None,
        below: int | None = None,
        above: int | None = None,
        of: int | None = None,
    ) -> FoundRow | None:
        asked = self._request()._replace(below=below, above=above, of=of, limit=1)
        if text is not None:
            asked = asked._replace(text=text)
        rows = self.engine.send(HISTORY, asked).rows
        return FoundRow(self.around(rows[0]), rows[0]) if rows else None

    def _page(
        self,
        *,
        below: int | None = None,
        above: int | None = None,
        limit: int | None = None,
    ) -> tuple[HistoryRow, ...]:
        asked = self._request()._replace(below=below, above=above)
        asked = asked._replace(limit=PAGE if limit is None else limit)
        return self.engine.send(HISTORY, asked).rows

    def _request(self) -> HistoryRequest:
        request = self.filter.request(self.moment)
        return request._replace(worktrees=self.worktrees)

    def standing(self) -> HistoryState:
        """Return pins and the newest op."""
        ops = self.engine.send(OPS, OpsRequest(1)).rows
        shown = self.worktrees or self.engine.worktrees()[:1]
        pins = tuple(
            pin
            for pin in self.engine.send(PINS, Nothing()).rows
            if pin.worktree in shown
        )
        return HistoryState(pins, ops[0] if ops else None)

    def there(self, line: TimelineLine | None) -> HistoryBackend:
        """Return what answers in the worktree of a line.

        Raises:
            UsageError: that worktree is gone.
        """
        named = line.block.row.worktree if line is not None else ""
        return self.engine.there(named) if named else self.engine

    def events(self, line: TimelineLine) -> tuple[EventRow, ...]:
        """Return the single changes of a block, newest first."""
        row = line.block.row
        if row.kind == "head":
            return tuple(self._switched(line).events or ())[::-1]
        asked = HistoryRequest(of=row.seq, limit=1, lines=False, events=True)
        found = self.there(line).send(HISTORY, asked).rows
        return found[0].events if found else ()

    def _switched(self, line: TimelineLine) -> ShowAnswer:
        asked = ShowRequest(line.block.row.id, patch=False, limit=_FILES)
        return self.there(line).send(SHOW, asked)

    def files(self, line: TimelineLine) -> Listed:
        """Return the files that a block, or one event of it, changed."""
        row = line.block.row
        if line.event is not None:
            return Listed(files_of((line.event,)))
        if row.kind == "head":
            shown = self._switched(line)
            return Listed(files_of(shown.events or ()), shown.cut)
        if line.block.kind is BlockKind.RARE:
            return Listed(files_of(self.events(line)))
        # Lines of very many files are not counted: each costs a diff.
        asked = DiffRequest(of=row.id, patch=False, lines=row.added is not None)
        return Listed(self.there(line).send(DIFF, asked).stat)

    def patch(self, line: TimelineLine, path: str) -> Patch | None:
        """Return what a block, or one event of it, changed in a file."""
        row, engine = line.block.row, self.there(line)
        if line.event is None and line.block.kind is not BlockKind.RARE:
            of = DiffRequest(of=row.id, paths=(path,), hunks=True)
            return _patch(engine.send(DIFF, of).file_diffs)
        request = ShowRequest(row.id, (path,), hunks=True)
        if line.event is not None:
            request = ShowRequest(str(line.event.seq), hunks=True)
        elif row.kind != "head":
            # Each of these events has a patch of its own; no event has the number 0.
            named = [one for one in self.events(line) if one.path == path]
            request = ShowRequest(str(named[0].seq if named else 0), hunks=True)
        return _patch(engine.send(SHOW, request).file_diffs)

    def since(self, line: TimelineLine) -> Listed:
        """Return the files that differ between the moment of a line and now."""
        request = DiffRequest(moment_named(line), patch=False)
        return Listed(self.there(line).send(DIFF, request).stat)

    def patch_since(self, line: TimelineLine, path: str) -> Patch | None:
        """Return how a file differs between the moment of a line and now."""
        request = DiffRequest(moment_named(line), paths=(path,), hunks=True)
        return _patch(self.there(line).send(DIFF, request).file_diffs)

    def content(self, line: TimelineLine, path: str) -> str:
        """Return a file as it was at the moment of a line, its bytes in base64."""
        request = CatRequest(path, moment_named(line))
        return self.there(line).send(CAT, request).data_base64


def _patch(diffs: Sequence[FileDiff] | Unset) -> Patch | None:
    return patch_of(diffs) if diffs else None


class Answered(Message):
    """An answer, for the thread that draws."""

    def __init__(self, deliver: Callable[[], None]) -> None:
        super().__init__()
        self.deliver = deliver


class Failed(Message):
    """A question failed."""

    def __init__(self, error: ShadowError, about: str) -> None:
        super().__init__()
        self.error, self.about = error, about


class Looked(Message):
    """The journal has changed; no question was asked."""

    def __init__(self, deliver: Callable[[], None]) -> None:
        super().__init__()
        self.deliver = deliver


class Waiting(Message):
    """A question was asked, or was answered; a newer one replaces one about the same."""

    def __init__(self, about: str, asked: object, *, begun: bool) -> None:
        super().__init__()
        self.about, self.asked, self.begun = about, asked, begun


def ask(
    asker: Widget, about: str, question: Callable[[], _T], then: Callable[[_T], None]
) -> None:
    """Ask on a thread; a newer question about the same subject replaces an older one.

    Args:
        asker: The widget that gets the answer: it handles the messages of this module.
        about: What it is about; a failure names it.
        question: Runs on the thread.
        then: Runs on the thread that draws, with the answer.
    """

    def run() -> None:
        worker = get_current_worker()
        if worker.is_cancelled:
            return
        asker.post_message(Waiting(about, worker, begun=True))
        try:
            answer = question()
        except ShadowError as error:
            if not worker.is_cancelled:
                asker.post_message(Failed(error, about))
        else:
            if not worker.is_cancelled:
                asker.post_message(Answered(lambda: then(answer)))
        finally:
            asker.post_message(Waiting(about, worker, begun=False))

    # `exclusive` cancels the older worker of the group. Its thread goes on until it has an
    # answer, which is then dropped.
    asker.run_worker(run, name=about, group=about, exclusive=True, thread=True)
