"""One inotify instance in a thread of its own, through watchfiles, whose only importer this is.

Invariant: what it saw goes to its listener in the order in which it was seen.
"""

import os
import re
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from gitshadow.model import RepoPath

DEADLINE_MS = 20
_OPEN_TRIES = 50
_FDS = "/proc/self/fd"
_INODE = re.compile(rb"^inotify wd:\S+ ino:([0-9a-f]+) ", re.MULTILINE)


class InotifyListener(Protocol):
    """Take what instances see; called from their threads."""

    def step_ms(self) -> int:
        """Return how long to wait for more of a batch."""
        ...

    def saw(self, instance: "Instance", batch: set[str]) -> None:
        """Take one batch of absolute paths."""
        ...

    def died(self, instance: "Instance") -> None:
        """Take note that an instance saw a name it cannot say, and ended."""
        ...

    def ended(self, instance: "Instance") -> None:
        """Take note that an instance ended as it was told."""
        ...


class Instance:
    """Run one inotify instance in a thread of its own.

    `directories` are those that were asked for, `inodes` what is watched under each name:
    a watch follows the directory when it is renamed.
    """

    def __init__(
        self,
        listener: InotifyListener,
        notify: RustNotify,
        directories: frozenset[RepoPath],
        inodes: dict[RepoPath, int],
    ) -> None:
        self.directories = directories
        self.inodes = inodes
        self.cookie = 0
        self.last_cookie: int | None = None
        self.stopping = threading.Event()
        self._listener = listener
        self._notify = notify
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    @property
    def done(self) -> bool:
        """Tell whether it may end: its successor was there before the last cookie."""
        return self.last_cookie is not None and self.cookie >= self.last_cookie

    def _run(self) -> None:
        while not self.done:
            step_ms = self._listener.step_ms()
            try:
                batch = self._notify.watch(DEADLINE_MS, step_ms, 0, self.stopping)
            except WatchfilesRustInternalError:
                self._listener.died(self)
                return
            if not isinstance(batch, set):
                break
            self._listener.saw(self, {path for _, path in batch})
        self._listener.ended(self)


def open_notify(directories: Sequence[str]) -> RustNotify:
    """Watch those of some directories that still stand, none of them recursively.

    Raises:
        UnicodeEncodeError: a path is not UTF-8.
        OSError: no watches are left, or directories vanish all the time.
    """
    wanted = list(directories)
    for _ in range(_OPEN_TRIES):
        # Several vanish at once while a tree is removed, and one is enough to fail.
        wanted = [path for path in wanted if directory_inode(path) is not None]
        try:
            return RustNotify(wanted, False, False, 0, False, False)
        except FileNotFoundError:
            continue
        except WatchfilesRustInternalError as error:
            raise OSError(str(error)) from error
    raise OSError("directories disappear faster than they can be watched")


def directory_inode(path: str) -> int | None:
    """Return the inode of what can be watched: inotify needs to read, and would follow a link."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode) or not os.access(path, os.R_OK | os.X_OK):
        return None
    return found.st_ino


def watched_inodes() -> frozenset[int]:
    """Return the inodes that this process watches, as the kernel lists them; proc(5).

    Nothing, where the kernel does not say.
    """
    found: set[int] = set()
    for name in os.listdir(_FDS):
        with suppress(OSError):  # another thread closes descriptors
            if os.readlink(f"{_FDS}/{name}") == "anon_inode:inotify":
                with open(f"/proc/self/fdinfo/{name}", "rb") as lines:
                    found.update(int(one, 16) for one in _INODE.findall(lines.read()))
    return frozenset(found)
