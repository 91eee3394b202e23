"""Taking and summing up measurements: medians with spread.

Invariant: a number without its spread is never printed.
"""

import os
import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_S = 0.0002


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one line of the table; `values` in `unit`."""

    what: str
    budget: str
    values: Sequence[float]
    unit: str
    note: str = ""

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return what, budget, median, spread, note."""
        ordered = sorted(self.values)
        median = statistics.median(ordered)
        p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        spread = f"{_number(ordered[0])}–{_number(ordered[-1])}, p99 {_number(p99)}"
        if len(ordered) < 20:
            spread = f"{_number(ordered[0])}–{_number(ordered[-1])} of {len(ordered)}"
        return (
            self.what,
            self.budget,
            f"{_number(median)} {self.unit}",
            spread,
            self.note,
        )


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table."""
    head = (
        "| what | budget | median | spread | note |\n| --- | --- | --- | --- | --- |\n"
    )
    return head + "".join("| " + " | ".join(row.cells()) + " |\n" for row in rows)


class Journal:
    """Watch a journal from outside, as any reader would."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)

    def rows_of(self, path: str) -> int:
        """Return how many rows a path has."""
        query = "SELECT COUNT(*) FROM events WHERE path = ?"
        found: int = self._connection.execute(query, (path.encode(),)).fetchone()[0]
        return found

    def newest(self, path: str) -> int:
        """Return the number of a path's newest row, 0 without one; quick for any history."""
        query = "SELECT seq FROM events WHERE path = ? ORDER BY seq DESC LIMIT 1"
        found = self._connection.execute(query, (path.encode(),)).fetchone()
        return int(found[0]) if found else 0

    def await_newer(self, path: str, seq: int, timeout_s: float = 30.0) -> int:
        """Return a path's newest row once it is newer, looking without haste."""
        deadline = time.perf_counter() + timeout_s
        while (found := self.newest(path)) <= seq:
            if time.perf_counter() > deadline:
                raise TimeoutError(f"no row of {path} after {seq} came")
            time.sleep(0.001)
        return found

    def count(self) -> int:
        """Return how many rows there are."""
        found: int = self._connection.execute("SELECT COUNT(*) FROM events").fetchone()[
            0
        ]
        return found

    def await_row(self, path: str, number: int, timeout_s: float = 30.0) -> float:
        """Return the moment at which a path has so many rows, a quarter of a millisecond late."""
        deadline = time.perf_counter() + timeout_s
        while self.rows_of(path) < number:
            if time.perf_counter() > deadline:
                raise TimeoutError(f"row {number} of {path} did not come")
            # A reader that never sleeps keeps one of two processors from the daemon's threads:
            # the slowest tenth of the writes then took half as long again.
            time.sleep(_LOOK_S)
        return time.perf_counter()

    def await_count(self, number: int, timeout_s: float = 120.0) -> float:
        """Return the moment at which there are so many rows."""
        deadline = time.perf_counter() + timeout_s
        while self.count() < number:
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{self.count()} of {number} rows came")
            time.sleep(0.002)
        return time.perf_counter()


def cpu_with_children_s(pid: int) -> float:
    """Return the CPU seconds of a process and of the processes that it has started."""
    return sum(map(cpu_s, (pid, *children(pid))))


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that still run."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    found = [(one / "children").read_text(encoding="ascii") for one in threads]
    return [int(one) for one in " ".join(found).split()]


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process used so far; proc(5)."""
    fields = (
        Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / _TICKS


def wakeups(pid: int) -> int:
    """Return how often the threads of a process were waited for and ran again; proc(5)."""
    found = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                found += int(line.split()[1])
    return found


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process, MiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def pages_mib(pid: int) -> dict[str, float]:
    """Return the fields of /proc/PID/smaps_rollup, and as `own` what no other process has, MiB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    lines = (line.split() for line in text.splitlines()[1:])
    found = {name.rstrip(":"): int(kib) / 1024 for name, kib, _ in lines}
    return found | {"own": found["Private_Clean"] + found["Private_Dirty"]}


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ms(seconds: Sequence[float]) -> list[float]:
    """Return seconds as milliseconds."""
    return [value * 1000 for value in seconds]
