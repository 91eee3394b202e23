"""The end of a turn: its own check, the question after a point of no return, the held calls.

Only True lets a turn commit; no answer is a no.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from gitshadow.sdk.turns import authorization, json_values, outbox
from gitshadow.sdk.turns.call_records import arguments_of
from gitshadow.sdk.turns.commands import Invoke, Procedure, Raised, Returned, ask, now
from gitshadow.sdk.turns.errors import TurnCancelled, ValidationFailed
from gitshadow.sdk.turns.policy import Proposal
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.turn_states import TurnStatus
from gitshadow.sdk.turns.values import Reversibility

Check: TypeAlias = Callable[[], bool | Awaitable[bool]]
"""Whether a turn may commit, asked after its last call; only True commits it."""


def validated(turn: TurnCore, check: Check | None) -> Procedure[None]:
    """Ask a turn's own check, if it has one and nothing has ended the turn.

    Raises:
        ValidationFailed: it returned something else than True, or raised.
        TurnCancelled, LimitExceeded: before that, the turn was cancelled, or its time ran out.
    """
    if check is None or turn.cancelled:
        return
    event = yield from ask(Invoke(check))
    if isinstance(event, Raised):
        said = f"its check raised {json_values.in_words(event.error)}"
        raise ValidationFailed(f"cannot keep {turn.row.id}: {said}") from event.error
    # A check that forgets to return a value must not commit the turn.
    if not isinstance(event, Returned) or event.value is not True:
        got = repr(event.value) if isinstance(event, Returned) else "nothing"
        raise ValidationFailed(
            f"cannot keep {turn.row.id}: its check returned {got}, not True"
        )
    # The check itself may have taken the turn over its time limit.
    turn.check((yield from now()))


def finish(turn: TurnCore, error: BaseException | None) -> Procedure[None]:
    """End a turn (`TurnCore.finish`), then send what is due if it has committed.

    One that failed after a point of no return undoes what came before it only if somebody who
    can be asked says so; nobody is asked about a turn that was cancelled.
    """
    if isinstance(error, Exception) and not isinstance(error, TurnCancelled):
        yield from _ask_past_pivot(turn, error)
    yield from turn.finish(error)
    if turn.status is TurnStatus.COMMITTED:
        turn.released = yield from outbox.release(turn.setting, turn)


def _ask_past_pivot(turn: TurnCore, error: Exception) -> Procedure[None]:
    if turn.status is not TurnStatus.OPEN:
        return
    yield from turn.ask_pivots()
    pivot = turn.pivot_of(None)
    if pivot is None:
        return
    question = (
        f"{turn.row.id} failed ({type(error).__name__}) after {pivot.tool} {pivot.id},"
        " a point of no return: also undo everything up to it?"
    )
    tool = turn.setting.registry.find(pivot.tool)
    turn.past_pivot = yield from authorization.consents(
        turn,
        Proposal(
            pivot.id,
            pivot.tool,
            arguments_of(pivot),
            tool.effective if tool is not None else Reversibility.NON_REVERSIBLE,
            question,
        ),
    )


def may_retry(error: ValidationFailed, left: int) -> bool:
    """Return whether a turn may be run once more: only from the state that it began with."""
    report = error.undo_report
    return left > 0 and report is not None and report.ok
