"""Follow every process from its start, so that its ancestors are known when they are gone.

The kernel's process events (the proc connector, <linux/cn_proc.h>) report each fork when it
happens. /proc gives the processes that were there before. Nothing else of this program is
imported: root runs this package alone.
"""

import errno
import os
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gitshadow.platform.writers import ProcessKey

_CONNECTOR, _GROUP = 11, 1
_NETLINK = struct.Struct("=IHHII")
_MESSAGE = struct.Struct("=IIIIHH")
_LISTEN = 1
_DONE = 3
_EVENT = struct.Struct("=IIQ")
_FORK, _EXEC, _EXIT = 0x1, 0x2, 0x8000_0000
_FOUR = struct.Struct("=iiii")
_BUFFER_BYTES = 16 * 1024 * 1024
_SO_RCVBUFFORCE = 33
_EVENT_BYTES = 1024
_MOST_DEPTH = 256
_MOST_DEAD = 50_000
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# Start times are rounded to a tick, and computed from another clock.
_NEAR_TICKS = 2
_STAT_BYTES = 4096
_DEAD_STATES = (b"Z", b"X", b"x")


@dataclass(slots=True, eq=False)
class Process:
    """One process; times are of CLOCK_MONOTONIC.

    `seen_starting` is False where it was there already. `ended_ns` is None while it lives. `name`
    is that of the program which it runs since `named_ns`.
    """

    pid: int
    started: int
    started_ns: int
    parent: "Process | None"
    seen_starting: bool
    depth: int
    name: str = ""
    named_ns: int = 0
    ended_ns: int | None = None

    def line(self) -> Iterator["Process"]:
        """Yield it and its ancestors, nearest first."""
        here: Process | None = self
        while here is not None:
            yield here
            here = here.parent

    def is_same(self, process: ProcessKey) -> bool:
        """Return whether it is a process that /proc showed."""
        pid, started = process
        return self.pid == pid and abs(self.started - started) <= _NEAR_TICKS


class LivingProcess(NamedTuple):
    """What /proc shows of a process; `parent` is a pid."""

    pid: int
    started: int
    parent: int
    name: str


class Fork(NamedTuple):
    """A process started another one."""

    at_ns: int
    parent: int
    child: int


class Exec(NamedTuple):
    """A process began to run a program."""

    at_ns: int
    pid: int


class Exit(NamedTuple):
    """A process ended."""

    at_ns: int
    pid: int


ProcessEvent = Fork | Exec | Exit


class LostProcessesError(Exception):
    """The kernel dropped process events because nobody read them in time."""


