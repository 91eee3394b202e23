"""The end of a turn: its own check, and whether a turn that did not pass it is tried again.

Invariant: no answer is a no: only True lets a turn commit.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from gitshadow.turns.errors import ValidationFailed
from gitshadow.turns.policy import Policy
from gitshadow.turns.steps import Invoke, Procedure, Raised, Returned, ask, now
from gitshadow.turns.turn import TurnCore

Check: TypeAlias = Callable[[], bool | Awaitable[bool]]
"""Say whether a turn may stand, after its last call; True commits it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Hold what one turn is run under: its own policy (None: the session's), its own check."""

    policy: Policy | None = None
    validate: Check | None = None


def validated(turn: TurnCore, check: Check | None) -> Procedure[None]:
    """Ask a turn's own check, if it has one and nothing has ended the turn.

    Raises:
        ValidationFailed: it returned something else than True, or raised.
        TurnCancelled, LimitExceeded: meanwhile the turn was cancelled, or its time ran out.
    """
    if check is None or turn.cancelled:
        return
    event = yield from ask(Invoke(check))
    if isinstance(event, Raised):
        said = f"its check raised {type(event.error).__name__}: {event.error}"
        raise ValidationFailed(f"could not keep {turn.row.id}: {said}") from event.error
    if not isinstance(event, Returned) or event.value is not True:
        got = repr(event.value) if isinstance(event, Returned) else "nothing"
        raise ValidationFailed(
            f"could not keep {turn.row.id}: its check returned {got}, not True"
        )
    turn.check((yield from now()))


def may_retry(error: ValidationFailed, left: int) -> bool:
    """Tell whether a turn may be run once more: only from the state that it began with."""
    report = error.undo_report
    return left > 0 and report is not None and report.ok
