"""What the history takes on disk, edit by edit, against keeping each version whole.

No matter of time: it comes out nearly the same on a loaded machine. The drawing is
made from the samples alone.
"""

import os
import random
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench.drawing import Plot
from bench.measure import Journal, Row
from bench.places import Place, empty, repository

_LINES = 400
_SAMPLES = 100
_STEPS = 5
_RATE = 750


class Sample(NamedTuple):
    """Hold what lay on the disk after so many edits, in bytes."""

    edits: int
    history: int
    whole: int


def growth(scale: float) -> Iterator[Row]:
    """Disk after packing, per write; and the plot's ends as rows."""
    samples, packed = measure(scale)
    last = samples[-1]
    each = packed / last.edits / 1024
    what = (
        f"disk after packing, {last.edits:,} one-line edits of a 20 KiB file, per write"
    )
    yield Row(what, "≤ 0.5 KiB per write", [each], "KiB", "packs and their indexes")
    peak = max(one.history for one in samples) / 2**20
    yield Row("peak during the run", "–", [peak], "MiB", "loose objects")
    whole = last.whole / last.edits / 1024
    yield Row("every version stored whole, compressed", "yardstick", [whole], "KiB")


def loose(scale: float) -> Iterator[Row]:
    """The most loose objects that are there at once while 750 files a second are written."""
    seconds = max(2.0, 20.0 * min(scale, 1.0))
    with repository(max(100, int(20_000 * min(scale, 1.0)))) as place:
        place.git("gc", "-q")
        place.shadow("init")
        place.shadow("start")
        journal, before = Journal(place.journal), _loose(place)
        files = sorted(place.root.rglob("*.txt"))[:2_000]
        counts, written, began = [0], 0, time.perf_counter()
        while (now := time.perf_counter() - began) < seconds:
            for _ in range(int(now * _RATE) - written):
                files[written % len(files)].write_text(f"{written}\n" * 40)
                written += 1
            if now > len(counts) * 0.5:
                counts.append(_loose(place) - before)
            time.sleep(0.001)
        place.shadow("flush")
        counts.append(_loose(place) - before)
        said = f"{journal.count():,} rows of {written:,} writes"
    what = f"loose objects, {_RATE} writes a second for {seconds:.0f} s, at most"
    yield Row(what, "≤ 6,700", [max(counts)], "", said)


def _loose(place: Place) -> int:
    """Return how many loose objects there are; files may go while they are counted."""
    top, found = place.root / ".git" / "objects", 0
    for name in os.listdir(top):
        if len(name) == 2:
            with suppress(FileNotFoundError):
                found += len(os.listdir(top / name))
    return found


def measure(scale: float) -> tuple[list[Sample], int]:
    """Edit one line after the other; return samples, and the bytes after `pack`."""
    edits = max(100, int(10_000 * scale))
    chance = random.Random(7)
    with empty() as place:
        lines = [_line(at, 0, chance) for at in range(_LINES)]
        target = place.root / "edited.txt"
        target.write_text("".join(lines), encoding="ascii")
        place.git("add", "-A")
        place.git("commit", "-q", "-m", "first")
        place.shadow("init")
        place.shadow("start")
        journal, before, whole = Journal(place.journal), _objects(place), 0
        samples = [Sample(0, 0, 0)]
        for number in range(1, edits + 1):
            lines[chance.randrange(_LINES)] = _line(number, number, chance)
            text = "".join(lines)
            target.write_text(text, encoding="ascii")
            whole += len(zlib.compress(text.encode("ascii")))
            journal.await_row("edited.txt", number)
            if number % max(1, edits // _SAMPLES) == 0:
                samples.append(Sample(number, _objects(place) - before, whole))
        place.shadow("pack")
        return samples, _objects(place) - before


def _line(at: int, number: int, chance: random.Random) -> str:
    return f"{at:05} {number:06} {chance.getrandbits(140):036x}\n"


def _objects(place: Place) -> int:
    """Return what the object store takes on the disk, by blocks."""
    top = place.root / ".git" / "objects"
    found = 0
    for directory, _, names in os.walk(top):
        for name in names:
            try:
                found += os.lstat(os.path.join(directory, name)).st_blocks * 512
            except FileNotFoundError:  # packed meanwhile
                continue
    return found


def write_plot(scale: float, path: Path) -> None:
    """Measure and draw into a file."""
    samples, packed = measure(scale)
    path.write_text(draw(samples, packed), encoding="utf-8")


def draw(samples: Sequence[Sample], packed: int) -> str:
    """Return the plot: edits to the right, MiB upwards."""
    last = samples[-1]
    top = max(1.0, *(one.whole / 2**20 for one in samples)) * 1.05

    def at(edits: int, size: int) -> tuple[float, float]:
        return edits / last.edits, size / 2**20 / top

    plot = Plot("MiB on disk, by edits of one line in a file of 20 KiB")
    for step in range(_STEPS + 1):
        plot.level(step / _STEPS, f"{top * step / _STEPS:.0f}")
        plot.mark(step / _STEPS, f"{last.edits * step / _STEPS:,.0f}")
    plot.curve([at(one.edits, one.whole) for one in samples], "#999")
    history = [at(one.edits, one.history) for one in samples]
    plot.curve([*history, at(last.edits, packed)], "#06c")
    plot.beside(at(0, last.whole)[1], "each version whole")
    plot.beside(at(0, packed)[1], "the history")
    return plot.text()
