"""Collect what processes show about a write: who may have made it, and who cannot have made it.

Linux does not record who wrote a file. /proc/PID/fd shows who may still write it, start times show
which process outlived its call, and the kernel's counters show whether an agent ran anything: a
shell that waits for a permission did not. /proc is only read. An agent without hooks is named only
if no other one is in the worktree.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gitshadow.attribution.process import (
    AgentProcess,
    Living,
    ProcessId,
    descendants,
    is_alive,
    process_start,
    started_ns,
)
from gitshadow.attribution.windows import ProcessHint
from gitshadow.model import PATHLESS_WRITERS, Actor, Call, Session
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import discover

GUESSED = "pid-"
"""The start of the native id of a session that was opened for a process, not by a hook."""

# Start times are in clock ticks of 10 ms, and the time of the boot and file stamps are as inexact.
_TICK_NS = 20_000_000
INTERVAL_S = 1.0
EXIT_THREAD = "process end"
"""The name of the threads that wait for the end of a process."""
# On a machine with very many open files a look takes long: then it is made less often, so that it
# costs at most a hundredth of the time.
_LOOK_SHARE = 100
_MAX_HANDLES = 1024
_MAX_LEFTOVERS = 64
_REMEMBERED_NS = 60_000_000_000
"""How long a leftover that has ended is kept: its last write may be noticed late."""
_WRITING = (os.O_WRONLY, os.O_RDWR)
_Counts = tuple[int, ...]


def outliving(db: Db, living: Iterable[Living], end_ns: int) -> tuple[ProcessHint, ...]:
    """Return those of some living processes that a call started which is over by now.

    Args:
        db: The journal.
        living: Living processes of sessions.
        end_ns: The moment of the write that they might explain.
    """
    found: list[ProcessHint] = []
    for process in living:
        begin_ns = process.started_ns - _TICK_NS
        # A process that was started outside every call is no tool's: agents keep servers for
        # themselves.
        windows = turns.windows_between(db, begin_ns, process.started_ns + _TICK_NS)
        over = {call.session: call for call in windows if _is_over(call, end_ns)}
        for session in (one for one in process.sessions if one in over):
            pid, name = process.id.pid, process.name
            found.append(ProcessHint(pid, session, name, over[session].turn))
            rivals = process.rivals(session)
            found += (ProcessHint(pid, rival, name) for rival in rivals)
    return tuple(found)


def guessed_id(process: ProcessId) -> str:
    """Return the native id of the session of an agent's process without hooks."""
    return f"{GUESSED}{process.pid}-{process.started}"


def is_guessed(session: Session) -> bool:
    """Return whether a session is an agent's because of its process alone."""
    return session.actor is Actor.AGENT and session.native_id.startswith(GUESSED)


def without_hooks(
    agents: Iterable[AgentProcess], live: Iterable[Session], root: str, begin_ns: int
) -> AgentProcess | None:
    """Return the agent's process that is the only one in a worktree without hooks.

    Args:
        agents: The processes that run agents or what may be one: editors, shared names.
        live: The sessions that have not ended.
        root: The real path of the worktree.
        begin_ns: When the write may have begun; who started later did not do it.

    Returns:
        None if a hook reported a session, if several processes or a possible editor are in the
        worktree, or if none is.
    """
    # If hooks report a session, the mere process of another agent is not evidence enough.
    if any(one.actor is Actor.AGENT and not is_guessed(one) for one in live):
        return None
    here = [one for one in agents if _stands_in(one.cwd, root)]
    if len(here) != 1 or here[0].agent is None:
        return None
    return here[0] if here[0].started_ns + _TICK_NS <= begin_ns else None


def _stands_in(cwd: str, root: str) -> bool:
    """Return whether a directory belongs to a worktree and not to another one inside it."""
    if cwd != root and not cwd.startswith(root + "/"):
        return False
    # A directory below the worktree can be in a submodule or another worktree.
    found = discover(cwd)
    return found is not None and found.root == root


def _is_over(call: Call, end_ns: int) -> bool:
    """Return whether a call that can write had ended by a moment."""
    if call.tool_class not in PATHLESS_WRITERS:
        return False
    return call.closed_ns is not None and call.closed_ns <= end_ns


