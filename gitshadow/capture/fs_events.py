"""Keep the order of what a watcher reports, and recognize the temporary names of editors and tools.

Editors and tools save a file under a temporary name that soon disappears. A name that matches is
only looked at later and never left out: one that stays is recorded like any other file.
Invariant: a hint may be wrong or missing, and only a barrier is a promise.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from gitshadow.model import RepoPath
from gitshadow.store.files import Look

GRACE_S = 0.04
TEMPORARY_GRACE_S = 1.0
WRITING_GRACE_S = 0.01
TRACE_S = 2.0
# A file whose mtime is younger is looked at again a moment later.
_AT_WORK_NS = 3_000_000
_JUST_EMPTIED_NS = 150_000_000
_MOST_MOMENTS = 8192
# Looks take a fifth of the time at most while files are finished one after the other, and a five
# hundredth while nothing happens.
_SOON_SHARE = 4
_LATE_SHARE = 500
_LATE_S = 0.02
_TEMPORARY = re.compile(
    rb"""(?:
      4913                                  # vim probes whether it may create files
    | .*\.tmp(?:\.[0-9A-Za-z]+)*           # x.tmp, name.tmp.<pid>.<ms>, name.tmp.<pid>.<hex>
    | .*\.tmp[-_.]?[0-9A-Za-z]{4,}          # name.tmp.a1b2c3, name.tmpAbC123
    | \.?.*~                                # backups of vim and emacs
    | \.\#.* | \#.*\#                       # emacs locks and auto-saves
    | \..*\.sw[a-p] | \..*\.sw[a-p]x        # vim swap files
    | .*___jb_(?:tmp|old)___                # JetBrains
    | \.goutputstream-[0-9A-Z]+             # GLib
    | sed[0-9A-Za-z]{6}                     # sed -i
    | .*\.vsctmp                            # VS Code, where asked to save by rename
    | .*\.crswap | .*\.part | .*\.new | .*\.bak
    )""",
    re.VERBOSE | re.DOTALL,
)
_SAVED_AS = re.compile(
    rb"""(?P<name>.+?)
    (?:\.[0-9a-f]{12,})?                     # name.<hex>.tmp (Qwen Code)
    \.(?:(?:tmp|temp)(?:[-_.]?[0-9A-Za-z]+)*|part|new|vsctmp)""",
    re.VERBOSE | re.DOTALL,
)
_EDITOR = re.compile(
    rb"4913|\.?.*~|\.#.*|#.*#|\..*\.sw[a-px]+|.*___jb_(?:tmp|old)___", re.DOTALL
)
_BESIDE = re.compile(
    rb"""
      \.(?P<swap>.+)\.sw[a-p]x?               # vim
    | \.\#(?P<lock>.+) | \#(?P<auto>.+)\#     # emacs
    | (?P<safe>.+)___jb_(?:tmp|old)___       # JetBrains
    """,
    re.VERBOSE | re.DOTALL,
)


def is_temporary(path: RepoPath) -> bool:
    """Return whether a name looks like one end of an atomic save."""
    return _TEMPORARY.fullmatch(path.rpartition(b"/")[2]) is not None


def saved_as(path: RepoPath) -> RepoPath | None:
    """Return the file that a temporary of this name is renamed to, if the name shows it."""
    head, slash, name = path.rpartition(b"/")
    found = _SAVED_AS.fullmatch(name)
    return None if found is None else RepoPath(head + slash + found["name"])


def is_being_written(look: Look, now_ns: int) -> bool:
    """Return whether a writer seems to be at work: bytes came just now, or none came yet.

    `open(path, "w")` leaves the file empty for a moment; what is read then is no state that
    anybody meant.
    """
    age_ns = now_ns - look.stat.mtime_ns
    # An empty file is given more time: programs truncate first and compute the content then.
    limit = _AT_WORK_NS if look.stat.size else _JUST_EMPTIED_NS
    # A time in the future is that of another clock, and shows nothing about the writer.
    return 0 <= age_ns < limit


def is_editor_trace(path: RepoPath) -> bool:
    """Return whether a name is left by a person's editor while it saves or edits."""
    return _EDITOR.fullmatch(path.rpartition(b"/")[2]) is not None


def edited(path: RepoPath) -> RepoPath | None:
    """Return the file that an editor is at work on when a path of this name comes or goes.

    Backups (`name~`) show nothing: patch, sed and the like leave them too.
    """
    head, slash, name = path.rpartition(b"/")
    found = _BESIDE.fullmatch(name)
    if found is None:
        return None
    return RepoPath(head + slash + next(part for part in found.groups() if part))


