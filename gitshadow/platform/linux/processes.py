"""Processes as /proc shows them, proc(5), and the table of this user's.

/proc is only read, each answer may be out of date a moment later, and what cannot be read is None.
A look at the table reads what is new and what may have changed: the kernel's own processes never
run another program, and a program that has run for a while rarely does. Each of those is read again
within some seconds.
The kernel also counts what each process wrote, and a parent inherits the counts of the children
that it waits for (/proc/PID/io), and how often each was given a processor: those files stay open.
Invariant: a process that is new, or whose parent is gone, is always read.
"""

import os
import resource
import select
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.platform.linux.proc_numbers import shows_own_numbers
from gitshadow.platform.port import (
    Activity,
    Counts,
    EndMoment,
    FileSystem,
    ProcessId,
    ProcessStat,
    ProcessState,
)

_PAGE = 4096
_LONG = 65536
# A file of /proc is opened once for many looks; four for each process.
_MOST_OPEN = 256
# Here a copy cannot share the blocks of its original (ioctl_ficlone(2)), and so has to be written.
_WITHOUT_SHARING = frozenset({b"ext2", b"ext3", b"ext4", b"tmpfs"})
# With these options (ext4(5)) content is written past the page cache, or by the journal's thread.
_UNCOUNTED_OPTIONS = (b"dax", b"data=journal")
COARSE_NS = 2_000_000_000 // os.sysconf("SC_CLK_TCK")
"""A start is rounded to a tick, and the time of the boot, to which it is added, is as inexact."""
_TICKS = os.sysconf("SC_CLK_TCK")
_TICK_NS = 1_000_000_000 // _TICKS
_ENVIRON_BYTES = 262_144
_MAX_HANDLES = 1024
_WRITING = (os.O_WRONLY, os.O_RDWR)
_USER_MANAGER = "systemd"
"""The process that adopts the orphans of a desktop's user; user@.service(5)."""
# Nothing is known where /proc is about other processes.
_PROC = "/proc" if shows_own_numbers() else "/proc/none"
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


