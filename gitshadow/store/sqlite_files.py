"""SQLite databases in the working tree: how they are known, and how they are read without harm.

Closing any descriptor of a file drops all locks that the process has on it (fcntl(2)). An agent
program that records in its own process would so unlock a database that it has open itself, and
another process could write at the same time: sqlite.org/howtocorrupt.html, section 2.2.
Invariant: a descriptor of a database is closed only when this process has no other one of it.
"""

import os
import threading
from collections import Counter
from collections.abc import Collection
from contextlib import suppress

from gitshadow.model import RepoPath

HEADER = b"SQLite format 3\0"
"""The first bytes of a database; sqlite.org/fileformat.html."""

BESIDE = (b"-wal", b"-shm", b"-journal")
"""How the names of the files end that SQLite keeps beside a database; sqlite.org/tempfiles.html."""

_FDS = "/dev/fd"
_File = tuple[int, int]
_lock = threading.Lock()
# Locks belong to the process: what must stay open stays so when its reader has gone.
_kept: dict[_File, list[int]] = {}
_lent: Counter[_File] = Counter()
"""How many readers of each have got a descriptor from `kept`."""


def database_of(path: RepoPath) -> RepoPath:
    """Return the path of the database beside which a file has its name; else the path itself."""
    for end in BESIDE:
        if path.endswith(end):
            return RepoPath(path.removesuffix(end))
    return path


def parts_of(database: RepoPath) -> tuple[RepoPath, ...]:
    """Return the paths of a database: its own, and those of the files beside it."""
    return (database, *(RepoPath(database + end) for end in BESIDE))


def kept(found: os.stat_result) -> int | None:
    """Return the descriptor of a file that could not be closed, to be read instead of a new one.

    `close` is to be called for it, too.
    """
    file = (found.st_dev, found.st_ino)
    with _lock:
        fds = _kept.get(file)
        if fds:
            _lent[file] += 1
        return fds[0] if fds else None


def close(fd: int, name: bytes, data: bytes | None = None) -> None:
    """Close the descriptor of a file, unless that would unlock a database.

    `data` is what was read from its start, if anything was.
    """
    head = _head(fd) if data is None else data[: len(HEADER)]
    is_other = not name.endswith(BESIDE) and head != HEADER
    if is_other and not _kept:
        os.close(fd)
        return
    found = os.fstat(fd)
    file = (found.st_dev, found.st_ino)
    with _lock:
        if fd in _kept.get(file, ()):
            _lent[file] -= 1
        elif is_other and file not in _kept:
            os.close(fd)
            return
        else:
            _kept.setdefault(file, []).append(fd)
        _close_unused(file)


def close_kept() -> None:
    """Close what was kept open of databases that this process does not have open any more."""
    with _lock:
        for file in list(_kept):
            _close_unused(file)


def _close_unused(file: _File) -> None:
    """Close what was kept open of a file, unless it is read or open by other descriptors."""
    fds = _kept[file]
    if not _lent[file] and not _is_open(os.fstat(fds[0]), fds):
        del _kept[file], _lent[file]
        for fd in fds:
            os.close(fd)


def _head(fd: int) -> bytes:
    try:
        return os.pread(fd, len(HEADER), 0)
    except OSError:  # it is no regular file
        return b""


def _is_open(found: os.stat_result, ours: Collection[int]) -> bool:
    """Return whether this process has a file open by other descriptors than ours."""
    for name in os.listdir(_FDS):
        # One of them is that of the list itself, which is closed by now.
        with suppress(OSError):
            fd = int(name)
            if fd not in ours and os.path.samestat(os.fstat(fd), found):
                return True
    return False
