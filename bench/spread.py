"""How long things take, as a distribution: a median says nothing of the slow ones.

Invariant: every single measurement is in the picture.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.budgets import before_call, start, waits
from bench.drawing import Plot, steps
from bench.measure import Journal, Row, ms, timed
from bench.places import repository
from bench.undo import undone

_WRITTEN = "d000/e00000/f000000.txt"
_FEW = ["d000/e00000/f000001.txt", "d000/e00000/f000002.txt"]
_STEPS = (1, 2, 5)
_SHARES = (0, 0.25, 0.5, 0.75, 0.99)


class Curve(NamedTuple):
    """Hold one thing that was measured again and again, in ms, and its colour."""

    what: str
    budget: str
    colour: str
    values: Sequence[float]


def measure(scale: float) -> Iterator[Curve]:
    """Write → row, hooks and `oops` in 20,000 files, with a daemon."""
    with repository(int(20_000 * scale) or 100) as place:
        start(place)
        values = waits(
            Journal(place.journal), place.root, _WRITTEN, _times(1_000, scale)
        )
        yield Curve("write → row", "≤ 2.5 ms median, ≤ 10 ms p99", "#06c", values)
        hooks = [
            timed(lambda: place.hook(before_call(place, "Write")))
            for _ in range(_times(300, scale))
        ]
        yield Curve("hook, whole process", "≤ 20 ms", "#393", ms(hooks))
        place.git("checkout", "-q", "--", ".")
        place.shadow("flush")
        undos = [undone(place, _FEW) for _ in range(_times(100, scale))]
        yield Curve("oops, whole process", "≤ 45 ms", "#c60", ms(undos))


def _times(number: int, scale: float) -> int:
    return max(10, int(number * scale))


def write_plot(scale: float, path: Path) -> list[Row]:
    """Measure and draw into a file; return the same as rows."""
    curves = list(measure(scale))
    path.write_text(draw(curves), encoding="utf-8")
    return [Row(one.what, one.budget, one.values, "ms") for one in curves]


def draw(curves: Sequence[Curve]) -> str:
    """Return the plot: time to the right, as a logarithm, and upwards how many took no longer."""
    every = [value for one in curves for value in one.values]
    ticks = list(_ticks(min(every), max(every)))
    least, width = math.log(ticks[0]), math.log(ticks[-1] / ticks[0])

    def across(value: float) -> float:
        return (math.log(value) - least) / width

    plot = Plot("share of all that took at most so long, ms")
    for share in _SHARES:
        plot.level(share, f"{share:.0%}")
    for tick in ticks:
        plot.mark(across(tick), f"{tick:g}", line=True)
    for number, one in enumerate(curves):
        plot.curve(steps(one.values, across), one.colour)
        up = 0.9 - number * 0.2
        plot.beside(up, one.what, one.colour)
        plot.beside(up - 0.06, _summary(one.values), one.colour)
    return plot.text()


def _summary(values: Sequence[float]) -> str:
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{statistics.median(ordered):.1f}, p99 {p99:.1f} ({len(ordered)})"


def _ticks(least: float, most: float) -> Iterator[float]:
    """Yield 1, 2, 5, 10 … from below the least to above the most."""
    decade = math.floor(math.log10(least))
    steps_ = (step * 10.0**power for power in range(decade, 9) for step in _STEPS)
    found = list(steps_)
    low = max(at for at, tick in enumerate(found) if tick <= least)
    high = next(at for at, tick in enumerate(found) if tick > most)
    yield from found[low : high + 1]
