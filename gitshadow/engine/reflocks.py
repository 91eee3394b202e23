"""Lock files of our refs: who holds one, and which nobody can be holding any more.

Git and libgit2 make `<ref>.lock` for the moment in which they write a ref; what is killed in that
moment leaves it behind, and nobody can write the ref until it is removed.
Invariant: only a lock that is old is ever taken for one that nobody holds.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from gitshadow.attribution.handles import OpenFiles
from gitshadow.engine.workspace import Workspace
from gitshadow.store.refs import REF_PREFIX

STALE_S = 60.0
_LOOK_S = 0.05


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


def _paths(ws: Workspace) -> Iterator[str]:
    top = os.path.join(ws.layout.common_dir, REF_PREFIX)
    for directory, _, names in os.walk(top):
        yield from (os.path.join(directory, n) for n in names if n.endswith(".lock"))


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
