"""The states of a turn and the ways between them.

Invariant: a turn ends once; nothing leads out of an end but `resume`, which goes on with a
rollback that did not get through.
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


class TurnEvent(StrEnum):
    """An event that changes the status of a turn."""

    COMMIT = "commit"
    FAIL = "fail"
    UNWOUND = "unwound"
    STUCK = "stuck"
    LOST = "lost"
    RESUME = "resume"


_WAYS: Mapping[tuple[TurnStatus, TurnEvent], TurnStatus] = {
    (TurnStatus.OPEN, TurnEvent.COMMIT): TurnStatus.COMMITTED,
    (TurnStatus.OPEN, TurnEvent.FAIL): TurnStatus.ROLLING_BACK,
    (TurnStatus.OPEN, TurnEvent.LOST): TurnStatus.INTERRUPTED,
    (TurnStatus.ROLLING_BACK, TurnEvent.UNWOUND): TurnStatus.ROLLED_BACK,
    (TurnStatus.ROLLING_BACK, TurnEvent.STUCK): TurnStatus.PARTIALLY_ROLLED_BACK,
    (TurnStatus.PARTIALLY_ROLLED_BACK, TurnEvent.RESUME): TurnStatus.ROLLING_BACK,
}


def advance(status: TurnStatus, event: TurnEvent) -> TurnStatus:
    """Return the state after an event.

    Raises:
        TurnClosed: no way leads on from here.
    """
    after = _WAYS.get((status, event))
    if after is None:
        raise TurnClosed(f"could not {event} a turn that is {status}")
    return after
