"""Notice through watchfiles that files change; what it may have missed, a walk finds.

Facts about watchfiles 1.3, from measurements: where it watches each directory itself, a recursive
watch follows links. So directories are watched one by one, and new ones need a new watch of all. A
name that is not UTF-8 ends a watch for good. An overflow of the kernel's queue is not reported: so
many changes at once are a sign of it.
Invariant: a barrier always asks for a walk, and so does each new watch: what was written between
two watches came without a hint.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from gitshadow.model import RepoPath
from gitshadow.platform.port import Machine
from gitshadow.platform.watching import (
    GIT_NAMES,
    EventSink,
    Hints,
    Walks,
    directory_inode,
)

# So long a write waits for others at most, and so long they are waited for.
_DEADLINE_MS = 50
_STEP_MS = 10
# Where the kernel has nothing to offer (ENOSYS), the library polls; with 0 it would never pause.
_LIBRARY_POLLS_MS = 300
_PAUSE_S = 0.1
_SHARE = 10
_HUGE_BATCH = 1024
_NOT_UTF8 = (
    "watchfiles cannot watch directories whose paths are not UTF-8: all files are"
    " scanned instead"
)


class _Stop(NamedTuple):
    """What watchfiles asks every few milliseconds."""

    is_set: Callable[[], bool]


class PortableWatcher:
    """Watch the covered directories of one worktree; implements `Watcher`.

    A thread opens the watch and listens; `wake` is called there. With `recursive` it watches all
    below the top and Git's directory, and hints at the covered part of it.
    """

    def __init__(
        self,
        root: str,
        git_dir: str,
        wake: Callable[[], None],
        machine: Machine,
        *,
        recursive: bool = False,
    ) -> None:
        self._root = root
        self._git_dir = git_dir
        self._wake = wake
        self._watch_hint = machine.WATCH_HINT
        self._recursive = recursive
        self._walks = Walks(machine.shared_file_system(root))
        self._lock = threading.Lock()
        self._hints = Hints()
        self._wanted: frozenset[RepoPath] = frozenset()
        self._inodes: dict[RepoPath, int] = {}
        self._is_stale = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, directories: Iterable[RepoPath]) -> None:
        """Watch more directories soon; then all is walked."""
        # Another directory may have come in the place of one that is watched.
        self._is_stale = not self._recursive
        self._want(self._wanted.union(directories))

    def replace(self, directories: Iterable[RepoPath]) -> None:
        """Watch exactly these directories soon; then all is walked."""
        self._want(frozenset(directories))
        self._walks.pace()

    def enter(self, directories: Mapping[RepoPath, int]) -> None:
        """Note which of them are not watched as what they are; a walk follows each new watch."""
        known = self._inodes
        if any(known.get(path, inode) != inode for path, inode in directories.items()):
            self._is_stale = True

    def barrier(self) -> Hints:
        """Return what was seen, and that it may not be all."""
        return self.take()._replace(lost=True)

    def degraded(self) -> str | None:
        """Return what cannot be watched, and the remedy; None where all is."""
        return self._walks.reason

    def follow(self, order: EventSink) -> None:
        """Do nothing: a batch of events has no order."""

    def watching(self, paths: Collection[RepoPath]) -> set[RepoPath]:
        """Return nothing: no barrier asks for the proof of watches."""
        return set()

    def unwatched(self, directories: Iterable[RepoPath]) -> set[RepoPath]:
        """Return nothing: walks replace all missing watches."""
        return set()

    def take(self) -> Hints:
        """Return what was seen since the last time, without waiting."""
        with self._lock:
            hints, self._hints = self._hints, Hints()
        return hints

    def tidy(self) -> None:
        """Ask for a walk if one is due."""
        if self._walks.is_due():
            self._add_hints(Hints(lost=True))

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _want(self, directories: frozenset[RepoPath]) -> None:
        # First what is wanted: the thread takes it after it has cleared the mark.
        old, self._wanted = self._wanted, directories
        self._is_stale |= directories != old and not self._recursive
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        """Watch until that fails or other directories are wanted, again and again."""
        while not self._closed.is_set():
            began = time.monotonic()
            self._is_stale = False
            try:
                notify = self._open()
                next_s = time.monotonic() + _SHARE * (time.monotonic() - began)
                self._walks.want()
                self._wake()
                self._listen(notify, max(next_s, began + _PAUSE_S))
            except (FileNotFoundError, WatchfilesRustInternalError):
                # A directory vanished, or a name was not UTF-8.
                self._closed.wait(_PAUSE_S)
            except OSError:
                self._walks.reason = self._watch_hint
                self._closed.wait(_PAUSE_S * _SHARE)

    def _open(self) -> RustNotify:
        """Watch what is wanted and can be watched."""
        paths = {RepoPath(b"")} if self._recursive else self._wanted
        wanted = {path: self._absolute(path) for path in sorted(paths)}
        known = {path: place for path, place in wanted.items() if _is_utf8(place)}
        looks = {path: directory_inode(place) for path, place in known.items()}
        inodes = {path: inode for path, inode in looks.items() if inode is not None}
        try:
            notify = RustNotify(
                [self._git_dir, *(known[path] for path in inodes)],
                False,
                False,
                _LIBRARY_POLLS_MS,
                self._recursive,
                False,
            )
        except WatchfilesRustInternalError as error:
            raise OSError(str(error)) from error
        self._inodes = {} if self._recursive else inodes
        self._walks.watched()
        if len(known) < len(wanted):
            self._walks.reason = _NOT_UTF8
        return notify

    def _listen(self, notify: RustNotify, stale_s: float) -> None:
        """Take hints until the end, or after a moment until other directories are wanted."""
        stop = _Stop(
            lambda: (
                self._closed.is_set()
                or (self._is_stale and time.monotonic() >= stale_s)
            )
        )
        with notify:
            while isinstance(
                batch := notify.watch(_DEADLINE_MS, _STEP_MS, 0, stop), set
            ):
                self._add_hints(self._sort(batch))

    def _sort(self, batch: Collection[tuple[int, str]]) -> Hints:
        """Return what a batch of absolute paths says."""
        top, git_dir = self._root + "/", False
        paths: set[RepoPath] = set()
        for _, text in batch:
            head, _, name = text.rpartition("/")
            if head == self._git_dir:
                git_dir |= name in GIT_NAMES
            elif text != self._git_dir and text.startswith(top):
                path = RepoPath(os.fsencode(text[len(top) :]))
                parent = path.rpartition(b"/")[0]
                # Events may spell a name otherwise than a walk does (Unicode's normal forms).
                if parent in self._wanted or not parent.isascii():
                    paths.add(path)
        is_huge = len(batch) >= _HUGE_BATCH
        return Hints(frozenset(paths), is_huge, git_dir, overflow=is_huge)

    def _absolute(self, path: RepoPath) -> str:
        return os.path.join(self._root, os.fsdecode(path)) if path else self._root

    def _add_hints(self, new: Hints) -> None:
        with self._lock:
            old = self._hints
            self._hints = Hints(
                old.paths | new.paths,
                old.lost or new.lost,
                old.git_dir or new.git_dir,
                overflow=old.overflow or new.overflow,
            )
        if new != Hints():
            self._wake()


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
