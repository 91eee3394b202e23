"""The writer lock of a worktree: one process at a time records and restores."""

import fcntl
import os
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from types import TracebackType

from gitshadow.errors import LockedError, StoreError

_POLL_S = 0.01
_FORKED_S = 1.0
"""A process that is killed while it starts a program leaves its locks to that for a moment."""


# flock(2) and not a file that exists or not: the kernel releases it when its holder dies, so no
# stale lock is ever left to be removed. Not fcntl(2) locks: closing any other descriptor of the
# same file would drop those.
class WriterLock:
    """The flock of one worktree; a context manager."""

    def __init__(self, path: str, name: str = "writer lock") -> None:
        self._path = path
        self._name = name
        self._fd: int | None = None

    def acquire(self, timeout_s: float) -> None:
        """Acquire the lock, waiting at most `timeout_s` seconds.

        Raises:
            LockedError: another living process holds it; the message names its pid.
            StoreError: the file cannot be opened or created.
        """
        deadline = time.monotonic() + timeout_s
        fd = self._locked(deadline)
        # If the file was deleted or replaced while we waited, we hold the lock of a file that
        # nobody else will open.
        while not self._is_at_its_path(fd):
            os.close(fd)
            fd = self._locked(deadline)
        # The pid is only for messages: on a full disk the lock holds without it.
        with suppress(OSError):
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        self._fd = fd

    def _locked(self, deadline: float) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self._path, flags, 0o600)
        except OSError as error:
            raise StoreError(
                f"could not open {self._path}: {error.strerror}",
                hint="check that it is a file, and free space and permissions",
            ) from error
        while True:
            try:
                # flock(2) has no timeout, and an alarm would need the main thread, so it is asked a
                # hundred times a second.
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
            except BlockingIOError:
                late_s = time.monotonic() - deadline
                holder = os.pread(fd, 32, 0).strip().decode("ascii", "replace")
                if late_s >= _FORKED_S or (late_s >= 0 and not _is_gone(holder)):
                    os.close(fd)
                    raise LockedError(
                        f"could not acquire the {self._name}: process {holder or '?'} holds it",
                        hint="wait for it to end, or run: git agent-undo daemon stop",
                    ) from None
                time.sleep(_POLL_S)

    def _is_at_its_path(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.lstat(self._path))
        except OSError:
            return False

    def release(self) -> None:
        """Release the lock; twice is harmless."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    @property
    def in_place(self) -> bool:
        """Whether this object holds the lock that others find at its path."""
        return self._fd is not None and self._is_at_its_path(self._fd)

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd is not None

    def __enter__(self) -> "WriterLock":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def acquire_all(held: ExitStack, paths: Iterable[str], timeout_s: float) -> None:
    """Acquire several locks until a stack is closed; errors as `WriterLock.acquire`."""
    for path in paths:
        held.enter_context(WriterLock(path)).acquire(timeout_s)


def _is_gone(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OSError):
        pass
    return False
