"""Whether an agent ran anything at a time: a shell that waits for a permission did not.

What the kernel counts for an agent's process and all below it is compared. Where nothing was
counted between two looks, and no process has started, none of them has written in between.
Invariant: it only excludes. What cannot be read, and what changed for any reason, says nothing.
"""

from typing import NamedTuple

from gitshadow.attribution.process import (
    ProcessId,
    descendants,
    is_alive,
    started_ns,
)

_COARSE_NS = 20_000_000
"""Start times are counted in clock ticks of 10 ms, and stamps of files may lag by as much."""

_Counts = tuple[int, ...]


class _Still(NamedTuple):
    """Hold what was counted for a process and those below it, and since when it is the same."""

    counted: tuple[_Counts, ...]
    since_ns: int
    newest_ns: int


class Stillness:
    """Look at the processes of agents from time to time, while a shell of theirs is open."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._still: dict[ProcessId, _Still | None] = {}

    @property
    def watched(self) -> tuple[ProcessId, ...]:
        """Return the processes that are looked at."""
        return tuple(self._still)

    def watch(self, process: ProcessId) -> None:
        """Look at a process from now on."""
        self._still.setdefault(process, None)

    def forget(self, process: ProcessId) -> None:
        """Look at a process no longer."""
        self._still.pop(process, None)

    def look(self, now_ns: int) -> None:
        """Look at every process that is watched."""
        for process in self.watched:
            counted = self._counted(process)
            if counted is None:
                self._still[process] = None
                continue
            known = self._still[process]
            if known is None or known.counted != counted.counts:
                self._still[process] = _Still(counted.counts, now_ns, counted.newest_ns)

    def was_still(self, process: ProcessId, opened_ns: int, at_ns: int) -> bool:
        """Tell whether nothing below a process ran from a moment up to the last look.

        Args:
            process: An agent's, watched.
            opened_ns: When the call was reported that may have run something.
            at_ns: The moment; the last look came after it.
        """
        known = self._still.get(process)
        if known is None:
            return False
        # What has started since the call was reported may be its tool, and merely wait.
        if known.newest_ns + _COARSE_NS >= opened_ns:
            return False
        return opened_ns < known.since_ns < at_ns - _COARSE_NS

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


class _Counted(NamedTuple):
    counts: tuple[_Counts, ...]
    newest_ns: int


class _Fields(NamedTuple):
    faults: int
    children_faults: int
    ticks: int
