"""Watch directories through inotify itself: no hint is lost without a word.

The kernel queues an event before the system call that made it returns, in the order of the calls.
So a barrier reads the queue to its end, and needs no proof. A watch belongs to a directory, not to
its name: events have the name under which the directory was added. After a rename that name may be
another directory's, which its inode shows.
Invariant: a barrier returns every hint for what was written before it, or says `lost`.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from gitshadow.model import RepoPath
from gitshadow.platform.linux.machine import WATCH_HINT, shared_file_system
from gitshadow.platform.watching import (
    GIT_NAMES,
    EventSink,
    Hints,
    Walks,
    directory_inode,
)

# A file that is written but not closed is looked at after this time, again after each write.
UNFINISHED_S = 0.01
_BUFFER = 1 << 16
_AT_ONCE = 512
_HEADER = struct.Struct("iIII")
_GIT_DIR = RepoPath(b".git")
_HEAD = "HEAD"
_INDEX_NAMES = ("index", "index.lock")

# The numbers are those of inotify(7).
_MODIFY = 0x2
_ATTRIB = 0x4
_CLOSE_WRITE = 0x8
_MOVED_FROM = 0x40
_MOVED_TO = 0x80
_CREATE = 0x100
_DELETE = 0x200
_DELETE_SELF = 0x400
_MOVE_SELF = 0x800
_UNMOUNT = 0x2000
_OVERFLOW = 0x4000
_IGNORED = 0x8000
_ONLY_DIRECTORY = 0x1000000
_NO_FOLLOW = 0x2000000
_NOT_UNLINKED = 0x4000000
_IS_DIRECTORY = 0x40000000
_MASK = (
    _MODIFY
    | _ATTRIB
    | _CLOSE_WRITE
    | _MOVED_FROM
    | _MOVED_TO
    | _CREATE
    | _DELETE
    | _MOVE_SELF
    | _ONLY_DIRECTORY
    | _NO_FOLLOW
    | _NOT_UNLINKED
)
# What changes a program. A new file does so only if a file that imports it changes, too.
_REPLACED = _MODIFY | _MOVED_FROM | _MOVED_TO | _DELETE | _DELETE_SELF | _MOVE_SELF
_FINISHED = _CLOSE_WRITE | _MOVED_TO
_BEGUN = _CREATE | _MODIFY


class _Library:
    """The three calls of inotify(7)."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._init = library.inotify_init1
        self._add = library.inotify_add_watch
        self._remove = library.inotify_rm_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)

    def open(self) -> int:
        """Return the descriptor of a new instance; OSError where there is none left."""
        return _checked(self._init(os.O_CLOEXEC | os.O_NONBLOCK))

    def add(self, instance: int, path: bytes, mask: int = _MASK) -> int:
        """Return the watch of a directory; OSError where it cannot be watched."""
        return _checked(self._add(instance, path, mask))

    def remove(self, instance: int, watch: int) -> None:
        """End a watch, which may have ended with its directory."""
        self._remove(instance, watch)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def watch_changes(directories: Iterable[bytes]) -> int:
    """Return a descriptor that has something to read once a file in a directory changed.

    Raises:
        OSError: not all of them can be watched.
    """
    library = _Library()
    instance = library.open()
    try:
        for directory in directories:
            library.add(instance, directory, _REPLACED | _ONLY_DIRECTORY)
    except OSError:
        os.close(instance)
        raise
    return instance


