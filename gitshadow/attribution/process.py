"""What Linux tells about processes: who lives, since when, and which session it belongs to.

Invariant: /proc is read only, every answer may be out of date a moment later, and what cannot be
read is None. A pid alone is never trusted: it comes with its start time. proc(5), 2024.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gitshadow.model import Actor, Session

SESSION_MARKER = b"GITSHADOW_SESSION"
NATIVE_MARKERS: Mapping[bytes, str] = {b"CLAUDE_CODE_SESSION_ID": "claude-code"}
"""Variables that an agent gives its children, holding its own session id."""

SCAN_INTERVAL_S = 1.0
_ENVIRON_BYTES = 262_144
_MAX_ANCESTORS = 64
_MAX_HANDLES = 256
_DEAD_STATES = (b"Z", b"X", b"x")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """Name one process for good: its pid and its start, in clock ticks since the boot."""

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Living:
    """Hold one living process of a session."""

    id: ProcessId
    session: str
    name: str
    started_ns: int


@dataclass(frozen=True, slots=True)
class _Stat:
    id: ProcessId
    parent: int
    name: str
    dead: bool


def process_start(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the boot.

    Returns:
        None when no such process lives; one that ended and was not waited for is dead too.
    """
    stat = _read_stat("/proc", pid)
    return None if stat is None or stat.dead else stat.id.started


def is_alive(process: ProcessId) -> bool:
    """Tell whether this very process lives, not another that got its pid."""
    return process_start(process.pid) == process.started


def ancestors(pid: int, proc: str = "/proc") -> tuple[ProcessId, ...]:
    """Return a process and its ancestors, nearest first, init left out."""
    found: list[ProcessId] = []
    while pid > 1 and len(found) < _MAX_ANCESTORS:
        stat = _read_stat(proc, pid)
        if stat is None:
            break
        found.append(stat.id)
        pid = stat.parent
    return tuple(found)


def command_line(pid: int, proc: str = "/proc") -> tuple[bytes, ...]:
    """Return a process's arguments, empty when they cannot be read."""
    raw = _read(os.path.join(proc, str(pid), "cmdline"), _ENVIRON_BYTES)
    return () if raw is None else tuple(raw.removesuffix(b"\0").split(b"\0"))


