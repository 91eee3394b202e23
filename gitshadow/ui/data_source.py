"""What the UI asks its backend for, as values: pages of events, marks, files, patches.

Invariant: every question is asked on a thread of its own; it may take seconds and may raise. An
answer that is no longer waited for is dropped; an error is an answer.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from gitshadow.errors import ShadowError
from gitshadow.messages.codec import A, Q, Unset, Verb
from gitshadow.messages.lists import (
    LOG,
    OPS,
    PINS,
    LogRequest,
    OpsRequest,
    PinRow,
    PinsRequest,
)
from gitshadow.messages.rows import EventRow
from gitshadow.messages.states import (
    CAT,
    DIFF,
    SHOW,
    CatRequest,
    DiffRequest,
    FileDiff,
    ShowRequest,
    StatRow,
)
from gitshadow.messages.undo import FileUndoAnswer, FileUndoRequest
from gitshadow.ui.filters import Filter
from gitshadow.ui.paging import PAGE, PageWindow, opened, opened_upwards, with_newer
from gitshadow.ui.patches import Patch, patch_of
from gitshadow.ui.timeline import (
    BlockKind,
    TimelineLine,
    UndoMarks,
    files_of,
    marks_of,
    moment_named,
)


class UiBackend(Protocol):
    """Answer the UI: the daemon if one runs, else this process."""

    def send(self, verb: Verb[Q, A], request: Q, /) -> A:
        """Return a verb's answer.

        Raises:
            ShadowError: what the verb raised, with its hint.
        """
        ...

    def plan(self, request: FileUndoRequest, /) -> FileUndoAnswer:
        """Return the plan of an undo, with its token; nothing is changed.

        Raises:
            ShadowError: it cannot be planned.
        """
        ...

    def apply(self, request: FileUndoRequest, token: str, /) -> FileUndoAnswer:
        """Apply exactly the plan that was shown, or nothing; return the report.

        Raises:
            RefusedError: files changed since the plan; nothing was changed.
            ShadowError: it failed, or another undo is running.
        """
        ...

    def mark(self) -> object:
        """Return a value that differs after every change of the journal; cheap."""
        ...


_T = TypeVar("_T")
# An undo that is older than this many later ones is not marked in the timeline.
_OPS = 500
_FILES = 20_000
"""So many writes of one block are read to list its files."""


class HistoryState(NamedTuple):
    """What ops and pins mean for the timeline, and the op that is applied right now, if any."""

    marks: UndoMarks
    pins: tuple[PinRow, ...]
    applying: str


class FoundEvent(NamedTuple):
    """An event that was searched, and a window around it."""

    window: PageWindow
    seq: int


class Listed(NamedTuple):
    """The files of a block, and whether there are more than were read."""

    files: tuple[StatRow, ...]
    is_cut: bool = False


class DataSource(NamedTuple):
    """Ask an engine, under a filter; `moment` reads a time as typed."""

    engine: UiBackend
    moment: Callable[[str], int]
    filter: Filter = Filter()

    def newest(self) -> PageWindow:
        """Return a window on the newest page."""
        return opened(self._page(), newer=False)

    def oldest(self) -> PageWindow:
        """Return a window on the oldest page."""
        return opened_upwards(self._page(above=0))

    def below(self, window: PageWindow) -> tuple[EventRow, ...]:
        """Return the page below a window."""
        return self._page(below=window.oldest, limit=window.page)

    def above(self, window: PageWindow) -> tuple[EventRow, ...]:
        """Return the page above a window."""
        return self._page(above=window.newest, limit=window.page)

    def around(self, seq: int) -> PageWindow:
        """Return a window with an event about in the middle."""
        # Half of the window is above the event, so that it is not at an edge that loads at once.
        lower = opened(self._page(below=seq + 1), newer=False)
        return with_newer(lower, self._page(above=seq))

    def at(self, words: str) -> FoundEvent | None:
        """Return the newest event up to a moment; None where there is none.

        Raises:
            UsageError: the words are no moment.
        """
        until, request = self.moment(words), self._request()
        # A time outside the filter would show an event that the filter hides.
        if request.until is not None:
            until = min(until, request.until)
        page = self.engine.send(LOG, request._replace(until=until, limit=1)).rows
        return FoundEvent(self.around(page[0].seq), page[0].seq) if page else None

    def of(self, seq: int) -> FoundEvent:
        """Return an event with what is around it."""
        return FoundEvent(self.around(seq), seq)

    def find(
        self, wanted: str, window: PageWindow, *, older: bool
    ) -> FoundEvent | None:
        """Return the next event beyond a window whose path or prompt holds a text."""
        one = self._request()._replace(text=wanted, limit=1)
        end = (
            one._replace(below=window.oldest)
            if older
            else one._replace(above=window.newest)
        )
        page = self.engine.send(LOG, end).rows
        return FoundEvent(self.around(page[0].seq), page[0].seq) if page else None

    def _page(
        self, *, below: int | None = None, above: int | None = None, limit: int = 0
    ) -> tuple[EventRow, ...]:
        request = self._request()._replace(below=below, above=above)
        return self.engine.send(LOG, request._replace(limit=limit or PAGE)).rows

    def _request(self) -> LogRequest:
        return self.filter.request(self.moment)._replace(prompts=True)

    def standing(self) -> HistoryState:
        """Return marks and pins."""
        ops = self.engine.send(OPS, OpsRequest(_OPS)).rows
        pins = self.engine.send(PINS, PinsRequest()).rows
        applying = next((op.id for op in ops if op.status == "applying"), "")
        return HistoryState(marks_of(ops), pins, applying)

    def files(self, line: TimelineLine) -> Listed:
        """Return the files that a block, or one event of it, changed."""
        block = line.block
        if line.event is not None:
            return Listed(files_of((line.event,)))
        # Loose events have no id of their own, so what is loaded of them is all there is. The files
        # that Git switched are asked for by the number of the move.
        if block.kind not in (BlockKind.BURST, BlockKind.OP) and not block.switched:
            return Listed(block.files())
        request = ShowRequest(block.target, patch=False, limit=_FILES)
        shown = self.engine.send(SHOW, request)
        return Listed(files_of(shown.events or ()), shown.cut)

    def patch(self, line: TimelineLine, path: str) -> Patch | None:
        """Return what a block, or one event of it, changed in a file."""
        block = line.block
        request = ShowRequest(block.target, (path,), hunks=True)
        loose = block.kind is BlockKind.LOOSE and not block.switched
        if line.event is not None or loose:
            named = [event for event in block.events if event.path == path]
            # The newest event of the path is first; no event has the number 0.
            seq = line.event.seq if line.event else named[0].seq if named else 0
            request = ShowRequest(str(seq), hunks=True)
        return _patch(self.engine.send(SHOW, request).file_diffs)

    def since(self, line: TimelineLine) -> Listed:
        """Return the files that differ between the moment of a line and now."""
        request = DiffRequest(moment_named(line), patch=False)
        return Listed(self.engine.send(DIFF, request).stat)

    def patch_since(self, line: TimelineLine, path: str) -> Patch | None:
        """Return how a file differs between the moment of a line and now."""
        request = DiffRequest(moment_named(line), paths=(path,), hunks=True)
        return _patch(self.engine.send(DIFF, request).file_diffs)

    def content(self, line: TimelineLine, path: str) -> str:
        """Return a file as it was at the moment of a line, its bytes in base64."""
        request = CatRequest(path, moment_named(line))
        return self.engine.send(CAT, request).data_base64


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
    """A question was asked, or was answered."""

    def __init__(self, begun: bool) -> None:
        super().__init__()
        self.begun = begun


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
        asker.post_message(Waiting(begun=True))
        try:
            answer = question()
        except ShadowError as error:
            if not worker.is_cancelled:
                asker.post_message(Failed(error, about))
        else:
            if not worker.is_cancelled:
                asker.post_message(Answered(lambda: then(answer)))
        finally:
            asker.post_message(Waiting(begun=False))

    # `exclusive` cancels the older worker of the group. Its thread goes on until it has an
    # answer, which is then dropped.
    asker.run_worker(run, name=about, group=about, exclusive=True, thread=True)
