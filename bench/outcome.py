"""What a run of the accuracy benchmark found, and the tables that show it.

Invariant: nothing is measured here.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from bench import measure
from bench.cost import BUDGET_MS, Cost
from bench.evidence import MIXED, SAVES, Findings, Save, Seen, Shells
from bench.levels import Level
from bench.scoring import NAMED, Tally, Verdict, interval
from bench.shells import QUIET, WORK

_MISSES = """\
What the ledger cannot show:

- **Small saves in place beside a shell that works.** To change one character takes one byte. A
  shell that ran and wrote as much to anywhere in the same few milliseconds may have done it: Linux
  counts what a process wrote, but without privilege it does not say to which file. The kernel also
  counts pages that become dirty, which printing does not; but those of a file that is saved in
  place can be dirty already. As the shell's call is the only one open, the write stays the call's,
  `medium` and by timing: plans mark such items.
- **Shells that work all the time.** A build always runs, so it is never excluded because it slept,
  and within milliseconds it writes more bytes, and makes more pages dirty, than small saves need.
- **Which of several agents wrote**, if all of them ran and wrote enough bytes in the milliseconds
  from the look before the write to the look after it. On a busy machine these are more.
- **Deletions, renames and modes** beside a shell that ran at that moment: they need no bytes.

The ledger costs time at each write during a shell call, because the daemon then reads some files of
`/proc` for each process below each agent that ran since the last look.
"""

_COST = """\
CPU time is that of the daemon, whose settings change between blocks of writes. *more* compares the
blocks of one turn.
"""

_EDITORS = """\
## Editors

A person saves a short line once during each shell call of an agent that writes files, at the level
*ledger*.
"""

_ALONE = """\
## Agents alone

Nobody else writes during a tool call. *named*: the hooks name the path. *shell*: they name no path.
*mixed*: agents of both kinds in parallel. *none*: no hooks, a program with a known agent's name.
Precision is the share of claims at a confidence level that are right, recall the share of all
writes that are rightly claimed at that level. Every claim above `low` must be right and every
candidate list must contain the author.
"""

_OUTSIDE = """\
## Outside tool calls