class _Inbox:
    """What was seen since the last time."""

    def __init__(self) -> None:
        self.paths: set[RepoPath] = set()
        self.finished: set[RepoPath] = set()
        self.unfinished: dict[RepoPath, float] = {}
        self.lost = False
        self.overflow = False
        self.git_dir = False
        self.head_moved = False

    @property
    def is_ready(self) -> bool:
        """Return whether somebody has to look at it now."""
        return bool(self.paths or self.lost or self.git_dir)

    def see(self, path: RepoPath, mask: int) -> None:
        """Note an event of a path."""
        if mask & _BEGUN and not mask & _IS_DIRECTORY:
            self.finished.discard(path)
            if path not in self.paths:
                due = time.monotonic() + UNFINISHED_S
                self.unfinished.setdefault(path, due)
            return
        self.unfinished.pop(path, None)
        self.paths.add(path)
        if mask & _FINISHED:
            self.finished.add(path)

    def see_git(self, name: str, mask: int) -> None:
        """Note an event in Git's directory."""
        if name == _HEAD and mask & _MOVED_TO:
            self.head_moved = True
        elif name in _INDEX_NAMES:
            self.head_moved = False
        self.git_dir |= name in GIT_NAMES

    def ripen(self, now: float) -> float | None:
        """Move what is due to the paths; return when the next is due."""
        due = {path for path, at in self.unfinished.items() if at <= now}
        for path in due:
            del self.unfinished[path]
        self.paths |= due
        return min(self.unfinished.values(), default=None)


