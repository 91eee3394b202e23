"""What the evidence for an author costs per recorded write, beside the same run without it.

Invariant: levels take turns in one daemon, and only blocks of one turn are compared: two daemons
differ by more than what is measured here.
"""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bench.agents import watched
from bench.budgets import daemon_pid, rewrite
from bench.levels import Level, apply
from bench.measure import Journal, Row, ms
from bench.places import Place
from bench.shells import calls, team

OPEN = (0, 1, 4)
"""How many agents have a shell call open."""

_BLOCKS = 8
_WRITES = 30
_PAUSE_S = 0.005
_TARGET = "d000/e00000/f000000.txt"
BUDGET_MS = 0.3
"""How much CPU a write may cost more while calls are open."""

_SCHEDULED = 2


class Block(NamedTuple):
    """What one write took in a block of some: the daemon's CPU, and until its row, both in ms."""

    cpu: float
    wait: float


class Cost(NamedTuple):
    """What writes cost at one level with so many calls open.

    `more` is how much more CPU a write took than in the block of the same turn without evidence.
    """

    agents: int
    level: Level
    blocks: Sequence[Block]
    more: Sequence[float]

    @property
    def opened(self) -> str:
        """Return how many calls were open."""
        return {0: "no call", 1: "1 call"}.get(self.agents, f"{self.agents} calls")

    @property
    def rows(self) -> Iterator[Row]:
        """Yield the lines of the table."""
        cpu, wait = zip(*self.blocks, strict=True)
        yield Row(f"CPU per write, {self.opened} open, {self.level}", "–", cpu, "ms")
        if self.level is not Level.NOTHING:
            ours = statistics.median(cpu)
            goal = f"≤ {BUDGET_MS} ms" if self.agents else "nothing"
            note = f"{ours / (ours - statistics.median(self.more)):.2f} × that"
            yield Row("… more than with nothing", goal, self.more, "ms", note)
        yield Row(f"write → row, {self.opened} open, {self.level}", "–", wait, "ms")


def measure(scale: float, missing: Mapping[Level, str | None]) -> list[Cost]:
    """Measure every level that is not missing, with no call open, with one and with several."""
    levels = [level for level, why in missing.items() if why is None]
    found: list[Cost] = []
    with watched() as place:
        for agents in OPEN:
            blocks: dict[Level, list[Block]] = {level: [] for level in levels}
            with team(place, agents) as at_work:
                for turn in range(max(3, round(_BLOCKS * scale))):
                    for level in levels[:: -1 if turn % 2 else 1]:
                        apply(place, level)
                        with calls(place, at_work, ["sleep"] * agents):
                            blocks[level].append(_block(place))
            for level, own in blocks.items():
                pairs = zip(own, blocks[Level.NOTHING], strict=True)
                more = [one.cpu - other.cpu for one, other in pairs]
                found.append(Cost(agents, level, own, more))
    return found


def _block(place: Place) -> Block:
    journal, pid = Journal(place.journal), daemon_pid(place)
    target = place.root / _TARGET
    waits: list[float] = []
    began = _cpu_ns(pid)
    for number in range(_WRITES):
        seq = journal.newest(_TARGET)
        at = rewrite(target, number)
        journal.await_newer(_TARGET, seq)
        waits.append(time.perf_counter() - at)
        time.sleep(_PAUSE_S)
    cpu = (_cpu_ns(pid) - began) / 1e6 / _WRITES
    return Block(cpu, statistics.median(ms(waits)))


def _cpu_ns(pid: int) -> int:
    """Return how long a process has run, its threads that ended included."""
    # clock_getcpuclockid(3), which Python does not have: the clock's number contains the pid.
    return time.clock_gettime_ns((~pid << 3) | _SCHEDULED)