No edit may be attributed to an agent above a limit, which is `low` or `medium` in a turn.
"""

_MOST_GAPS = {Level.LEDGER: 0.25, Level.WITNESS: 0.0}
_LEAST_RIGHT = {Level.LEDGER: 0.95, Level.WITNESS: 1.0}


@dataclass(frozen=True, slots=True)
class Cell:
    """Name one cell of the grid."""

    style: str
    sessions: int
    delay_ms: int

    @property
    def name(self) -> str:
        """Return the cell in words."""
        return f"{self.sessions} × {self.style}, {self.delay_ms} ms"


@dataclass(slots=True)
class Outcome:
    """Hold all results of a run."""

    cells: dict[Cell, Tally] = field(default_factory=dict)
    beside: dict[str, Tally] = field(default_factory=dict)
    outside: dict[str, tuple[int, int]] = field(default_factory=dict)
    evidence: Findings | None = None
    costs: Sequence[Cost] = ()
    failed: list[str] = field(default_factory=list)


def table(found: Outcome) -> str:
    """Return the tables as Markdown, those of the goals first."""
    parts: list[str] = []
    if found.evidence is not None:
        parts += _evidence(found.evidence, found.costs)
    parts += [_EDITORS, _beside(found), _ALONE, _grid(found), _OUTSIDE, _outside(found)]
    return "\n".join(parts)


def misses(found: Findings) -> list[str]:
    """Say where a level of evidence let a wrong author stand as a fact, and what has no row."""
    bad = Counter(
        (one.shells.name, one.level, one.verdict, one.reason)
        for one in found.seen
        if one.verdict is Verdict.MISSING
        or (one.verdict is Verdict.WRONG and one.level is not Level.NOTHING)
    )
    return [f"{count} × {', '.join(key)}" for key, count in sorted(bad.items())]


# With each level of evidence


def _evidence(found: Findings, costs: Sequence[Cost]) -> Iterator[str]:
    yield "## Goals\n"
    yield _lines(("goal", "level", "measured", "met"), _goals(found, costs))
    loads = " and ".join(
        f"{least:.0f} to {most:.0f} with {busy} busy processes"
        for busy, (least, most) in found.load.items()
    )
    yield f"The load of the machine was {loads}; its other work is included.\n"
    for level, why in found.missing.items():
        if why is not None:
            yield f"Not measured: *{level}*, because {why}.\n"
    yield _MISSES
    yield "## One agent and a person\n"
    yield _by_cell([one for one in found.seen if one.shells.agents == 1])
    yield "The person's saves in this table, by kind:\n"
    yield _by_save([one for one in found.seen if one.shells.agents == 1])
    yield "## Several agents and a person\n"
    yield _by_cell([one for one in found.seen if one.shells.agents > 1])
    yield "## Cost\n"
    yield _COST
    yield measure.table([row for cost in costs for row in cost.rows])


_RATES = (
    "writes",
    "right",
    "right by round",
    "gap",
    "wrong, `low`",
    "wrong, `medium`",
    "wrong, `high` or `certain`",
)


def _by_cell(seen: Sequence[Seen]) -> str:
    groups: dict[tuple[object, ...], list[Seen]] = {}
    for one in sorted(seen, key=lambda one: (one.shells.agents, _works(one.shells))):
        who = "agent" if one.save is None else "person"
        groups.setdefault((*one.shells, one.level, who), []).append(one)
    head = ["agents", "their work", "busy processes", "level", "writes of", *_RATES]
    return _lines(head, [(*name, *_rates(own)) for name, own in groups.items()])


def _works(shells: Shells) -> int:
    return (*WORK, MIXED).index(shells.work)


def _by_save(seen: Sequence[Seen]) -> str:
    groups: dict[tuple[Save, Level], list[Seen]] = {}
    for one in seen:
        if one.save is not None:
            groups.setdefault((one.save, one.level), []).append(one)
    rows = [
        (f"{save.pattern}, {save.size}", level, *_rates(groups[save, level]))
        for save in SAVES
        for level in Level
        if (save, level) in groups
    ]
    return _lines(["how the person saves", "level", *_RATES], rows)


def _rates(seen: Sequence[Seen]) -> Iterator[object]:
    counts = Counter(one.verdict for one in seen)
    rounds: dict[tuple[object, ...], list[bool]] = {}
    for one in seen:
        is_right = one.verdict is Verdict.RIGHT
        rounds.setdefault((one.shells, one.turn), []).append(is_right)
    shares = sorted(sum(one) / len(one) for one in rounds.values())
    yield len(seen)
    yield _rate(counts[Verdict.RIGHT], len(seen))
    middle = _percent(statistics.median(shares))
    yield f"{middle} ({_percent(shares[0])} to {_percent(shares[-1])})"
    yield counts[Verdict.GAP]
    yield counts[Verdict.DOUBTED]
    yield _rate(counts[Verdict.TIMED], len(seen))
    yield _rate(counts[Verdict.WRONG], len(seen))


def _rate(found: int, of: int) -> str:
    """Return a share with its 95 % interval: few writes prove little."""
    least, most = (round(100 * one) for one in interval(found, of))
    return f"{found}: {least}–{most} %"


def _goals(found: Findings, costs: Sequence[Cost]) -> Iterator[Sequence[object]]:
    for level in (Level.LEDGER, Level.WITNESS):
        own = [one for one in found.seen if one.level is level]
        if not own:
            continue
        bad = sum(one.verdict is Verdict.WRONG for one in own)
        yield (
            "no wrong author at `high` or `certain`",
            level,
            _measured(bad, len(own)),
            _met(bad == 0),
        )
        timed = sum(one.verdict is Verdict.TIMED for one in own)
        yield (
            "wrong author at `medium`, by timing: undone with the turn",
            level,
            _measured(timed, len(own)),
            "no goal",
        )
        large = [one for one in own if _is_large_beside_quiet(one)]
        right = sum(one.verdict is Verdict.RIGHT for one in large)
        least = _LEAST_RIGHT[level]
        yield (
            f"a person's large save beside a quiet shell is theirs: ≥ {_percent(least)}",
            level,
            _measured(right, len(large)),
            _met(right >= least * len(large)),
        )
        two = [one for one in own if one.shells.agents == 2 and one.save is None]
        gaps = sum(one.verdict is Verdict.GAP for one in two)
        most = _MOST_GAPS[level]
        yield (
            f"writes of two agents, shells overlapping, without author: ≤ {_percent(most)}",
            level,
            _measured(gaps, len(two)),
            _met(gaps <= most * len(two)),
        )
        for cost in costs:
            if cost.level is level:
                yield _cost_goal(cost)


def _cost_goal(cost: Cost) -> Sequence[object]:
    more = statistics.median(cost.more)
    spread = f"{more:.2f} ms ({min(cost.more):.2f} to {max(cost.more):.2f})"
    if cost.agents == 0:
        goal = "CPU per write, no call open: nothing more"
        is_met = min(cost.more) <= 0
    else:
        goal = f"CPU per write, {cost.opened} open: ≤ {BUDGET_MS} ms more"
        is_met = more <= BUDGET_MS
    return goal, cost.level, spread, _met(is_met)


def _is_large_beside_quiet(seen: Seen) -> bool:
    shells, save = seen.shells, seen.save
    is_quiet = shells.agents == 1 and shells.work in QUIET
    return is_quiet and save is not None and save.size == "large"


def _measured(found: int, of: int) -> str:
    least, most = (round(100 * one) for one in interval(found, of))
    return f"{found} of {of} ({least}–{most} %)"


def _met(is_met: bool) -> str:
    return "yes" if is_met else "**no**"


# Without other writers in a call


def _grid(found: Outcome) -> str:
    head = ["sessions", "hooks", "post-hook after", "writes"]
    head += [f"{one}: precision, recall" for one in NAMED]
    head += ["ambiguous", "unknown", "missing"]
    rows: list[Sequence[object]] = []
    for cell, tally in found.cells.items():
        shares = [_shares(tally, one) for one in NAMED]
        cells = [cell.sessions, cell.style, f"{cell.delay_ms} ms", tally.writes]
        rest = [_percent(tally.ambiguous_share), tally.unknown, tally.missing]
        rows.append([*cells, *shares, *rest])
    return _lines(head, rows)


def _beside(found: Outcome) -> str:
    head = ["how a person saves", "saves", "agent, `medium`", "ambiguous", "human"]
    head += ["unknown", "other"]
    rows: list[Sequence[object]] = []
    for pattern, tally in found.beside.items():
        timed = tally.wrong["medium"]
        other = sum(tally.wrong.values()) - timed + tally.missing
        counts = [timed, tally.ambiguous, tally.human, tally.unknown, other]
        rows.append([pattern, tally.writes, *counts])
    return _lines(head, rows)


def _outside(found: Outcome) -> str:
    head = [
        "edits outside every tool call",
        "edits",
        "attributed to an agent above the limit",
    ]
    return _lines(head, [[part, *counts] for part, counts in found.outside.items()])


def _shares(tally: Tally, confidence: str) -> str:
    precision = tally.precision(confidence)
    if precision is None:
        return "–"
    return f"{_percent(precision)}, {_percent(tally.recall(confidence))}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %".replace(".0 %", " %")


def _lines(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"
