"""A kernel with processes that are never at rest: they go on at each file of /proc that is read."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gitshadow.platform.linux.processes import ProcFiles
from gitshadow.platform.port import ProcessId

INIT = 0
_PAGE = 4096


class Counts(NamedTuple):
    """What a process did: bytes written, bytes of pages made dirty, and page faults."""

    written: int = 0
    dirtied: int = 0
    faults: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Return the sums."""
        return Counts(*map(sum, zip(self, other, strict=True)))


_NOTHING = Counts()
_BORN = Counts(faults=1)


@dataclass(eq=False)
class Process:
    """One process; `inherited` is what children did that it waited for.

    `adopts`: it is given the orphans below it. `left`: init has got it, with its counts.
    `waited_by`: who has them now. `runs` is how often it was given a processor, which it has while
    it `is_awake`.
    """

    pid: int
    parent: int
    started: int
    own: Counts = _BORN
    inherited: Counts = _NOTHING
    ended: bool = False
    adopts: bool = False
    left: bool = False
    waited_by: "Process | None" = None
    runs: int = 1
    is_awake: bool = False

    @property
    def is_lost(self) -> bool:
        """Return whether its counts are, or go, to init."""
        above = self.waited_by
        return self.left or (above is not None and above.is_lost)

    @property
    def id(self) -> ProcessId:
        """Return what names it until the next boot."""
        return ProcessId(self.pid, self.started)


class Kernel(ProcFiles):
    """Processes, and what /proc shows of them; `go_on` is called before each answer.

    `hidden` are processes of which nothing is shown but that they are children. `stays_awake` says
    after each act of a process whether it goes on.
    """

    def __init__(self, go_on: Callable[[], None] = lambda: None) -> None:
        self.processes: dict[int, Process] = {}
        self.hidden: set[int] = set()
        self.mounts = b""
        self.go_on = go_on
        self.stays_awake: Callable[[], bool] = lambda: False
        self.reads = 0
        self._read_of: dict[int, Process] = {}
        self._pids = 0
        self._ticks = 0

    def start(self, parent: int = INIT, pid: int | None = None) -> Process:
        """Start a process; a pid is free for another one when its process was waited for."""
        self._ticks += 1
        if pid is None:
            self._pids += 1
            pid = self._pids
        assert pid not in self.processes
        above = self.processes.get(parent)
        if above is not None:
            self._run(above)
        made = Process(pid, parent, self._ticks, left=above is not None and above.left)
        self.processes[pid] = made
        return made

    def write(self, process: Process, count: int, *, dirty: int = 0) -> None:
        """Let a process write bytes by a system call; so many of them into clean pages."""
        self._run(process)
        process.own = process.own.plus(Counts(count, _pages(dirty)))

    def map(self, process: Process, dirty: int) -> None:
        """Let a process write bytes through a memory map, so many of them into clean pages."""
        self._run(process)
        process.own = process.own.plus(Counts(0, _pages(dirty), 1))

    def execute(self, process: Process) -> None:
        """Let a process run another program."""
        self._run(process)
        process.own = process.own.plus(Counts(faults=50))

    def act(self, process: Process) -> None:
        """Let a process do something that needs no bytes, such as to delete a file."""
        self._run(process)

    def sleep(self, process: Process) -> None:
        """Let a process wait for something."""
        process.is_awake = False

    def children(self, pid: int) -> list[Process]:
        """Return the children of a process, the oldest first."""
        return [one for one in self.processes.values() if one.parent == pid]

    def end(self, process: Process) -> None:
        """End a process; its children are given to the next one above that adopts, or to init."""
        self._run(process)
        process.ended = True
        heir = self.processes.get(process.parent)
        while heir is not None and not (heir.adopts and not heir.ended):
            heir = self.processes.get(heir.parent)
        for child in self.children(process.pid):
            child.parent = INIT if heir is None else heir.pid
            for one in self.tree(child) if heir is None else ():
                one.left = True
            if child.ended and heir is None:
                del self.processes[child.pid]
        if process.parent == INIT:
            del self.processes[process.pid]

    def wait(self, process: Process) -> None:
        """Let a process wait for its children that have ended."""
        self._run(process)
        for child in [one for one in self.children(process.pid) if one.ended]:
            process.inherited = process.inherited.plus(child.own).plus(child.inherited)
            child.waited_by = process
            del self.processes[child.pid]

    def tree(self, process: Process) -> list[Process]:
        """Return a process and what is below it now."""
        found = [process]
        for one in found:  # which grows
            found += self.children(one.pid)
        return found

    def read(self, name: str) -> bytes | None:
        """Answer as a file of /proc does."""
        self._pass()
        first, *rest = name.split("/")
        if first == "self":
            return self.mounts
        one = self.processes.get(int(first))
        if one is None or (one.pid in self.hidden and rest[-1] != "children"):
            return None
        if rest[-1] == "children":
            return b"".join(b"%d " % child.pid for child in self.children(one.pid))
        if rest[-1] == "stat":
            faults = one.own.faults, one.inherited.faults, 0, 0
            fields = [one.parent, 0, 0, 0, 0, 0, *faults, *[0] * 8, one.started]
            fields[16] = 1  # threads
            state = b"Z" if one.ended else b"R" if one.is_awake else b"S"
            words = b" ".join(b"%d" % each for each in fields)
            return b"%d (x) %b %b" % (one.pid, state, words)
        if rest[-1] == "schedstat":
            return b"1 2 %d\n" % one.runs
        if one.ended:  # only root may read what it wrote
            return None
        counts = one.own if rest[0] == "task" else one.own.plus(one.inherited)
        return (
            b"rchar: 0\nwchar: %d\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: %d\n"
            % (counts.written, counts.dirtied)
        )

    def reread(self, pid: int, name: str) -> bytes | None:
        """Answer as a file does that was opened at the last look."""
        found = self.read(f"{pid}/{name}")
        if pid in self.processes:
            self._read_of[pid] = self.processes[pid]
        return found

    def is_open(self, pid: int, name: str) -> bool:
        """Return whether a pid is that of the same process as at the last look."""
        return pid in self._read_of and self.processes.get(pid) is self._read_of[pid]

    def keep(self, pids: Iterable[int]) -> None:
        """Forget the other processes."""
        self._read_of = {pid: one for pid, one in self._read_of.items() if pid in pids}

    def threads(self, pid: int) -> Sequence[str]:
        """Return the one thread of a living process."""
        self._pass()
        return (str(pid),) if pid in self.processes else ()

    def _run(self, process: Process) -> None:
        process.runs += not process.is_awake
        process.is_awake = self.stays_awake()

    def _pass(self) -> None:
        self.reads += 1
        self.go_on()


def _pages(count: int) -> int:
    return -(-count // _PAGE) * _PAGE