class ProcFiles:
    """The files of /proc, as they are at each moment."""

    def __init__(self, top: str = "/proc") -> None:
        self.top = top
        self._open: dict[int, dict[str, int]] = {}
        self._count = 0

    def read(self, name: str) -> bytes | None:
        """Return what a file holds, None where it is gone or not for us to read."""
        try:
            with open(f"{self.top}/{name}", "rb", buffering=0) as file:
                # One read returns a page of most of these files, whatever is left.
                return file.readall()
        except OSError:
            return None

    def reread(self, pid: int, name: str) -> bytes | None:
        """Return what a file of a process holds; None if that is gone, not for us, or very long.

        An open file belongs to its process, not to the pid: it is never another one's.
        """
        own = self._open.get(pid, {})
        try:
            if name not in own:
                if self._count >= _MOST_OPEN:
                    return self.read(f"{pid}/{name}")
                flags = os.O_RDONLY | os.O_CLOEXEC
                own[name] = os.open(f"{self.top}/{pid}/{name}", flags)
                self._open[pid] = own
                self._count += 1
            found = os.pread(own[name], _LONG, 0)
        except OSError:
            self.close((pid,))
            return None
        # A kernel may return less than there is, but not less than a page.
        return found if len(found) < _PAGE // 2 else self.read(f"{pid}/{name}")

    def is_open(self, pid: int, name: str) -> bool:
        """Return whether a file is open of the process that had a pid at the last look."""
        return name in self._open.get(pid, {})

    def keep(self, pids: Iterable[int]) -> None:
        """Close the files of all other processes."""
        self.close(self._open.keys() - set(pids))

    def close(self, pids: Iterable[int]) -> None:
        """Close the files of processes."""
        for pid in list(pids):
            for descriptor in self._open.pop(pid, {}).values():
                os.close(descriptor)
                self._count -= 1

    def threads(self, pid: int) -> Sequence[str]:
        """Return the threads of a process; none where it is gone."""
        try:
            return os.listdir(f"{self.top}/{pid}/task")
        except OSError:
            return ()

    def state(
        self, pid: int, before: ProcessState | None, *, is_agent: bool
    ) -> ProcessState | None:
        """Return the state of a process, that of before if it has not run since; proc(5)."""
        is_known = before is not None and self.is_open(pid, "schedstat")
        if before is not None and before.runs and is_known:
            now = self._runs(pid, before.threads)
            # A process that sleeps may be given those whose parents have ended.
            children = self._children(pid, before.threads)
            if now == before.runs and children == before.children:
                return before
        # In this order: if it is found to have run no more often later, it has slept since its
        # state was read; and whoever ends now is found among the children, or was waited for.
        runs = None if is_agent else self.reread(pid, "schedstat")
        threads = tuple(self.threads(pid)) if is_agent else ()
        children = self._children(pid, threads)
        raw = self.reread(pid, "stat")
        # The name, which is in parentheses, can have blanks and parentheses too.
        fields = [] if raw is None else raw.rpartition(b")")[2].split()
        if len(fields) < 20:
            return None
        process, ended = ProcessId(pid, int(fields[19])), _has_ended(fields)
        sleeps = fields[0] == b"S"
        if not is_agent:
            is_single = int(fields[17]) == 1
            threads = (str(pid),) if is_single else tuple(self.threads(pid))
            if not (is_single or ended):
                runs = self._runs(pid, threads)
                sleeps = all(self._sleeps(f"{pid}/task/{one}/stat") for one in threads)
            children = self._children(pid, threads)
        if ended:  # what it left has its new parents by the next look
            sleeps = before is not None and before.ended and before.id == process
        # A kernel that does not count says 0.
        is_counted = sleeps and runs is not None and runs.split()[2] != b"0"
        return ProcessState(
            process,
            threads,
            children,
            int(fields[8]) + int(fields[10]),
            ended,
            runs if is_counted else None,
        )

    def counts_of(self, pid: int) -> Counts | None:
        """Return what a process wrote; None where it is gone or not for us to read."""
        return _counts(self.reread(pid, "io"))

    def counts_of_threads(self, pid: int, threads: Sequence[str]) -> Counts:
        """Return what living threads of a process wrote themselves."""
        own = Counts()
        for thread in threads:
            own = own.plus(_counts(self.reread(pid, f"task/{thread}/io")) or Counts())
        return own

    def file_system(self, device: int) -> FileSystem:
        """Return what a mounted file system lets conclude, by its device number; proc(5)."""
        wanted = b"%d:%d" % (os.major(device), os.minor(device))
        for line in (self.read("self/mountinfo") or b"").splitlines():
            fields, _, rest = line.partition(b" - ")
            if fields.split()[2] == wanted:
                kind, _, *options = rest.split()
                is_uncounted = kind == b"tmpfs" or any(
                    option.startswith(_UNCOUNTED_OPTIONS)
                    for option in b",".join(options).split(b",")
                )
                is_known = kind in _WITHOUT_SHARING
                return FileSystem(is_known, is_known and not is_uncounted)
        return FileSystem()

    def _runs(self, pid: int, threads: Sequence[str]) -> bytes | None:
        if len(threads) == 1:
            return self.reread(pid, "schedstat")
        each = [self.reread(pid, f"task/{one}/schedstat") for one in threads]
        known = [one for one in each if one]
        return b"".join(known) if len(known) == len(each) else None

    def _sleeps(self, name: str) -> bool:
        return (self.read(name) or b"").rpartition(b")")[2].split()[:1] == [b"S"]

    def _children(self, pid: int, threads: Sequence[str]) -> Sequence[int]:
        each = (self.reread(pid, f"task/{one}/children") for one in threads)
        return [int(child) for one in each for child in (one or b"").split()]


_FILES = ProcFiles(_PROC)


def _counts(io: bytes | None) -> Counts | None:
    """Return what the content of an `io` file says of a process or thread; proc(5)."""
    words = (io or b"").split()
    return Counts(int(words[3]), int(words[11])) if len(words) > 11 else None


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
        _has_ended(parts),
        int(parts[47]) if len(parts) > 47 else 0,
        parts[0] == b"S",
    )


def _has_ended(fields: Sequence[bytes]) -> bool:
    """Return whether the fields of a `stat`, from the state on, are of a process that has ended."""
    # The first thread of a process may end long before the others.
    return fields[0] in _DEAD_STATES and int(fields[17]) <= 1


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


def activity(pid: int) -> Activity | None:
    """Return what a process and its children that have ended did; proc(5)."""
    ran_ns = int((_FILES.read(f"{pid}/schedstat") or b"0").split()[0])
    counts = _counts(_FILES.read(f"{pid}/io"))
    # A kernel that does not count how long tasks run says 0.
    return Activity(counts.written, ran_ns) if counts and ran_ns else None


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
        slept, preempted = _switches()
        queued_ns = _queued_ns()
        self._is_readable(None)
        woke_ns = time.monotonic_ns()
        queued_ns = _queued_ns() - queued_ns
        # It sleeps until the end, and on a busy machine it gets a processor only a while after it.
        # If it slept or waited once more in between, nobody knows which part came after the end.
        is_late = _switches() != (slept + 1, preempted)
        return EndMoment(woke_ns if is_late else woke_ns - queued_ns, is_late)

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


def _switches() -> tuple[int, int]:
    """Return how often this thread has slept, and was preempted; getrusage(2)."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_nvcsw, usage.ru_nivcsw


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