def boot_ns() -> int:
    """Return the time of the boot, so that start ticks can be compared with times."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class ProcessScan:
    """Answer which processes belong to a session, looking at /proc once a second at most."""

    def __init__(
        self, proc: str = "/proc", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._proc = proc
        self._clock = clock
        self._markers: dict[ProcessId, Mapping[bytes, str]] = {}
        self._stats: dict[int, _Stat] = {}
        self._scanned_s: float | None = None

    def living(self, sessions: Iterable[Session]) -> tuple[Living, ...]:
        """Return the living processes of some sessions, up to a second old, by pid.

        A process belongs to the session that its environment names, else to the one whose agent
        is its nearest ancestor. The agents themselves are left out. Only processes of this user
        are seen.
        """
        self._scan()
        known = _Known(sessions)
        base_ns, tick_ns = boot_ns(), 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        found = []
        for pid in sorted(self._stats):
            stat = self._stats[pid]
            session = None if stat.id in known.agents else self._session_of(stat, known)
            if session is not None:
                started_ns = base_ns + stat.id.started * tick_ns
                found.append(Living(stat.id, session, stat.name, started_ns))
        return tuple(found)

    def session_of(self, pid: int, sessions: Iterable[Session]) -> str | None:
        """Return the session that a process belongs to, as known within the last second."""
        self._scan()
        stat = self._stats.get(pid)
        return None if stat is None else self._session_of(stat, _Known(sessions))

    def holder(self, path: str, processes: Sequence[Living]) -> Living | None:
        """Return the one process among some that has a file open; None when several have."""
        wanted = os.fsencode(path)
        holding = [one for one in processes if self._holds(one.id.pid, wanted)]
        return holding[0] if len({one.session for one in holding}) == 1 else None

    def _holds(self, pid: int, wanted: bytes) -> bool:
        handles = os.path.join(self._proc, str(pid), "fd")
        try:
            names = os.listdir(handles)[:_MAX_HANDLES]
        except OSError:
            return False
        return any(_link(os.path.join(handles, name)) == wanted for name in names)

    def _scan(self) -> None:
        now_s = self._clock()
        if self._scanned_s is not None and now_s - self._scanned_s < SCAN_INTERVAL_S:
            return
        self._scanned_s = now_s
        self._stats = {stat.id.pid: stat for stat in self._own_processes()}
        living = {stat.id for stat in self._stats.values()}
        self._markers = {k: v for k, v in self._markers.items() if k in living}

    def _own_processes(self) -> Iterable[_Stat]:
        user = os.getuid()
        try:
            entries = [e for e in os.scandir(self._proc) if e.name.isdecimal()]
        except OSError:
            return
        for entry in entries:
            try:
                if entry.stat(follow_symlinks=False).st_uid != user:
                    continue
            except OSError:
                continue
            stat = _read_stat(self._proc, int(entry.name))
            if stat is not None and not stat.dead:
                yield stat

    def _session_of(self, stat: _Stat, known: "_Known") -> str | None:
        """Choose between the nearest agent above and the session that the variables name.

        Both are inherited by agents inside agents, so the session that began later is the inner.
        """
        markers = self._markers_of(stat.id)
        if SESSION_MARKER in markers and not known.has(markers[SESSION_MARKER]):
            return None
        return known.later(self._agent_above(stat, known), known.by_marker(markers))

    def _agent_above(self, stat: _Stat, known: "_Known") -> str | None:
        here: _Stat | None = stat
        for _ in range(_MAX_ANCESTORS):
            if here is None:
                return None
            session = known.agents.get(here.id)
            if session is not None:
                return session
            here = self._stats.get(here.parent)
        return None

    def _markers_of(self, process: ProcessId) -> Mapping[bytes, str]:
        """Return the session variables of a process; a program never changes them later."""
        found = self._markers.get(process)
        if found is None:
            path = os.path.join(self._proc, str(process.pid), "environ")
            found = _session_variables(_read(path, _ENVIRON_BYTES) or b"")
            self._markers[process] = found
        return found


class _Known:
    """Find sessions by what processes show of them."""

    def __init__(self, sessions: Iterable[Session]) -> None:
        agents = [one for one in sessions if one.actor is Actor.AGENT]
        self._started = {one.id: one.started_ns for one in agents}
        self._natives = {(one.agent, one.native_id): one.id for one in agents}
        self.agents = {
            ProcessId(one.pid, one.pid_started): one.id
            for one in agents
            if one.pid is not None and one.pid_started is not None
        }

    def has(self, session: str) -> bool:
        """Tell whether a session is one of these."""
        return session in self._started

    def by_marker(self, markers: Mapping[bytes, str]) -> str | None:
        """Return the session that the variables of a process name."""
        found = markers.get(SESSION_MARKER)
        for name, agent in NATIVE_MARKERS.items():
            native = self._natives.get((agent, markers.get(name, "")))
            found = self.later(found, native)
        return found

    def later(self, one: str | None, other: str | None) -> str | None:
        """Return the session of two that began later."""
        if one is None or other is None:
            return one or other
        return max(one, other, key=lambda session: self._started[session])


def _session_variables(environ: bytes) -> Mapping[bytes, str]:
    found = {}
    for item in environ.split(b"\0"):
        name, _, value = item.partition(b"=")
        if name == SESSION_MARKER or name in NATIVE_MARKERS:
            found[name] = value.decode("utf-8", "replace")
    return found


def _read_stat(proc: str, pid: int) -> _Stat | None:
    """Read `/proc/PID/stat`; the name stands in parentheses and may hold anything."""
    raw = _read(os.path.join(proc, str(pid), "stat"), 4096)
    if raw is None:
        return None
    head, _, tail = raw.rpartition(b")")
    parts = tail.split()
    if len(parts) < 20:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return _Stat(
        ProcessId(pid, int(parts[19])), int(parts[1]), name, parts[0] in _DEAD_STATES
    )


def _read(path: str, limit: int) -> bytes | None:
    try:
        with open(path, "rb") as handle:
            return handle.read(limit)
    except OSError:
        return None


def _link(path: str) -> bytes:
    try:
        return os.fsencode(os.readlink(path))
    except OSError:
        return b""
