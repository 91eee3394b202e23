"""The states of a turn and the ways between them.

Invariant: a turn ends once; nothing leads out of an end but an undo of all of it, the redo of that,
and the rest of a rollback.
"""

from collections.abc import Mapping
from enum import StrEnum

from gitshadow.sdk.turns.errors import TurnClosed


class TurnStatus(StrEnum):
    """The status of a turn."""

    OPEN = "open"
    COMMITTED = "committed"
    ROLLING_BACK = "rolling_back"
    ROLLED_BACK = "rolled_back"
    PARTIALLY_ROLLED_BACK = "partially_rolled_back"
    INTERRUPTED = "interrupted"
    UNDONE = "undone"


class TurnEvent(StrEnum):
    """An event that changes the status of a turn."""

    COMMIT = "commit"
    FAIL = "fail"
    UNWOUND = "unwound"
    STUCK = "stuck"
    LOST = "lost"
    UNDO = "undo"
    REDO = "redo"


_WAYS: Mapping[tuple[TurnStatus, TurnEvent], TurnStatus] = {
    (TurnStatus.OPEN, TurnEvent.COMMIT): TurnStatus.COMMITTED,
    (TurnStatus.OPEN, TurnEvent.FAIL): TurnStatus.ROLLING_BACK,
    (TurnStatus.OPEN, TurnEvent.LOST): TurnStatus.INTERRUPTED,
    (TurnStatus.ROLLING_BACK, TurnEvent.UNWOUND): TurnStatus.ROLLED_BACK,
    (TurnStatus.ROLLING_BACK, TurnEvent.STUCK): TurnStatus.PARTIALLY_ROLLED_BACK,
    (TurnStatus.PARTIALLY_ROLLED_BACK, TurnEvent.UNWOUND): TurnStatus.ROLLED_BACK,
    (TurnStatus.PARTIALLY_ROLLED_BACK, TurnEvent.UNDO): TurnStatus.ROLLED_BACK,
    (TurnStatus.COMMITTED, TurnEvent.UNDO): TurnStatus.UNDONE,
    (TurnStatus.INTERRUPTED, TurnEvent.UNDO): TurnStatus.UNDONE,
    (TurnStatus.UNDONE, TurnEvent.REDO): TurnStatus.COMMITTED,
}


def way(status: TurnStatus, event: TurnEvent) -> TurnStatus | None:
    """Return the state after an event, None where the event changes nothing."""
    return _WAYS.get((status, event))


def advance(status: TurnStatus, event: TurnEvent) -> TurnStatus:
    """Return the state after an event.

    Raises:
        TurnClosed: no way leads on from here.
    """
    after = way(status, event)
    if after is None:
        raise TurnClosed(f"could not {event} a turn that is {status}")
    return after
