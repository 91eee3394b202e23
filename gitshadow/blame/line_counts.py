"""Shares: how many lines are whose. Pure.

Invariant: the classes add up to all lines, and so do the reasons of the unknown ones to theirs.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.blame.classification import Credit
from gitshadow.blame.line_sets import Portion
from gitshadow.model import Actor, Event

ModelOf = Callable[[Event], str | None]
"""Return the model that an event's session named last before it."""


class CountedWriter(NamedTuple):
    """Name an agent's session and the model it used; a model of None was not named."""

    agent: str
    session: str
    model: str | None


class ClaimedAuthor(NamedTuple):
    """Name who is said to have written lines of which nothing was seen here, and by whom."""

    source: str
    agent: str | None
    model: str | None


@dataclass(slots=True)
class Shares:
    """Count the lines of portions by owner."""

    model_of: ModelOf
    lines: int = 0
    files: int = 0
    classes: Counter[Actor] = field(default_factory=Counter)
    writers: Counter[CountedWriter] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    claimed: Counter[ClaimedAuthor] = field(default_factory=Counter)

    def add(self, portion: Portion) -> None:
        """Count a portion."""
        self.files += 1
        credits = portion.owned.credits
        found = Counter(id(credits[line - 1]) for line in portion.lines)
        by_id = {id(credit): credit for credit in credits}
        for number, lines in found.items():
            self._count(by_id[number], lines)

    def _count(self, credit: Credit, lines: int) -> None:
        self.lines += lines
        self.classes[credit.actor] += lines
        if credit.actor is Actor.AGENT:
            self.writers[self._writer(credit)] += lines
        elif credit.actor is Actor.UNKNOWN:
            self.unknown[credit.reason] += lines
        if credit.claim is not None:
            claim = credit.claim
            self.claimed[ClaimedAuthor(claim.source, claim.agent, claim.model)] += lines

    def _writer(self, credit: Credit) -> CountedWriter:
        model = self.model_of(credit.event) if credit.event is not None else None
        return CountedWriter(credit.agent or "agent", credit.session or "", model)
