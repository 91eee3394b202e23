"""Which events a target stands for, as ids, so that a row can be asked whether it belongs.

Invariant: pure; what Git switched and what coverage moved belongs to no unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gitshadow.model import Actor, Confidence, Event, EventKind

_UNDOABLE = frozenset(
    {
        EventKind.CREATE,
        EventKind.MODIFY,
        EventKind.DELETE,
        EventKind.RENAME,
        EventKind.MODE,
        EventKind.TYPE,
        EventKind.RESTORE,
    }
)

_SURE = frozenset({Confidence.CERTAIN, Confidence.HIGH, Confidence.MEDIUM})


def is_undoable(event: Event) -> bool:
    """Tell a change of a path by somebody from rows that no undo takes back."""
    return event.kind in _UNDOABLE and event.path is not None and not event.switched


def is_agents(event: Event) -> bool:
    """Tell whether an agent wrote it, for all that is known: at `medium` or better."""
    who = event.attribution
    return who is not None and who.actor is Actor.AGENT and who.confidence in _SURE


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Hold ids; an event belongs when any of them is its own.

    `turns` and `calls` are (session, id) pairs.
    """

    bursts: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    turns: frozenset[tuple[str, str]] = frozenset()
    calls: frozenset[tuple[str, str]] = frozenset()
    ops: frozenset[str] = frozenset()
    seqs: frozenset[int] = frozenset()

    def holds(self, event: Event) -> bool:
        """Tell whether an event belongs to the unit."""
        if not is_undoable(event):
            return False
        if event.seq in self.seqs or event.burst in self.bursts:
            return True
        if event.op is not None:
            return event.op in self.ops
        who = event.attribution
        return who is not None and (
            who.session in self.sessions
            or (who.session, who.turn) in self.turns
            or (who.session, who.call) in self.calls
        )

    def __or__(self, other: "Unit") -> "Unit":
        return Unit(
            bursts=self.bursts | other.bursts,
            sessions=self.sessions | other.sessions,
            turns=self.turns | other.turns,
            calls=self.calls | other.calls,
            ops=self.ops | other.ops,
            seqs=self.seqs | other.seqs,
        )


Undoings = Mapping[str, Unit]
"""What each recorded op took back, by op id."""
