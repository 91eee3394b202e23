"""The undo of one call alone: what it needs undone first, and what may be built on it.

Invariant: nothing else than the call is taken back; what that may harm is said, and what its
inverse waits for keeps it from running.
"""

from collections.abc import Sequence
from dataclasses import replace

from gitshadow.errors import UsageError
from gitshadow.sdk.turns import json_values, reversibility, undo_request
from gitshadow.sdk.turns.protocols import SessionStore
from gitshadow.sdk.turns.undo_request import UndoRequest
from gitshadow.sdk.turns.values import Reversibility
from gitshadow.store.journal.saga_rows import SagaCall, SagaOp

_SHOWN = 5


def narrowed(op: SagaOp, store: SessionStore, request: UndoRequest) -> SagaOp:
    """Return the undo of the call that an op names, with what there is to say of the others.

    Raises:
        UsageError: no turn has such a call, or several have.
    """
    found = [
        call
        for turn in store.turns(op.session)
        for call in store.calls(op.session, turn.id)
        if call.id == op.target
    ]
    if not found:
        raise UsageError(f"cannot find turn {op.target} in session {op.session}")
    if len(found) > 1:
        turns = ", ".join(call.turn for call in found)
        raise UsageError(
            f"ambiguous call {op.target}: {turns} have one",
            hint="undo it by its turn, with only=",
        )
    (call,) = found
    meant = replace(request, only=frozenset({call.id}))
    why = _later(call, store.calls(op.session, call.turn))
    return replace(op, request=undo_request.to_text(meant, turn=call.turn, why=why))


def is_one_call(op: SagaOp) -> bool:
    """Tell whether an op is about one call."""
    return json_values.parse(op.request).get("turn") is not None


def turn_and_savepoint(op: SagaOp) -> tuple[str, str]:
    """Return the turn that an op is about, and the name of its savepoint, if it is of one."""
    turn = json_values.parse(op.request).get("turn")
    if turn is not None:
        return str(turn), ""
    name, _, savepoint = op.target.partition(":")
    return name, savepoint


def with_needed(calls: Sequence[SagaCall], name: str) -> list[SagaCall]:
    """Return a call, and those whose inverses its own has to wait for."""
    by_id = {call.id: call for call in calls}
    wanted, found = [name], dict.fromkeys([name])
    while wanted:
        for one in reversibility.needed(by_id[wanted.pop()]):
            if one in by_id and one not in found:
                found[one] = None
                wanted.append(one)
    return [call for call in calls if call.id in found]


def _later(call: SagaCall, calls: Sequence[SagaCall]) -> str | None:
    """Warn of what came later in the same turn and stands."""
    later = [
        f"{one.id} ({one.tool})"
        for one in reversibility.mutating(calls)
        if one.ordinal > call.ordinal
        and one.klass != Reversibility.READ_ONLY
        and one.undo not in ("done", "skipped", "resolved")
    ]
    if not later:
        return None
    more = f" and {len(later) - _SHOWN} more" if len(later) > _SHOWN else ""
    named = ", ".join(later[:_SHOWN])
    return f"only this call was undone; later calls were kept and may depend on it: {named}{more}"
