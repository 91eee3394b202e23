"""The table of this user's processes, as /proc has it.

A look reads what is new and what may have changed: the kernel's own processes never run another
program, and a program that has run for a while rarely does. Each of those is read again within
some seconds.
Invariant: a process that is new, or whose parent is gone, is always read.
"""

import os
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = 4096
_DEAD_STATES = (b"Z", b"X", b"x")
_KERNEL = 2
"""The process that all threads of the kernel descend from."""
_SETTLED_S = 3.0
_PARTS = 8
"""Of the settled processes, each look reads one of so many parts again."""
# Programs that run for a while and then run another one in their place.
_RUNS_OTHERS = frozenset(
    {"sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "env", "nice", "nohup", "sudo"}
    | {"setsid", "stdbuf", "time", "timeout", "uv", "uvx", "pipx", "npx", "su", "login"}
)


# A pid alone is given out again; together with its start it names one process until the next boot.
class ProcessId(NamedTuple):
    """One process: its pid and its start, in clock ticks since the boot."""

    pid: int
    started: int


class ProcessStat(NamedTuple):
    """The fields of `/proc/PID/stat` that count here.

    `image` is where the environment is: another place after each exec(2), which a forked child
    has from its parent until then, with its parent's environment and arguments.
    """

    id: ProcessId
    parent: int
    name: str
    dead: bool
    image: int

    @property
    def key(self) -> tuple[int, int, int]:
        """Return what names this program in this process."""
        return self.id.pid, self.id.started, self.image


class _Known(NamedTuple):
    """A process as it was read: the inode of its directory, and its stat if it is this user's."""

    inode: int
    stat: ProcessStat | None
    settled: bool


class AgentTable:
    """Read the table again and again."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._known: dict[int, _Known] = {}
        self._turn = 0

    def forget(self) -> None:
        """Have the next look read every process."""
        self._known.clear()

    def look(self) -> dict[int, ProcessStat]:
        """Return the living processes of this user by pid."""
        inodes = {pid: entry.inode() for pid, entry in _entries(self._proc)}
        self._turn = (self._turn + 1) % _PARTS
        boot_s, user = _uptime_s(), os.getuid()
        old, self._known = self._known, {}
        for pid, inode in inodes.items():
            known = old.get(pid)
            if known is None or not self._stands(pid, known, inodes, old):
                known = _read(self._proc, pid, inode, user, boot_s)
            self._known[pid] = known
        return {
            pid: known.stat
            for pid, known in self._known.items()
            if known.stat is not None and not known.stat.dead
        }

    def _stands(
        self,
        pid: int,
        known: _Known,
        inodes: Mapping[int, int],
        old: Mapping[int, _Known],
    ) -> bool:
        """Return whether a process need not be read again."""
        if known.inode != inodes[pid] or not known.settled:
            return False
        stat = known.stat
        if stat is not None and stat.parent == _KERNEL:
            return True
        if pid % _PARTS == self._turn:
            return False
        # Orphans get another parent.
        if stat is None or not stat.parent:
            return True
        above = old.get(stat.parent)
        return above is not None and above.inode == inodes.get(stat.parent)


def _read(proc: str, pid: int, inode: int, user: int, now_s: float) -> _Known:
    try:
        if os.lstat(f"{proc}/{pid}").st_uid != user:
            # Its program may begin to run as this user, but hardly after a while.
            return _Known(inode, None, True)
    except OSError:
        return _Known(inode, None, False)
    stat = read_stat(proc, pid)
    if stat is None:
        return _Known(inode, None, False)
    age_s = now_s - stat.id.started / _TICKS
    return _Known(inode, stat, age_s > _SETTLED_S and stat.name not in _RUNS_OTHERS)


def own_processes(proc: str) -> Iterator[ProcessStat]:
    """Yield this user's processes, those too that have ended and were not waited for."""
    user = os.getuid()
    for pid, entry in _entries(proc):
        try:
            if entry.stat(follow_symlinks=False).st_uid != user:
                continue
        except OSError:
            continue
        stat = read_stat(proc, pid)
        if stat is not None:
            yield stat


def read_stat(proc: str, pid: int) -> ProcessStat | None:
    """Read `/proc/PID/stat`."""
    raw = read(f"{proc}/{pid}/stat", 4096)
    if raw is None:
        return None
    # From the right: the name is in parentheses, and may itself contain parentheses and blanks.
    head, _, tail = raw.rpartition(b")")
    parts = tail.split()
    if len(parts) < 20:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return ProcessStat(
        ProcessId(pid, int(parts[19])),
        int(parts[1]),
        name,
        parts[0] in _DEAD_STATES,
        int(parts[47]) if len(parts) > 47 else 0,
    )


def read(path: str, limit: int) -> bytes | None:
    """Return the content of a file of /proc, up to a limit."""
    # Unbuffered it takes half the time, for hundreds of files per scan. A file of /proc has no
    # size, and a read returns at most a page of some, so it is read until a page is not full.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = [os.read(fd, limit)]
        while len(parts[-1]) >= _PAGE and limit > len(parts[-1]):
            limit -= len(parts[-1])
            parts.append(os.read(fd, limit))
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(fd)


def _entries(proc: str) -> Iterator[tuple[int, os.DirEntry[str]]]:
    try:
        found = list(os.scandir(proc))
    except OSError:
        return
    for entry in found:
        if entry.name.isdecimal():
            yield int(entry.name), entry


def _uptime_s() -> float:
    """Return the time since the boot, as the starts of processes count it (proc(5))."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