class _Watches:
    """Which directory is watched under which name; a watch has two in a bind mount."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[RepoPath, ...]] = {}
        self._found: dict[RepoPath, tuple[int, int]] = {}

    def __contains__(self, path: RepoPath) -> bool:
        return path in self._found

    @property
    def paths(self) -> frozenset[RepoPath]:
        """Return the names."""
        return frozenset(self._found)

    def names(self, watch: int) -> tuple[RepoPath, ...]:
        """Return the names of a watch; none where it has ended."""
        return self._names.get(watch, ())

    def inode(self, path: RepoPath) -> int | None:
        """Return the inode of what is watched under a name."""
        found = self._found.get(path)
        return None if found is None else found[1]

    def add(self, path: RepoPath, watch: int, inode: int) -> None:
        """Note the watch of a directory."""
        self.drop(path)
        self._names[watch] = (*self.names(watch), path)
        self._found[path] = (watch, inode)

    def drop(self, path: RepoPath) -> int | None:
        """Forget a name; return its watch if it has no other name."""
        found = self._found.pop(path, None)
        if found is None:
            return None
        watch = found[0]
        left = tuple(one for one in self.names(watch) if one != path)
        if left:
            self._names[watch] = left
            return None
        self._names.pop(watch, None)
        return watch

    def moved(self, watch: int) -> None:
        """Note that a directory has another name now, which nobody knows yet."""
        for path in self.names(watch):
            self._found[path] = (watch, 0)

    def ended(self, watch: int) -> None:
        """Note that a directory is gone, and its watch with it."""
        for path in self.names(watch):
            self.drop(path)


class InotifyWatcher:
    """Watch the covered directories of one worktree; implements `Watcher`.

    A thread empties the kernel's queue, so that it does not overflow while others work; `wake` is
    called there. What is open for writing is hinted when it is closed, or after a moment.
    """

    def __init__(self, root: str, git_dir: str, wake: Callable[[], None]) -> None:
        self._root = os.fsencode(root)
        self._git_dir = git_dir
        self._wake = wake
        self._library = _Library()
        self._lock = threading.Lock()
        self._inbox = _Inbox()
        self._watches = _Watches()
        self._walks = Walks(shared_file_system(root))
        self._instance: int | None = None
        self._git_watch: int | None = None
        self._has_top_git = os.path.join(root, ".git") == git_dir
        self._interrupt = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread: threading.Thread | None = None
        self._order: EventSink | None = None
        self._closed = False

    def add(self, directories: Iterable[RepoPath]) -> None:
        """Watch more directories."""
        self._add(directories)

    def replace(self, directories: Iterable[RepoPath]) -> None:
        """Watch exactly these directories, and ask for a walk if one is new."""
        wanted = set(directories)
        with self._lock:
            for path in self._watches.paths - wanted:
                self._drop(path)
            wanted = {path for path in wanted if not self._is_watched(path)}
            self._walks.watched()
        self._add(wanted)
        self._walks.pace()
        # What was written in a new one after it was listed came without a hint.
        if wanted:
            self._walks.want()

    def enter(self, directories: Mapping[RepoPath, int]) -> None:
        """Watch directories, each with its inode, that are listed next."""
        with self._lock:
            inode = self._watches.inode
            new = [path for path in directories if inode(path) != directories[path]]
        self._add(new)

    def barrier(self) -> Hints:
        """Return every hint for what was written before the call, at once."""
        with self._lock:
            self._drain()
            self._inbox.ripen(float("inf"))
            hints = self._take()
        # Without watches the hints are not complete, so the caller has to walk.
        return hints._replace(lost=True) if self._walks.are_needed else hints

    def degraded(self) -> str | None:
        """Return what cannot be watched, and the remedy; None where all is."""
        return self._walks.reason

    def follow(self, order: EventSink) -> None:
        """Report the order of events from now on, and let it look when it is time."""
        with self._lock:
            self._order = order
        order.on_start = self._poke

    def watching(self, paths: Collection[RepoPath]) -> set[RepoPath]:
        """Return those paths under which a directory is watched."""
        with self._lock:
            return {path for path in paths if path in self._watches}

    def unwatched(self, directories: Iterable[RepoPath]) -> set[RepoPath]:
        """Return the directories that are not watched as what they are on the disk now.

        If there are too few watches, walks replace all of them.
        """
        if self._walks.reason is not None:
            return set()
        with self._lock:
            self._drain()
            return {path for path in directories if not self._is_watched(path)}

    def take(self) -> Hints:
        """Return what was seen since the last time, without waiting."""
        with self._lock:
            self._drain()
            self._inbox.ripen(time.monotonic())
            return self._take()

    def tidy(self) -> None:
        """Ask for a walk if one is due because watches are or were missing."""
        if self._walks.is_due():
            with self._lock:
                self._inbox.lost = True
            self._wake()

    def close(self) -> None:
        """End the thread and all watches."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            os.eventfd_write(self._interrupt, 1)
            order = self._order
        if order is not None:
            order.stop()
        if self._thread is None:
            self._end()

    def _add(self, directories: Iterable[RepoPath]) -> None:
        wanted = sorted(directories)
        for start in range(0, len(wanted), _AT_ONCE):
            # The lock is held, because events may come at once; not for long, so that the queue
            # does not overflow.
            with self._lock:
                self._drain()
                instance = self._open()
                if instance is None:
                    return
                for path in wanted[start : start + _AT_ONCE]:
                    self._try_to_add(instance, path)

    def _try_to_add(self, instance: int, path: RepoPath) -> None:
        try:
            self._add_one(instance, path)
        except OSError as error:
            # Otherwise it is gone, or not for us to read: a walk finds that out, too.
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                self._walks.reason = WATCH_HINT

    def _add_one(self, instance: int, path: RepoPath) -> None:
        place = self._absolute(path)
        before = directory_inode(place)
        if before is None:
            self._drop(path)
            return
        watch = self._library.add(instance, place)
        for other in self._watches.names(watch):
            # The kernel gives the same watch for a directory that has been renamed.
            if other != path and directory_inode(self._absolute(other)) != before:
                self._watches.drop(other)
        # Another directory may have come there in between: then nobody knows which is watched.
        is_same = directory_inode(place) == before
        self._watches.add(path, watch, before if is_same else 0)

    def _open(self) -> int | None:
        """Return the instance, a new one if there is none; with the lock held."""
        if self._instance is not None or self._closed:
            return self._instance
        try:
            instance = self._library.open()
        except OSError:
            self._walks.reason = WATCH_HINT
            return None
        try:
            self._git_watch = self._library.add(instance, os.fsencode(self._git_dir))
        except OSError:
            # Walks ask for the watches again and again, and a user has few instances.
            os.close(instance)
            self._walks.reason = WATCH_HINT
            return None
        self._instance = instance
        self._thread = threading.Thread(
            target=self._run, args=(instance,), name="inotify", daemon=True
        )
        self._thread.start()
        return instance

    def _drop(self, path: RepoPath) -> None:
        watch = self._watches.drop(path)
        if watch is not None and self._instance is not None:
            self._library.remove(self._instance, watch)

    def _is_watched(self, path: RepoPath) -> bool:
        """Return whether a directory is watched as what it is now, or cannot be watched."""
        inode = directory_inode(self._absolute(path))
        return inode is None or self._watches.inode(path) == inode

    def _poke(self) -> None:
        """Let the thread see what is due."""
        with self._lock:
            if not self._closed:
                os.eventfd_write(self._interrupt, 1)

    def _run(self, instance: int) -> None:
        waiting = select.poll()
        waiting.register(instance, select.POLLIN)
        waiting.register(self._interrupt, select.POLLIN)
        dues: list[float | None] = []
        while True:
            times = [due for due in dues if due is not None]
            pause = max(0.0, min(times) - time.monotonic()) if times else None
            found = waiting.poll(None if pause is None else pause * 1000)
            order = self._order
            with self._lock:
                if self._closed:
                    break
                if (self._interrupt, select.POLLIN) in found:
                    os.eventfd_read(self._interrupt)
                self._drain()
            # First, because it is worth the more the earlier it is.
            if order is not None and order.look():
                with self._lock:
                    self._drain()
            with self._lock:
                due = self._inbox.ripen(time.monotonic())
                is_ready = self._inbox.is_ready
            dues = [due, order.due() if order is not None else None]
            if is_ready:
                self._wake()
        self._end()

    def _end(self) -> None:
        with self._lock:
            for descriptor in (self._instance, self._interrupt):
                if descriptor is not None:
                    os.close(descriptor)
            self._instance = None

    def _drain(self) -> None:
        """Read what is in the queue now; with the lock held."""
        if self._instance is None:
            return
        order = self._order
        mark = order.begin() if order is not None else 0
        length = fcntl.ioctl(self._instance, termios.FIONREAD, bytes(4))
        left = int.from_bytes(length, sys.byteorder)
        while left > 0 and (size := self._read(self._instance)):
            left -= size
        if order is not None:
            order.end(mark)

    def _read(self, instance: int) -> int:
        """Read one buffer of events; return its size, 0 where there is none."""
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(instance, _BUFFER)
        at = 0
        while at < len(data):
            watch, mask, _, size = _HEADER.unpack_from(data, at)
            at += _HEADER.size + size
            self._see(watch, mask, data[at - size : at].rstrip(b"\0"))
        return len(data)

    def _see(self, watch: int, mask: int, name: bytes) -> None:
        """Note one event."""
        if watch == self._git_watch:
            self._inbox.see_git(os.fsdecode(name), mask)
            return
        if mask & (_OVERFLOW | _UNMOUNT):
            self._inbox.lost = True
            self._inbox.overflow = True
            if self._order is not None:
                self._order.lost()
        elif mask & (_IGNORED | _MOVE_SELF):
            # Another directory may be there by now, or none.
            self._inbox.paths.update(self._watches.names(watch))
            if mask & _IGNORED:
                self._watches.ended(watch)
            else:
                self._watches.moved(watch)
        elif name:
            for directory in self._watches.names(watch):
                path = RepoPath(directory + b"/" + name if directory else name)
                if path != _GIT_DIR or not self._has_top_git:
                    self._inbox.see(path, mask)
                    if self._order is not None:
                        # What is written in a new directory before it is watched has no event.
                        is_begun = mask & _BEGUN and not mask & _IS_DIRECTORY
                        self._order.see(path, is_finished=not is_begun)

    def _take(self) -> Hints:
        box = self._inbox
        hints = Hints(
            frozenset(box.paths),
            box.lost,
            box.git_dir,
            finished=frozenset(box.finished),
            overflow=box.overflow,
            head_moved=box.head_moved,
        )
        box.paths.clear()
        box.finished.clear()
        box.lost = box.overflow = box.git_dir = box.head_moved = False
        return hints

    def _absolute(self, path: RepoPath) -> bytes:
        return os.path.join(self._root, path) if path else self._root
