"""Temporary files of a unit: where a tool writes one and renames it, that is one write.

The hook of a call names the file that it is to become, so what made the temporary may be nobody's.
Invariant: only what came in the call's own window, and of which nobody else is known to be the
author, is taken for the call's.
"""

from collections.abc import Iterable, Sequence

from gitshadow.model import Actor, Confidence, Event
from gitshadow.store.journal import events, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.undo.lineage import trace

_TOLERANCE_NS = 10_000_000
_UNSURE = (Confidence.LOW, Confidence.AMBIGUOUS, Confidence.UNKNOWN)


def begun(db: Db, worktree: str, taken: Iterable[Event]) -> list[Event]:
    """Return the unclaimed writes of files that calls of a unit then renamed."""
    found: list[Event] = []
    for event in taken:
        who = event.attribution
        if event.old_path is None or who is None or who.call is None:
            continue
        call = turns.get_call(db, who.session, who.call)
        if call is None:
            continue
        wanted = EventFilter(
            worktree=worktree,
            paths=(event.old_path,),
            before_seq=event.seq,
            since_ns=call.opened_ns - _TOLERANCE_NS,
        )
        found += _from_creation(events.rows(db, wanted), event)
    return found


def lasting(rows: Sequence[Event]) -> list[Event]:
    """Leave out the writes of files that came and went: nobody needs to choose about them."""
    return sorted(
        (
            event
            for lineage in trace(rows)
            for event in lineage.events
            if lineage.events[0].before is not None
            or lineage.events[-1].after is not None
        ),
        key=lambda event: event.seq,
    )


def _from_creation(newest_first: Sequence[Event], renamed: Event) -> list[Event]:
    """Return the writes of a file from its creation to its rename; none if one is another's."""
    found: list[Event] = []
    for row in newest_first:
        if row.path != renamed.old_path or not _may_be(row, renamed):
            return []
        found.append(row)
        if row.before is None:
            return found
    return []


def _may_be(row: Event, renamed: Event) -> bool:
    """Tell whether nobody else is known to have made a write than who renamed the file."""
    who, whose = row.attribution, renamed.attribution
    if who is None or whose is None or row.switched or row.op is not None:
        return False
    if who.actor is Actor.AGENT and who.session != whose.session:
        return False
    return who.actor is not Actor.HUMAN and who.confidence in _UNSURE
