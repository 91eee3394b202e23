"""Comparing what the journal says of writes with who really made them.

A write is known by its content, which is its own, so nothing rests on times: where the journal
has a row with that content at that path, its attribution is right, wrong, or none.
Invariant: pure. What is not found counts as missing, never as right.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

PERSON = "person"
NAMED = ("certain", "high", "medium", "low")
"""Confidences at which somebody is named, surest first."""

_SPREAD = 1.96
"""Standard deviations on each side of 95 % of a normal distribution."""

_RANK = {name: rank for rank, name in enumerate(reversed(NAMED), start=1)}


@dataclass(frozen=True, slots=True)
class Wrote:
    """Hold one write as its writer tells it; `oid` is empty for a deletion."""

    writer: str
    path: str
    oid: str


@dataclass(frozen=True, slots=True)
class Said:
    """Hold what one row of the journal says; `session` is the agent's own id of it."""

    path: str
    oid: str
    actor: str
    session: str | None
    confidence: str
    candidates: tuple[str, ...] = ()
    reason: str = ""


class Verdict(StrEnum):
    """How one write was recorded; the wrong ones name somebody who did not write it.

    `DOUBTED` is shown as `you?`; `TIMED` is marked as by timing, and undone with the agent's turn.
    """

    RIGHT = "right"
    GAP = "gap"
    DOUBTED = "wrong at low"
    TIMED = "wrong at medium"
    WRONG = "wrong at high or certain"
    MISSING = "missing"


@dataclass(slots=True)
class Tally:
    """Count how the writes of one cell came out."""

    writes: int = 0
    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    ambiguous: int = 0
    misled: int = 0
    human: int = 0
    unknown: int = 0
    missing: int = 0

    def add(self, other: "Tally") -> None:
        """Add another tally to this one."""
        self.writes += other.writes
        self.right += other.right
        self.wrong += other.wrong
        self.ambiguous += other.ambiguous
        self.misled += other.misled
        self.human += other.human
        self.unknown += other.unknown
        self.missing += other.missing

    def precision(self, confidence: str) -> float | None:
        """Return the share of claims at a confidence that are right; None without claims."""
        claims = self.right[confidence] + self.wrong[confidence]
        return self.right[confidence] / claims if claims else None

    def recall(self, confidence: str) -> float:
        """Return the share of all writes that are rightly claimed at a confidence."""
        return self.right[confidence] / self.writes if self.writes else 0.0

    @property
    def ambiguous_share(self) -> float:
        """Return the share of all writes that are called ambiguous."""
        return self.ambiguous / self.writes if self.writes else 0.0


def score(truth: Iterable[Wrote], rows: Iterable[Said]) -> Tally:
    """Count how each write came out.

    `misled` counts the ambiguous ones that do not list the writer among the candidates.
    """
    by_write = {(row.path, row.oid): row for row in rows}
    tally = Tally()
    for wrote in truth:
        tally.writes += 1
        row = by_write.get((wrote.path, wrote.oid))
        if row is None:
            tally.missing += 1
        elif row.confidence == "ambiguous":
            tally.ambiguous += 1
            tally.misled += wrote.writer not in (*row.candidates, PERSON)
        elif row.actor == "agent":
            counts = tally.right if row.session == wrote.writer else tally.wrong
            counts[row.confidence] += 1
        elif row.actor == "human":
            tally.human += 1
            if wrote.writer != PERSON:
                tally.wrong[row.confidence] += 1
        else:
            tally.unknown += 1
    return tally


def judge(wrote: Wrote, rows: Sequence[Said]) -> tuple[Verdict, str]:
    """Return how one write was recorded, with the reason that its row has.

    A person's write is right if its author is unknown (`you?`) or a person, an agent's if it is of
    that session. Files whose names begin with its own are parts of the same write: a wrong author
    of one is a wrong author.
    """
    verdict, reason = Verdict.MISSING, "no row"
    for row in rows:
        if not row.path.startswith(wrote.path):
            continue
        found = _verdict(wrote.writer, row)
        if found is Verdict.WRONG:
            return found, f"{row.confidence}, {row.reason}"
        if (row.path, row.oid) == (wrote.path, wrote.oid):
            verdict, reason = found, f"{row.confidence}, {row.reason}"
    return verdict, reason


def _verdict(writer: str, row: Said) -> Verdict:
    if row.confidence == "ambiguous":
        return Verdict.GAP
    is_persons = row.actor != "agent"
    if writer == (PERSON if is_persons else row.session):
        return Verdict.RIGHT
    if row.actor == "unknown":
        return Verdict.GAP
    return _WRONG.get(row.confidence, Verdict.WRONG)


_WRONG = {"low": Verdict.DOUBTED, "medium": Verdict.TIMED}


def interval(found: int, of: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for the share that was found `found` times of `of`."""
    if of == 0:
        return 0.0, 1.0
    share, square = found / of, _SPREAD**2
    middle = share + square / (2 * of)
    spread = _SPREAD * math.sqrt(share * (1 - share) / of + square / (4 * of**2))
    scale = 1 + square / of
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def failures(name: str, tally: Tally, required: Sequence[str]) -> list[str]:
    """Say which required precision is missed, and what is not in the journal at all."""
    found = [
        f"{name}: {tally.wrong[one]} of {tally.right[one] + tally.wrong[one]} claims"
        f" at {one} name the wrong writer"
        for one in required
        if tally.wrong[one]
    ]
    if tally.misled:
        found.append(f"{name}: {tally.misled} candidate lists lack the writer")
    if tally.missing:
        found.append(f"{name}: {tally.missing} of {tally.writes} writes have no row")
    return found


def violations(
    truth: Iterable[Wrote], rows: Iterable[Said], limit: Mapping[str, str | None]
) -> list[str]:
    """Return the writes outside every window that an agent got above what is allowed.

    Args:
        truth: The writes.
        rows: What the journal says.
        limit: The highest confidence at which an agent may be named, for each path; None where
            it may not at all.
    """
    by_write = {(row.path, row.oid): row for row in rows}
    found = []
    for wrote in truth:
        row = by_write.get((wrote.path, wrote.oid))
        if row is None:
            found.append(f"{wrote.path}: no row")
            continue
        allowed = _RANK.get(limit[wrote.path] or "", 0)
        if row.actor == "agent" and _RANK.get(row.confidence, 0) > allowed:
            found.append(f"{wrote.path}: {row.confidence} for {row.session}")
    return found
