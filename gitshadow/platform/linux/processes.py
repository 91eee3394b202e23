"""Processes as /proc shows them, proc(5), and the table of this user's.

/proc is only read, each answer may be out of date a moment later, and what cannot be read is None.
A look at the table reads what is new and what may have changed: the kernel's own processes never
run another program, and a program that has run for a while rarely does. Each of those is read again
within some seconds.
Invariant: a process that is new, or whose parent is gone, is always read.
"""

import os
import resource
import select
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.platform.linux.counters import ProcFiles
from gitshadow.platform.linux.proc_numbers import shows_own_numbers
from gitshadow.platform.port import (
    Activity,
    EndMoment,
    ProcessId,
    ProcessStat,
    ProcessWork,
)

COARSE_NS = 2_000_000_000 // os.sysconf("SC_CLK_TCK")
"""A start is rounded to a tick, and the time of the boot, to which it is added, is as inexact."""
_TICKS = os.sysconf("SC_CLK_TCK")
_TICK_NS = 1_000_000_000 // _TICKS
_PAGE = 4096
_ENVIRON_BYTES = 262_144
_MAX_HANDLES = 1024
_WRITING = (os.O_WRONLY, os.O_RDWR)
_USER_MANAGER = "systemd"
"""The process that adopts the orphans of a desktop's user; user@.service(5)."""
# Nothing is known where /proc is about other processes.
_PROC = "/proc" if shows_own_numbers() else "/proc/none"
_FILES = ProcFiles(_PROC)
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


class _Known(NamedTuple):
    """A process as it was read: the inode of its directory, and its stat if it is this user's."""

    inode: int
    stat: ProcessStat | None
    settled: bool


class ProcTable:
    """Read the table again and again."""

    def __init__(self, proc: str = _PROC) -> None:
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
    stat = _stat(proc, pid)
    if stat is None:
        return _Known(inode, None, False)
    age_s = now_s - stat.id.started / _TICKS
    return _Known(inode, stat, age_s > _SETTLED_S and stat.name not in _RUNS_OTHERS)


def _stat(proc: str, pid: int) -> ProcessStat | None:
    """Read `/proc/PID/stat`; where the environment is is another place after each exec(2)."""
    raw = _content(f"{proc}/{pid}/stat", 4096)
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
        parts[0] == b"S",
    )


def _content(path: str, limit: int) -> bytes | None:
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


def table() -> ProcTable:
    """Return a new table of this user's processes."""
    return ProcTable()


def started_ns(started: int) -> int:
    """Return the moment of a start, as precisely as clock ticks allow."""
    # CLOCK_BOOTTIME counts suspended time too, as the start times of processes do (proc(5), field
    # 22). Computed for each question, because the wall clock may be set.
    boot_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return boot_ns + started * _TICK_NS


def stat(pid: int) -> ProcessStat | None:
    """Return a process of any user, also one that ended and was not waited for."""
    return _stat(_PROC, pid)


def own() -> Iterator[ProcessStat]:
    """Yield this user's processes, those too that have ended and were not waited for."""
    user = os.getuid()
    for pid, entry in _entries(_PROC):
        try:
            if entry.stat(follow_symlinks=False).st_uid != user:
                continue
        except OSError:
            continue
        found = _stat(_PROC, pid)
        if found is not None:
            yield found


def pids() -> Sequence[int]:
    """Return all processes of all users."""
    return [pid for pid, _ in _entries(_PROC)]


def adopts_orphans(process: ProcessStat) -> bool:
    """Return whether a process is given those whose parents have ended."""
    return process.id.pid == 1 or process.name == _USER_MANAGER


def command_line(pid: int) -> tuple[bytes, ...]:
    """Return a process's arguments, empty where they cannot be read."""
    raw = _content(f"{_PROC}/{pid}/cmdline", _ENVIRON_BYTES)
    return () if raw is None else tuple(raw.removesuffix(b"\0").split(b"\0"))


def environment(pid: int) -> bytes | None:
    """Return the variables with which a program began, each with a NUL after it."""
    # The kernel shows the environment as it was at exec(2); later changes by the program are not in
    # it, unless it writes over that memory (proc(5)).
    return _content(f"{_PROC}/{pid}/environ", _ENVIRON_BYTES)


def executable(pid: int) -> str:
    """Return the path of what a process executes, empty where it cannot be read."""
    return _link(f"{_PROC}/{pid}/exe") or ""


def directory(pid: int) -> str | None:
    """Return the working directory of a process, None where it cannot be read."""
    return _link(f"{_PROC}/{pid}/cwd")


def place(pid: int, path: bytes) -> bytes | None:
    """Return a path by which this process can open what another one calls so."""
    return os.path.join(b"%b/%d/cwd" % (_PROC.encode(), pid), path)