class ProcessEvents:
    """The kernel's process events.

    Raises:
        OSError: this process lacks CAP_NET_ADMIN, or is in another pid or user namespace.
    """

    def __init__(self) -> None:
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, _CONNECTOR)
        try:
            # Without it bursts of forks, as of a build, overflow the buffer.
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            self._socket.bind((0, _GROUP))
            body = _MESSAGE.pack(_GROUP, _GROUP, 0, 0, 4, 0) + struct.pack(
                "=I", _LISTEN
            )
            header = _NETLINK.pack(_NETLINK.size + len(body), _DONE, 0, 0, 0)
            self._socket.send(header + body)
        except OSError:
            self._socket.close()
            raise

    @property
    def fd(self) -> int:
        """Return what is readable when events wait."""
        return self._socket.fileno()

    def close(self) -> None:
        """Stop all events."""
        self._socket.close()

    def read(self) -> Iterator[ProcessEvent]:
        """Yield what waits.

        Raises:
            LostProcessesError: events were dropped.
        """
        while True:
            try:
                data, sender = self._socket.recvfrom(_EVENT_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    raise LostProcessesError from error
                raise
            # Any process can send to a netlink socket; the kernel's own id is 0 (netlink(7)).
            if sender[0] == 0:
                event = _parsed(data)
                if event is not None:
                    yield event


def _parsed(data: bytes) -> ProcessEvent | None:
    start = _NETLINK.size + _MESSAGE.size
    if len(data) < start + _EVENT.size + _FOUR.size:
        return None
    what, _, at_ns = _EVENT.unpack_from(data, start)
    first, second, third, fourth = _FOUR.unpack_from(data, start + _EVENT.size)
    # A thread has another pid than its process.
    if what == _FORK and third == fourth:
        return Fork(at_ns, second, fourth)
    if what == _EXEC:
        return Exec(at_ns, second)
    if what == _EXIT and first == second:
        return Exit(at_ns, second)
    return None


class WriterTable:
    """The processes of this machine, and those that ended a while ago."""

    def __init__(self) -> None:
        self._lives: dict[int, list[Process]] = {}
        self._dead: list[Process] = []
        # The start times of /proc count suspended time, those of events do not.
        boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._offset_ns = boot_ns - time.monotonic_ns()

    def fill(self) -> None:
        """Read the processes that live, once events are being queued."""
        found = {one.pid: one for one in _everybody()}
        for pid in sorted(found, key=lambda pid: found[pid].started):
            known = self.living(pid)
            started = found[pid].started
            if known is not None and abs(known.started - started) <= _NEAR_TICKS:
                continue
            parent = self.living(found[pid].parent)
            self._add(
                Process(
                    pid,
                    started,
                    started * _TICK_NS - self._offset_ns,
                    parent,
                    seen_starting=False,
                    depth=0 if parent is None else parent.depth + 1,
                    name=found[pid].name,
                )
            )

    def note(self, event: ProcessEvent) -> None:
        """Follow an event."""
        if isinstance(event, Fork):
            self._fork(event)
            return
        process = self.living(event.pid)
        if process is None:
            return
        if isinstance(event, Exec):
            process.name, process.named_ns = _name(event.pid), event.at_ns
        else:
            process.ended_ns = event.at_ns
            self._dead.append(process)
            self._forget()

    def living(self, pid: int) -> Process | None:
        """Return the process that has a pid now."""
        lives = self._lives.get(pid)
        return lives[-1] if lives and lives[-1].ended_ns is None else None

    def between(self, pid: int, begin_ns: int, end_ns: int) -> Process | None:
        """Return the only process that had a pid in an interval; None for none or several."""
        found = [
            one
            for one in self._lives.get(pid, ())
            if one.started_ns <= end_ns
            and (one.ended_ns is None or one.ended_ns >= begin_ns)
        ]
        return found[0] if len(found) == 1 else None

    def _fork(self, event: Fork) -> None:
        parent = self.living(event.parent)
        # A chain of processes that each start the next one and end would be kept as a whole.
        if parent is not None and parent.depth >= _MOST_DEPTH:
            parent = None
        started = (event.at_ns + self._offset_ns) // _TICK_NS
        known = self.living(event.child)
        # /proc showed it before its event was read.
        if known is not None and abs(known.started - started) <= _NEAR_TICKS:
            return
        self._add(
            Process(
                event.child,
                started,
                event.at_ns,
                parent,
                seen_starting=parent is not None,
                depth=0 if parent is None else parent.depth + 1,
                name="" if parent is None else parent.name,
            )
        )

    def _add(self, process: Process) -> None:
        lives = self._lives.setdefault(process.pid, [])
        if lives and lives[-1].ended_ns is None:
            lives[-1].ended_ns = process.started_ns
        lives.append(process)

    def _forget(self) -> None:
        """Drop the oldest dead ones; what they started still refers to them."""
        if len(self._dead) < _MOST_DEAD:
            return
        drop = self._dead[: _MOST_DEAD // 2]
        del self._dead[: _MOST_DEAD // 2]
        for process in drop:
            lives = self._lives.get(process.pid, [])
            if process in lives:
                lives.remove(process)
            if not lives:
                self._lives.pop(process.pid, None)


def look_at(pid: int) -> LivingProcess | None:
    """Read a process from /proc; None where none lives or it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            head, _, tail = file.read(_STAT_BYTES).rpartition(b")")
    except OSError:
        return None
    # The name is in parentheses, and may itself contain parentheses and blanks (proc(5)).
    parts = tail.split()
    if len(parts) < 20 or parts[0] in _DEAD_STATES:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return LivingProcess(pid, int(parts[19]), int(parts[1]), name)


def _everybody() -> Iterator[LivingProcess]:
    for name in os.listdir("/proc"):
        found = look_at(int(name)) if name.isdecimal() else None
        if found is not None:
            yield found


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
            return file.read(64).decode("utf-8", "replace").strip()
    except OSError:
        return ""