class EditorTraces:
    """Remember for a moment which files an editor was seen to save.

    A temporary file that exists only while a file is saved is gone when the file is read.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[RepoPath, float] = {}

    def note(self, paths: Iterable[RepoPath]) -> None:
        """Note the files whose editor traces are among some paths."""
        now = self._clock()
        found = {target for path in paths if (target := edited(path)) is not None}
        if found:
            # Old traces are dropped here, so that the table stays as small as the work of two
            # seconds.
            kept = self._seen.items()
            self._seen = {one: at for one, at in kept if now - at <= TRACE_S}
            self._seen |= dict.fromkeys(found, now)

    def tell_of(self, path: RepoPath) -> bool:
        """Return whether an editor was at work on a path just now."""
        at = self._seen.get(path)
        return at is not None and self._clock() - at <= TRACE_S


class NumberedLooks(Protocol):
    """Looks at something, numbered from 1; any thread may look.

    `begun` is the last one that has begun, `done` the last one that is over.
    """

    begun: int
    done: int

    def look(self) -> None:
        """Look once more."""
        ...


class EventLooks(NamedTuple):
    """Between which looks a path changed since it was last recorded, by their numbers.

    Every change was hinted at after the look `before`, and before the look `after` began. `before`
    is None if events may be missing, `after` if the last change may not be over.
    """

    before: int | None
    after: int | None


# An event is in the kernel's queue before the system call returns that made it. So where the queue
# was read to its end without an event of a path, a look that was over before that reading came
# before all calls that changed the path later returned.
class EventOrder:
    """The order of what a watcher reads from the kernel's queue, and looks at something else.

    The watcher's thread looks at once when something was finished, and now and then. So the looks
    before and after a change are a few milliseconds apart. `on_start` wakes that thread.
    """

    def __init__(
        self, looks: NumberedLooks, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._looks = looks
        self._clock = clock
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._moments: dict[RepoPath, EventLooks] = {}
        self._mark: int | None = None
        self._is_on = False
        self._is_whole = False
        self._is_finished = False
        self._soon_s = 0.0
        self._late_s = 0.0
        self.on_start: Callable[[], None] = lambda: None

    @property
    def is_on(self) -> bool:
        """Return whether events are noted."""
        return self._is_on

    def start(self) -> None:
        """Note events from now on; `settled` says when nothing from before is missing."""
        with self._lock:
            was_on, self._is_on = self._is_on, True
        if not was_on:
            self.on_start()

    def settled(self) -> None:
        """Note that all is recorded that was changed before the last reading began."""
        with self._lock:
            self._is_whole = self._is_on

    def stop(self) -> None:
        """Forget all events, and note none; a look under way is over when this returns."""
        with self._looking:
            self.lost()

    def lost(self) -> None:
        """Note that events are missing, which have to be found by a walk."""
        with self._lock:
            self._forget()

    def begin(self) -> int:
        """Return a mark; to be called before the queue is read to its end."""
        return self._looks.done

    def see(self, path: RepoPath, *, is_finished: bool) -> None:
        """Note an event of a path."""
        with self._lock:
            if not self._is_on:
                return
            known = self._moments.get(path)
            before = self._known_before() if known is None else known.before
            after = self._looks.begun + 1 if is_finished else None
            self._moments[path] = EventLooks(before, after)
            self._is_finished |= is_finished
            if len(self._moments) > _MOST_MOMENTS:
                self._forget()

    def end(self, mark: int) -> None:
        """Note that the queue was read to its end."""
        with self._lock:
            self._mark = mark if self._is_on else None

    def _known_before(self) -> int | None:
        return self._mark if self._is_whole else None

    def _forget(self) -> None:
        self._is_on = self._is_whole = False
        self._mark = None
        self._moments.clear()

    def due(self) -> float | None:
        """Return when the next look is due, None where none is."""
        if not self._is_on:
            return None
        return self._soon_s if self._is_finished else self._late_s

    def look(self) -> bool:
        """Look if it is due; return whether it was. The queue is to be read after that."""
        with self._looking:
            due, began = self.due(), self._clock()
            if due is None or began < due:
                return False
            self._is_finished = False
            self._looks.look()
            now = self._clock()
            self._soon_s = now + _SOON_SHARE * (now - began)
            self._late_s = now + max(_LATE_S, _LATE_SHARE * (now - began))
            return True

    def take(self, paths: Iterable[RepoPath]) -> dict[RepoPath, EventLooks]:
        """Return the moments of paths that are going to be read and recorded."""
        with self._lock:
            pop = self._moments.pop
            return {path: found for path in paths if (found := pop(path, None))}

    def spoil(self, paths: Iterable[RepoPath]) -> None:
        """Note that paths were not recorded though they may have changed."""
        with self._lock:
            if self._is_on:
                self._moments.update(dict.fromkeys(paths, EventLooks(None, None)))

    def is_changed(self, path: RepoPath) -> bool:
        """Return whether a path may have changed since it was taken."""
        with self._lock:
            return not self._is_on or path in self._moments
