"""Lock files of our refs: who holds one, and which nobody can be holding any more.

Git and libgit2 make `<ref>.lock` for the moment in which they write a ref; what is killed in that
moment leaves it behind, and nobody can write the ref until it is removed.
Invariant: a lock is taken for left behind only if it is old, or if no process has it open and no
git runs in this repository.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from gitshadow.attribution.process_evidence import OpenFiles
from gitshadow.recording.workspace import Workspace
from gitshadow.store.refs import REF_PREFIX

STALE_S = 60.0
_LOOK_S = 0.05
_RENAMED_S = 0.2
"""libgit2 closes a lock right before it renames it: much less than this."""


class RefLock(NamedTuple):
    """Hold one lock file: how old it is, and the processes that have it open."""

    path: str
    age_s: float
    holders: tuple[int, ...] = ()

    @property
    def is_stale(self) -> bool:
        """Tell whether nobody can be holding it any more."""
        return self.age_s > STALE_S

    def describe(self) -> str:
        """Say which it is, how old, and who holds it."""
        who = " and ".join(f"process {pid}" for pid in self.holders)
        said = f"{who} has it open" if who else "no process has it open"
        name = os.path.basename(self.path)
        return f"{name} is {max(self.age_s, 0):.0f} seconds old, {said}"


def ref_locks(ws: Workspace) -> list[RefLock]:
    """Return the lock files of our refs, by path."""
    paths = sorted(_paths(ws))
    if not paths:
        return []
    now = time.time()
    files = OpenFiles(os.path.realpath(ws.layout.common_dir))
    found: list[RefLock] = []
    for path in paths:
        with suppress(OSError):
            real = os.fsencode(os.path.realpath(path))
            holders = files.writers(real, _pids)
            found.append(RefLock(path, now - os.lstat(path).st_mtime, holders))
    return found


def outwait(ws: Workspace, seconds: float) -> None:
    """Wait for locks that are young to go, at most so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if all(one.is_stale for one in ref_locks(ws)):
            return
        time.sleep(_LOOK_S)


def drop_left(ws: Workspace) -> None:
    """Remove the locks that a killed process left, so that its refs can be written at once.

    libgit2 keeps a lock open until it renames it. Git closes its locks early, so nothing is removed
    while a git runs in this repository.
    """
    left = _unheld(ws)
    if not left:
        return
    time.sleep(_RENAMED_S)
    left &= _unheld(ws)
    if left and not any(_is_git_here(ws, pid) for pid in _pids()):
        for path, _ in left:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _unheld(ws: Workspace) -> set[tuple[str, int]]:
    """Return path and inode of each lock that no process has open."""
    found: set[tuple[str, int]] = set()
    for lock in ref_locks(ws):
        with suppress(OSError):
            if not lock.holders:
                found.add((lock.path, os.lstat(lock.path).st_ino))
    return found


def _is_git_here(ws: Workspace, pid: int) -> bool:
    """Return whether a process is a git that may work in this repository."""
    proc = f"/proc/{pid}"
    try:
        with open(f"{proc}/comm", "rb") as stream:
            if not stream.read().startswith(b"git"):
                return False
        place = os.readlink(f"{proc}/cwd")
        told = b""
        for name in ("cmdline", "environ"):
            with open(f"{proc}/{name}", "rb") as stream:
                told += stream.read()
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:  # another user's: it may be anywhere
        return True
    tops = {ws.layout.root, ws.layout.common_dir}
    tops |= {os.path.realpath(top) for top in tops}
    return any(f"{place}/".startswith(f"{top}/") for top in tops) or any(
        os.fsencode(top) in told for top in tops
    )


def _paths(ws: Workspace) -> Iterator[str]:
    top = os.path.join(ws.layout.common_dir, REF_PREFIX)
    for directory, _, names in os.walk(top):
        yield from (os.path.join(directory, n) for n in names if n.endswith(".lock"))


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