def terminals(pid: int) -> Iterable[str]:
    """Yield where the standard streams of a process lead that it prints to first."""
    for number in (2, 1, 0):
        found = _link(f"{_PROC}/{pid}/fd/{number}")
        if found is not None:
            yield found


def written_files(pid: int, top: bytes) -> Iterable[bytes]:
    """Yield the paths that begin with `top` which a process has open for writing."""
    for name, target in _handles(pid):
        if target.startswith(top) and _is_for_writing(pid, name):
            yield target


def holders(paths: Collection[str]) -> Mapping[str, tuple[int, ...]]:
    """Return the processes that are seen to have files open, by the real paths of these."""
    wanted = {os.fsencode(path): path for path in paths}
    found: dict[str, dict[int, None]] = {}
    for pid in sorted(pids()):
        for _, target in _handles(pid, most=None):
            if target in wanted:
                found.setdefault(wanted[target], {})[pid] = None
    return {path: tuple(holding) for path, holding in found.items()}


def _handles(pid: int, most: int | None = _MAX_HANDLES) -> Iterator[tuple[str, bytes]]:
    """Yield the handles of a process, by number and path."""
    directory = f"{_PROC}/{pid}/fd"
    try:
        names = os.listdir(directory)[:most]
    except OSError:
        return
    for name in names:
        try:
            yield name, os.fsencode(os.readlink(f"{directory}/{name}"))
        except OSError:
            continue


def _is_for_writing(pid: int, name: str) -> bool:
    """Return whether `/proc/PID/fdinfo/FD` has a mode for writing; proc(5)."""
    try:
        with open(f"{_PROC}/{pid}/fdinfo/{name}", "rb", buffering=0) as handle:
            lines = handle.read(4096).split(b"\n")
    except OSError:
        return False
    for line in lines:
        if line.startswith(b"flags:"):
            return int(line.partition(b":")[2], 8) & os.O_ACCMODE in _WRITING
    return False


def children(pid: int) -> Sequence[int]:
    """Return the children that the first thread of a process has started."""
    raw = _FILES.read(f"{pid}/task/{pid}/children") or b""
    return [int(child) for child in raw.split()]


def work(pid: int) -> ProcessWork | None:
    """Return what shows whether a process ran; proc(5)."""
    raw, io = _FILES.read(f"{pid}/stat"), _FILES.io(f"{pid}/io")
    parts = [] if raw is None else raw.rpartition(b")")[2].split()
    if len(parts) < 20 or io is None:
        return None
    return ProcessWork(
        faults=int(parts[7]) + int(parts[9]),
        children_faults=int(parts[8]) + int(parts[10]),
        ticks=sum(map(int, parts[11:15])),
        written=io.written,
    )


def activity(pid: int) -> Activity | None:
    """Return what a process and its children that have ended did; proc(5)."""
    ran_ns = int((_FILES.read(f"{pid}/schedstat") or b"0").split()[0])
    io = _FILES.io(f"{pid}/io")
    # A kernel that does not count how long tasks run says 0.
    return Activity(io.written, ran_ns) if io is not None and ran_ns else None


def counters() -> ProcFiles:
    """Return counters of all that processes write, with open files of their own."""
    return ProcFiles(_PROC)


def end_of(pid: int) -> "PidEnd | None":
    """Return what waits for the end of a process, None where nothing can."""
    try:
        return PidEnd(os.pidfd_open(pid))
    except OSError:  # it has ended, or Linux is older than 5.3
        return None


class PidEnd:
    """The end of a process, by pidfd_open(2)."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def has_come(self) -> bool:
        """Return whether its last thread has ended."""
        return self._is_readable(0)

    def wait(self) -> EndMoment:
        """Wait for it, in a thread of one's own."""
        queued_ns, sleeps = _queued_ns(), _sleeps()
        self._is_readable(None)
        woke_ns = time.monotonic_ns()
        # It sleeps until the end. If it had to sleep again, another thread held the interpreter,
        # and nobody knows for how long.
        is_late = _sleeps() - sleeps > 1
        # On a busy machine this thread gets a processor only a while after the end.
        return EndMoment(woke_ns - (_queued_ns() - queued_ns), is_late)

    def close(self) -> None:
        """Wait no more."""
        os.close(self._descriptor)

    def _is_readable(self, timeout_ms: int | None) -> bool:
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        return bool(waiting.poll(timeout_ms))


def _queued_ns() -> int:
    """Return how long this thread has waited for a processor; proc(5), 0 if it is not counted."""
    fields = (_FILES.read("thread-self/schedstat") or b"").split()
    return int(fields[1]) if len(fields) > 1 else 0


def _sleeps() -> int:
    """Return how often this thread has waited for something, getrusage(2)."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
