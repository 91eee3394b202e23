"""Processes as psutil shows them on any system.

What cannot be read is None, and what not every system knows is not asked for.
"""

import os
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import psutil

from gitshadow.platform.port import (
    Activity,
    ProcessCounters,
    ProcessEnd,
    ProcessId,
    ProcessStat,
)

COARSE_NS = 20_000_000
"""Systems note a start as coarsely as a hundredth of a second."""
_MS_NS = 1_000_000
_DEAD = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
_INTERPRETER = "python"
# psutil raises its own errors for what is gone or not for us, and passes on others of the system;
# ValueError for a number that no process has.
_UNREADABLE = (psutil.Error, OSError, ValueError)


class PsutilTable:
    """This user's processes; each look reads all of them."""

    def forget(self) -> None:
        """Do nothing: a look keeps nothing."""

    def look(self) -> dict[int, ProcessStat]:
        """Return the living processes of this user by pid."""
        return {one.id.pid: one for one in own() if not one.dead}


def table() -> PsutilTable:
    """Return a new table of this user's processes."""
    return PsutilTable()


def started_ns(started: int) -> int:
    """Return the moment of a start, in nanoseconds since the epoch."""
    if psutil.LINUX:  # where psutil counts from the boot
        boot_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return boot_ns + started * _MS_NS
    return started * _MS_NS


def stat(pid: int) -> ProcessStat | None:
    """Return a process of any user, also one that ended and was not waited for."""
    try:
        return _stat(psutil.Process(pid))
    except _UNREADABLE:
        return None


def own() -> Iterator[ProcessStat]:
    """Yield this user's processes, those too that have ended and were not waited for."""
    user = os.getuid()
    for pid in pids():
        try:
            process = psutil.Process(pid)
            if process.uids().effective == user:
                yield _stat(process)
        except _UNREADABLE:
            continue


def pids() -> Sequence[int]:
    """Return all processes of all users."""
    return psutil.pids()


def adopts_orphans(process: ProcessStat) -> bool:
    """Return whether a process is given those whose parents have ended."""
    return process.id.pid == 1


def command_line(pid: int) -> tuple[bytes, ...]:
    """Return a process's arguments, empty where they cannot be read."""
    try:
        return tuple(map(os.fsencode, psutil.Process(pid).cmdline()))
    except _UNREADABLE:
        return ()


def environment(pid: int) -> bytes | None:
    """Return the variables with which a program began, each with a NUL after it."""
    try:
        found = psutil.Process(pid).environ()
    except _UNREADABLE:
        return None
    return b"".join(os.fsencode(f"{name}={text}\0") for name, text in found.items())


def executable(pid: int) -> str:
    """Return the path of what a process executes, empty where it cannot be read."""
    try:
        return psutil.Process(pid).exe()
    except _UNREADABLE:
        return ""


def directory(pid: int) -> str | None:
    """Return the working directory of a process, None where it cannot be read."""
    try:
        return psutil.Process(pid).cwd() or None
    except _UNREADABLE:
        return None


def place(pid: int, path: bytes) -> bytes | None:
    """Return a path by which this process can open what another one calls so."""
    above = directory(pid)
    return None if above is None else os.path.join(os.fsencode(above), path)


def terminals(pid: int) -> Iterable[str]:
    """Yield the terminal that controls a process."""
    with suppress(*_UNREADABLE):
        found = psutil.Process(pid).terminal()
        if found is not None:
            yield found


def written_files(pid: int, top: bytes) -> Iterable[bytes]:
    """Yield nothing: not every system says whether an open file can be written."""
    return ()


def holders(paths: Collection[str]) -> Mapping[str, tuple[int, ...]]:
    """Return the processes that are seen to have files open, by the real paths of these."""
    found: dict[str, dict[int, None]] = {}
    for pid in sorted(pids()):
        try:
            opened = psutil.Process(pid).open_files()
        except _UNREADABLE:
            continue
        for one in opened:
            if one.path in paths:
                found.setdefault(one.path, {})[pid] = None
    return {path: tuple(holding) for path, holding in found.items()}


def children(pid: int) -> Sequence[int]:
    """Return the children of a process."""
    try:
        return [one.pid for one in psutil.Process(pid).children()]
    except _UNREADABLE:
        return ()


def activity(pid: int) -> Activity | None:
    """Return None: not every system counts what a process wrote."""
    return None


def end_of(pid: int) -> ProcessEnd | None:
    """Return None: an end is only noticed at a later look."""
    return None


def counters() -> ProcessCounters | None:
    """Return None: not every system counts what processes write."""
    return None


def _start_s(process: psutil.Process) -> float:
    """Return the start of a process by which psutil itself knows it again; raises as that."""
    # `create_time` differs between a daemon and a hook once the clock was set: psutil adds to it by
    # how much that was, as seen from each process that asks. Nothing public is without that.
    _, start_s = getattr(process, "_ident", (process.pid, None))
    return process.create_time() if start_s is None else float(start_s)


def _stat(process: psutil.Process) -> ProcessStat:
    """Return a process; raises as psutil does."""
    with process.oneshot():
        words = _words(process)
        return ProcessStat(
            ProcessId(process.pid, round(_start_s(process) * 1000)),
            process.ppid(),
            _name(process.name(), words),
            process.status() in _DEAD,
            # exec(2) gives a process other arguments.
            zlib.crc32("\0".join(words).encode("utf-8", "surrogateescape")),
            process.status() == psutil.STATUS_SLEEPING,
        )


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except _UNREADABLE:  # of another user, or one that has ended
        return []


def _name(name: str, words: Sequence[str]) -> str:
    """Return the name of a program; some systems call a script by its interpreter."""
    is_script = name.lower().startswith(_INTERPRETER) and len(words) > 1
    if is_script and not words[1].startswith("-"):
        return os.path.basename(words[1])
    return name
