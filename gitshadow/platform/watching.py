"""The port of watchers, and what they share: names that matter, walks where watches are missing."""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from gitshadow.model import RepoPath

GIT_NAMES = frozenset(
    {"HEAD", "HEAD.lock", "ORIG_HEAD", "index", "index.lock", "COMMIT_EDITMSG"}
)
"""The files of Git's directory whose change is a sign of a Git command."""

_WALK_S = 2.0
_SHARE = 10


class Hints(NamedTuple):
    """Store what was noticed since the last time.

    `lost`: events may be missing, everything must be looked at again. `git_dir`: something
    happened directly in the Git directory (HEAD, index, index.lock). `finished`: paths whose
    writer closed or renamed them. `overflow`: the kernel dropped events, so versions of files may
    be missing for good. `head_moved`: HEAD is known to have got another file after the last change
    of the index.
    """

    paths: frozenset[RepoPath] = frozenset()
    lost: bool = False
    git_dir: bool = False
    finished: frozenset[RepoPath] = frozenset()
    overflow: bool = False
    head_moved: bool = False


class EventSink(Protocol):
    """Receive the order of the kernel's events, where a watcher knows it."""

    on_start: Callable[[], None]

    def begin(self) -> int:
        """Return a mark; to be called before the queue is read to its end."""
        ...

    def see(self, path: RepoPath, *, is_finished: bool) -> None:
        """Note an event of a path."""
        ...

    def end(self, mark: int) -> None:
        """Note that the queue was read to its end."""
        ...

    def lost(self) -> None:
        """Note that events are missing, which have to be found by a walk."""
        ...

    def due(self) -> float | None:
        """Return when the next look is due, None where none is."""
        ...

    def look(self) -> bool:
        """Look if it is due; return whether it was. The queue is to be read after that."""
        ...

    def stop(self) -> None:
        """Forget all events, and note none; a look under way is over when this returns."""
        ...


class WatchedPlaces(Protocol):
    """What a watcher has to know of a worktree: its top, and Git's directory."""

    @property
    def root(self) -> str: ...  # noqa: D102 - said above
    @property
    def git_dir(self) -> str: ...  # noqa: D102 - said above


class WatchPort(Protocol):
    """Watch directories."""

    def add(self, directories: Iterable[RepoPath]) -> None:
        """Watch more directories; returns when the watch is in place."""
        ...

    def replace(self, directories: Iterable[RepoPath]) -> None:
        """Watch exactly these directories; a walk is asked for if one was listed before."""
        ...

    def enter(self, directories: Mapping[RepoPath, int]) -> None:
        """Watch directories, each with its inode, that are listed next."""
        ...

    def barrier(self) -> Hints:
        """Return every hint for what was written before the call, or that some are lost."""
        ...

    def watching(self, paths: Collection[RepoPath]) -> set[RepoPath]:
        """Return those paths under which a directory is watched."""
        ...

    def unwatched(self, directories: Iterable[RepoPath]) -> set[RepoPath]:
        """Return the directories that are not watched as what they are on the disk now."""
        ...

    def degraded(self) -> str | None:
        """Return what cannot be watched, and the remedy; None where all is."""
        ...

    def follow(self, order: EventSink) -> None:
        """Report the order of events from now on, where the watcher knows it."""
        ...


class Watcher(WatchPort, Protocol):
    """Watch directories for a daemon, whose loop calls all of this."""

    def take(self) -> Hints:
        """Return what was seen since the last time, without waiting."""
        ...

    def tidy(self) -> None:
        """Do what is due."""
        ...

    def close(self) -> None:
        """End all watches."""
        ...


class Walks:
    """When to walk because hints are missing; walks take at most a tenth of the time.

    `kind` is that of the file system if others write to it as well, else None. `reason` is what
    cannot be watched, and the remedy; None where all is.
    """

    def __init__(self, kind: str | None) -> None:
        self._lasting = (
            f"others may write to this file system ({kind}) without a report to this"
            " machine: all files are scanned instead"
            if kind is not None
            else None
        )
        self.reason = self._lasting
        self._is_wanted = False
        self._next = 0.0
        self._asked: float | None = None

    def watched(self) -> None:
        """Note that all is watched that can be."""
        self.reason = self._lasting
        self._is_wanted = False

    def want(self) -> None:
        """Ask for one walk; any thread may."""
        self._is_wanted = True

    @property
    def are_needed(self) -> bool:
        """Return whether hints may be missing that only a walk finds."""
        return self._is_wanted or self.reason is not None

    def is_due(self) -> bool:
        """Return whether to walk now; then the next walk is due after a pause."""
        now = time.monotonic()
        if now < self._next or not self.are_needed:
            return False
        self._is_wanted = False
        self._asked, self._next = now, now + _WALK_S
        return True

    def pace(self) -> None:
        """Note that a walk has ended: the next one comes the later the longer it took."""
        if self._asked is not None:
            now = time.monotonic()
            self._next = now + max(_WALK_S, _SHARE * (now - self._asked))
            self._asked = None


def directory_inode(path: str | bytes) -> int | None:
    """Return the inode of what can be watched: a directory that we may read, and no link."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode) or not os.access(path, os.R_OK | os.X_OK):
        return None
    return found.st_ino
