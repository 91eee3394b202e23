"""What a run of the accuracy benchmark found, and the tables that show it.

Invariant: nothing is measured here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.scoring import NAMED, Tally


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
    failed: list[str] = field(default_factory=list)


def table(found: Outcome) -> str:
    """Return the tables as Markdown."""
    return "\n".join((_grid(found), _beside(found), _outside(found)))


def _grid(found: Outcome) -> str:
    head = ["sessions", "hooks", "post-hook after", "writes"]
    head += [f"{one}: precision, recall" for one in NAMED]
    head += ["ambiguous", "unknown", "missing"]
    lines = [_row(head), _row(["---"] * len(head))]
    for cell, tally in found.cells.items():
        shares = [_shares(tally, one) for one in NAMED]
        cells = [cell.sessions, cell.style, f"{cell.delay_ms} ms", tally.writes]
        rest = [_percent(tally.ambiguous_share), tally.unknown, tally.missing]
        lines.append(_row([*cells, *shares, *rest]))
    return "\n".join(lines) + "\n"


def _beside(found: Outcome) -> str:
    head = ["how a person saves", "saves", "agent, `high`", "ambiguous", "human"]
    head += ["unknown", "other"]
    lines = [_row(head), _row(["---"] * len(head))]
    for pattern, tally in found.beside.items():
        high = tally.wrong["high"]
        other = sum(tally.wrong.values()) - high + tally.missing
        counts = [high, tally.ambiguous, tally.human, tally.unknown, other]
        lines.append(_row([pattern, tally.writes, *counts]))
    return "\n".join(lines) + "\n"


def _outside(found: Outcome) -> str:
    head = [
        "edits outside every tool call",
        "edits",
        "attributed to an agent above the limit",
    ]
    lines = [_row(head), _row(["---"] * len(head))]
    lines += [_row([part, *counts]) for part, counts in found.outside.items()]
    return "\n".join(lines) + "\n"


def _shares(tally: Tally, confidence: str) -> str:
    precision = tally.precision(confidence)
    if precision is None:
        return "–"
    return f"{_percent(precision)}, {_percent(tally.recall(confidence))}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %".replace(".0 %", " %")


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"