class OpenFiles:
    """Find who holds a file below one directory open for writing, up to a second ago."""

    def __init__(
        self,
        root: str,
        proc: str = "/proc",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._top = os.fsencode(root).rstrip(b"/") + b"/"
        self._proc = proc
        self._clock = clock
        self._writers: Mapping[bytes, tuple[int, ...]] = {}
        self._next_s: float | None = None

    def writers(
        self, path: bytes, pids: Callable[[], Iterable[int]]
    ) -> tuple[int, ...]:
        """Return the processes that hold a file open for writing, in the order of their pids.

        Args:
            path: Its absolute path, links followed.
            pids: Gives the processes to look at, where it is time to look again.
        """
        now_s = self._clock()
        if self._next_s is None or now_s >= self._next_s:
            self._writers = self._look(pids())
            cost_s = self._clock() - now_s
            self._next_s = now_s + max(INTERVAL_S, _LOOK_SHARE * cost_s)
        return self._writers.get(path, ())

    def _look(self, pids: Iterable[int]) -> Mapping[bytes, tuple[int, ...]]:
        found: dict[bytes, dict[int, None]] = {}
        for pid in sorted(pids):
            for name, target in self._handles(pid):
                if self._is_for_writing(pid, name):
                    found.setdefault(target, {})[pid] = None
        return {path: tuple(holders) for path, holders in found.items()}

    def _handles(self, pid: int) -> Iterable[tuple[str, bytes]]:
        """Yield the handles of a process that lead below the directory, by number and path."""
        directory = f"{self._proc}/{pid}/fd"
        try:
            names = os.listdir(directory)[:_MAX_HANDLES]
        except OSError:
            return
        for name in names:
            try:
                target = os.fsencode(os.readlink(f"{directory}/{name}"))
            except OSError:
                continue
            if target.startswith(self._top):
                yield name, target

    def _is_for_writing(self, pid: int, name: str) -> bool:
        """Return whether `/proc/PID/fdinfo/FD` has a mode for writing; proc(5)."""
        try:
            with open(f"{self._proc}/{pid}/fdinfo/{name}", "rb", buffering=0) as handle:
                lines = handle.read(4096).split(b"\n")
        except OSError:
            return False
        for line in lines:
            if line.startswith(b"flags:"):
                return int(line.partition(b":")[2], 8) & os.O_ACCMODE in _WRITING
        return False


class _Still(NamedTuple):
    """Store what was counted for a process and those below it, and since when it is the same."""

    counted: tuple[_Counts, ...]
    since_ns: int
    newest_ns: int


# Some agents report a shell call before they ask for permission, and never say how long it ran.
# What a person writes during the question would be the agent's. Page faults, processor time and
# written bytes of all processes below the agent stay equal only if nothing ran at all. Counters
# only exclude: one that changed, or that cannot be read, is no evidence.
class Stillness:
    """The counters of agents' processes, compared from time to time while a shell call is open."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._still: dict[ProcessId, _Still | None] = {}

    @property
    def watched(self) -> tuple[ProcessId, ...]:
        """Return the processes that are looked at."""
        return tuple(self._still)

    def watch(self, process: ProcessId) -> None:
        """Start to watch a process."""
        self._still.setdefault(process, None)

    def forget(self, process: ProcessId) -> None:
        """Stop watching a process."""
        self._still.pop(process, None)

    def look(self, now_ns: int) -> None:
        """Read the counters of every watched process."""
        for process in self.watched:
            counted = self._counted(process)
            if counted is None:
                self._still[process] = None
                continue
            known = self._still[process]
            if known is None or known.counted != counted.counts:
                self._still[process] = _Still(counted.counts, now_ns, counted.newest_ns)

    def was_still(self, process: ProcessId, opened_ns: int, at_ns: int) -> bool:
        """Return whether nothing below a process ran from a moment up to the last look.

        Args:
            process: An agent's, watched.
            opened_ns: When the call was reported that may have run something.
            at_ns: The moment; the last look came after it.
        """
        known = self._still.get(process)
        if known is None:
            return False
        # A process that started since the call was reported may be its tool, which waits for input.
        if known.newest_ns + _TICK_NS >= opened_ns:
            return False
        return opened_ns < known.since_ns < at_ns - _TICK_NS

    def _counted(self, process: ProcessId) -> "_Counted | None":
        below = descendants(process.pid, self._proc)
        if below is None or not is_alive(process):
            return None
        newest_ns, found = 0, list[_Counts]()
        for one in below:
            counted, written = self._fields(one.pid), self._written(one.pid)
            if counted is None or written is None:
                return None
            found.append((*one, *counted, written))
            newest_ns = max(newest_ns, started_ns(one))
        # Of its own only the children that it waited for count: it draws its user interface. They
        # are counted last, so that one that ends during the look is noticed.
        own = self._fields(process.pid)
        if own is None:
            return None
        found.append((process.pid, own.children_faults))
        return _Counted(tuple(sorted(found)), newest_ns)

    def _fields(self, pid: int) -> "_Fields | None":
        """Read the counters of `/proc/PID/stat`; proc(5)."""
        raw = self._read(f"{pid}/stat")
        parts = [] if raw is None else raw.rpartition(b")")[2].split()
        if len(parts) < 20:
            return None
        return _Fields(
            faults=int(parts[7]) + int(parts[9]),
            children_faults=int(parts[8]) + int(parts[10]),
            ticks=sum(map(int, parts[11:15])),
        )

    def _written(self, pid: int) -> int | None:
        for line in (self._read(f"{pid}/io") or b"").splitlines():
            if line.startswith(b"wchar:"):
                return int(line[6:])
        return None

    def _read(self, name: str) -> bytes | None:
        try:
            with open(f"{self._proc}/{name}", "rb", buffering=0) as file:
                return file.read(65536)
        except OSError:
            return None


# An agent that is killed reports nothing. Its last hook may be much older than its last write, and
# a look at /proc comes after both. So a thread waits for the end of each process.
class Exits:
    """The moments at which watched processes ended."""

    def __init__(self) -> None:
        self._ended_ns: dict[ProcessId, int | None] = {}

    def watch(self, process: ProcessId) -> None:
        """Note from now on when a process ends, where the kernel can report it."""
        if process in self._ended_ns:
            return
        with contextlib.suppress(OSError):  # it has ended, or Linux is older than 5.3
            descriptor = os.pidfd_open(process.pid)
            if not is_alive(process):
                os.close(descriptor)
                return
            self._ended_ns[process] = None
            threading.Thread(
                target=self._wait,
                args=(process, descriptor),
                name=EXIT_THREAD,
                daemon=True,
            ).start()

    def is_alive(self, process: ProcessId) -> bool:
        """Return whether a process lives; a watched one until its last thread has ended."""
        # In /proc a process is dead when its first thread is, which may be long before the others.
        if process in self._ended_ns:
            return self._ended_ns[process] is None
        return is_alive(process)

    def ended(self, now_ns: Callable[[], int]) -> dict[ProcessId, int]:
        """Return when the processes ended that have since the last call, by a clock."""
        passed = {
            process: time.monotonic_ns() - at_ns
            for process, at_ns in self._ended_ns.items()
            if at_ns is not None
        }
        for process in passed:
            del self._ended_ns[process]
        return {one: now_ns() - ago_ns for one, ago_ns in passed.items()}

    def _wait(self, process: ProcessId, descriptor: int) -> None:
        # It is readable when the process has ended; pidfd_open(2).
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        waiting.poll()
        self._ended_ns[process] = time.monotonic_ns()
        os.close(descriptor)


class _Activity(NamedTuple):
    """What the kernel counted of a process: bytes that it wrote, and nanoseconds that it ran."""

    written: int
    ran_ns: int


class _Leftover(NamedTuple):
    """Store a process that outlived its call.

    The counts are those of the last look that found another one, None where they tell nothing.
    `until_ns` is when it ended.
    """

    hints: tuple[ProcessHint, ...]
    counted: _Activity | None = None
    written_ns: int = 0
    ran_ns: int = 0
    until_ns: int | None = None


# A background command writes last and then ends, and its agent may end before it. So what is left
# running is remembered while the agent reports something, and looked at from then on. The counters
# only exclude: a server that wrote nothing did not write the file that a person saved.
class Leftovers:
    """The processes that calls of agents have left running."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._known: dict[ProcessId, _Leftover] = {}
        self._exits = Exits()

    def __bool__(self) -> bool:
        """Return whether there is any, or was a moment ago."""
        return bool(self._known)

    def note(self, db: Db, living: Iterable[Living], now_ns: int) -> None:
        """Remember those of some living processes of sessions that outlived their call."""
        for process in living:
            if process.id not in self._known and not self._is_full():
                hints = outliving(db, (process,), now_ns)
                if hints:
                    self._add(process.id, hints)

    def _add(self, process: ProcessId, hints: tuple[ProcessHint, ...]) -> None:
        self._known[process] = _Leftover(hints)
        self._exits.watch(process)

    def look(self, clock: Callable[[], int]) -> None:
        """See which of them live, what they have started, and whether they did anything."""
        if not self._known:
            return
        for process, ended_ns in self._exits.ended(clock).items():
            known = self._known[process]
            self._known[process] = known._replace(until_ns=ended_ns)
        now_ns, todo = clock(), list(self._known)
        while todo:
            process = todo.pop()
            known = self._known[process]
            if known.until_ns is not None:
                if now_ns - known.until_ns > _REMEMBERED_NS:
                    del self._known[process]
            elif is_alive(process):
                todo += self._add_children(process, known)
                self._known[process] = self._looked(process, known, now_ns)
            else:
                self._known[process] = known._replace(until_ns=now_ns)

    def at(self, moment_ns: int, *, writes_bytes: bool) -> tuple[ProcessHint, ...]:
        """Return those that may have made a change.

        Args:
            moment_ns: When it was made; the last look came after it.
            writes_bytes: Whether it cannot be made without writing any.
        """
        found: list[ProcessHint] = []
        for one in self._known.values():
            since_ns = one.written_ns if writes_bytes else one.ran_ns
            is_quiet = one.counted is not None and since_ns < moment_ns - _TICK_NS
            has_ended = one.until_ns is not None and one.until_ns < moment_ns
            if not has_ended and (one.until_ns is not None or not is_quiet):
                found += one.hints
        return tuple(found)

    def _looked(self, process: ProcessId, known: _Leftover, now_ns: int) -> _Leftover:
        now, before = self._activity(process.pid), known.counted
        written_ns = ran_ns = now_ns
        if now is not None and before is not None:
            written_ns = known.written_ns if now.written == before.written else now_ns
            ran_ns = known.ran_ns if now.ran_ns == before.ran_ns else now_ns
        return known._replace(counted=now, written_ns=written_ns, ran_ns=ran_ns)

    def _add_children(self, process: ProcessId, known: _Leftover) -> list[ProcessId]:
        """Remember what a process has started since; the kernel counts it there when it ends."""
        pid = process.pid
        found: list[ProcessId] = []
        for child in (_text(f"{self._proc}/{pid}/task/{pid}/children") or "").split():
            started = process_start(int(child))
            one = None if started is None else ProcessId(int(child), started)
            if one is None or one in self._known or self._is_full():
                continue
            hints = tuple(hint._replace(pid=one.pid) for hint in known.hints)
            self._add(one, hints)
            found.append(one)
        return found

    def _is_full(self) -> bool:
        return len(self._known) >= _MAX_LEFTOVERS

    def _activity(self, pid: int) -> _Activity | None:
        """Read counters of a process and of its children that have ended; proc(5)."""
        ran = (_text(f"{self._proc}/{pid}/schedstat") or "0").split()[0]
        for line in (_text(f"{self._proc}/{pid}/io") or "").splitlines():
            # A kernel that does not count how long tasks run says 0.
            if line.startswith("wchar:") and int(ran) > 0:
                return _Activity(int(line[6:]), int(ran))
        return None


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, ValueError):
        return None


class _Counted(NamedTuple):
    counts: tuple[_Counts, ...]
    newest_ns: int


class _Fields(NamedTuple):
    faults: int
    children_faults: int
    ticks: int
