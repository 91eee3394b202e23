"""A person who saves while agents' shells run: who is recorded, with which evidence.

Invariant: the truth comes from the writers, and every save falls into a shell call of each agent.
"""

import os
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle, islice, product
from pathlib import Path
from typing import NamedTuple

from bench import saves
from bench.agents import Agent, last_seq, mine, said
from bench.levels import Level, busy, places
from bench.places import Place
from bench.scoring import Verdict, Wrote, judge
from bench.shells import WORK, calls, team

BUSY = (0, 4)
"""How many processes keep the machine busy beside what is measured."""

MIXED = "mixed"
PATTERNS = {
    "plain": saves.plain,
    "atomic": saves.atomic,
    "JetBrains": saves.jetbrains,
}
SIZES = ("small", "large")
_SMALL_BYTES = 120
_LARGE_BYTES = 6_000
_ADDED_BYTES = 400
_ROUNDS = {1: 5, 2: 5, 4: 3, 8: 2}
_PAUSES_S = (0.02, 0.08)


class Save(NamedTuple):
    """Name one way in which a person saves."""

    pattern: str
    size: str


SAVES = tuple(Save(*one) for one in product(PATTERNS, SIZES))


class Shells(NamedTuple):
    """Name one cell: what the shells of how many agents do, on how busy a machine."""

    agents: int
    work: str
    busy: int

    @property
    def name(self) -> str:
        """Return the cell in words."""
        agents = "1 agent" if self.agents == 1 else f"{self.agents} agents"
        return f"{agents}, {self.work}, {self.busy} busy processes"

    @property
    def works(self) -> Sequence[str]:
        """Return what the shell of each agent does."""
        of_each = WORK[::-1] if self.work == MIXED else (self.work,)
        return tuple(islice(cycle(of_each), self.agents))


class _Write(NamedTuple):
    """One write as its writer tells it; `save` is None for an agent's."""

    shells: Shells
    turn: int
    save: Save | None
    wrote: Wrote


class Seen(NamedTuple):
    """How one write was recorded; `save` is None for an agent's."""

    shells: Shells
    level: Level
    turn: int
    save: Save | None
    verdict: Verdict
    reason: str


class Findings(NamedTuple):
    """All that was seen, and the load of the machine at the time, by number of busy processes."""

    seen: Sequence[Seen]
    load: Mapping[int, tuple[float, float]]
    missing: Mapping[Level, str | None]


def grid(agents: int, busy_processes: int) -> Sequence[Shells]:
    """Return the cells of so many agents."""
    works = WORK if agents == 1 else ("write", MIXED)
    return [Shells(agents, work, busy_processes) for work in works]


def measure(scale: float, missing: Mapping[Level, str | None]) -> Findings:
    """Measure all cells, each at every level in turn; a scale below 1 has fewer rounds."""
    seen: list[Seen] = []
    load: dict[int, tuple[float, float]] = {}
    for processes in BUSY:
        loads: list[float] = []
        with places(missing) as found, busy(processes):
            for agents, rounds in _ROUNDS.items():
                cells = grid(agents, processes)
                rows = beside(found, cells, max(1, round(rounds * scale)))
                _progress(cells, rows)
                seen += rows
                loads.append(os.getloadavg()[0])
        load[processes] = (min(loads), max(loads))
    return Findings(seen, load, missing)


def beside(
    found: Mapping[Level, Place], cells: Sequence[Shells], rounds: int
) -> Sequence[Seen]:
    """Let a person save in every way while shells run; return how all writes were recorded.

    Args:
        found: A repository for each level; the levels take turns.
        cells: What the shells do, of the same number of agents.
        rounds: How often they do it.
    """
    since = {level: last_seq(place) for level, place in found.items()}
    wrote: dict[Level, list[_Write]] = {level: [] for level in found}
    with ExitStack() as stack:
        teams = {
            level: stack.enter_context(team(place, cells[0].agents))
            for level, place in found.items()
        }
        for cell, level in product(cells, found):
            wrote[level] += _saves(found[level], teams[level], cell, rounds)
    rows = {level: said(place, since[level]) for level, place in found.items()}
    return [
        Seen(one.shells, level, one.turn, one.save, *judge(one.wrote, rows[level]))
        for level in found
        for one in wrote[level]
    ]


def _saves(
    place: Place, agents: Sequence[Agent], cell: Shells, rounds: int
) -> Iterator["_Write"]:
    todo = [person_files(place) for _ in range(rounds)]
    place.shadow("flush")
    for turn, targets in enumerate(todo):
        with calls(place, agents, cell.works) as made:
            for save, target in targets.items():
                PATTERNS[save.pattern](target, changed(target, save))
                yield _Write(cell, turn, save, mine(place, target))
                time.sleep(random.uniform(*_PAUSES_S))
        for one in made:
            yield _Write(cell, turn, None, one)


def person_files(place: Place) -> dict[Save, Path]:
    """Write the files that a person will save in one round, in no order."""
    top = place.root / "mine" / uuid.uuid4().hex
    top.mkdir(parents=True)
    found: dict[Save, Path] = {}
    for save in random.sample(SAVES, len(SAVES)):
        found[save] = top / f"{save.pattern}-{save.size}.txt"
        size = _SMALL_BYTES if save.size == "small" else _LARGE_BYTES
        found[save].write_text(_text(size), encoding="ascii")
    return found


def changed(target: Path, save: Save) -> str:
    """Return a text with another character at its end, or with lines before it."""
    text = target.read_text(encoding="ascii")
    if save.size == "small":
        return text[:-2] + chr(ord(text[-2]) + 1) + "\n"
    return _text(_ADDED_BYTES) + text


def _text(size: int) -> str:
    """Return lines of hexadecimal digits that nobody else writes."""
    lines = (uuid.uuid4().hex + uuid.uuid4().hex for _ in range(size // 64 + 1))
    return "\n".join(lines)[: size - 1] + "\n"


def _progress(cells: Sequence[Shells], seen: Sequence[Seen]) -> None:
    for cell, level, is_persons in product(cells, Level, (True, False)):
        counts = Counter(
            one.verdict
            for one in seen
            if (one.shells, one.level) == (cell, level)
            and (one.save is not None) == is_persons
        )
        told = ", ".join(f"{counts[one]} {one}" for one in Verdict if counts[one])
        if told:
            who = "a person" if is_persons else "agents"
            print(f"{cell.name}, {level}: {who}: {told}", flush=True)
