"""The log as evidence about calls: their inverses, and what people found out.

Pure. The log is only ever appended to, and an inverse that it does not contain is never run. A row
that cannot be read is evidence of nothing, and no other call depends on it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from gitshadow.errors import JournalError
from gitshadow.sdk.turns import inverse_kinds, json_values
from gitshadow.sdk.turns.values import JsonObject
from gitshadow.store.journal.saga_rows import (
    SagaCall,
    SagaEntry,
    SagaLogRow,
    SagaOp,
    SagaTurn,
    logged,
)
from gitshadow.undo.report import State

RESOLVED = "resolved"
"""The kind of note with which a person settles a call."""
UNLOGGED = "the log does not match the inverse that the journal has for it"
_WRITTEN = ("outcome", "probed")


class Resolution(NamedTuple):
    """What a person says of a call; `was` is how far the machine had come with it."""

    state: State
    note: str
    was: str


def note(
    of: SagaTurn | SagaCall | SagaOp, kind: str, body: JsonObject, ts_ns: int
) -> SagaEntry:
    """Return a row for the log about a turn, a call or an undo."""
    turn = of.id if isinstance(of, SagaTurn) else None
    return SagaEntry(
        session=of.session,
        turn=of.turn if isinstance(of, SagaCall) else turn,
        call=of.id if isinstance(of, SagaCall) else None,
        kind=kind,
        ts_ns=ts_ns,
        body=json_values.lenient(body),
    )


def resolutions(log: Iterable[SagaLogRow]) -> dict[str, Resolution]:
    """Return the last word of a person on each call of a turn that has one."""
    found: dict[str, Resolution] = {}
    for row in log:
        if row.kind == RESOLVED and row.call is not None:
            body = json_values.readable(row.body)
            if not body:
                continue
            earlier = found.get(row.call)
            # A second decision does not change how far the machine had come before the first.
            was = str(body.get("was")) if earlier is None else earlier.was
            state = State(str(body.get("as", State.REVERSED)))
            found[row.call] = Resolution(state, str(body.get("note")), was)
    return found


def unreadable(call: SagaCall) -> str | None:
    """Return why nothing can be done with a call's row, or None."""
    try:
        json_values.intent(call.intent)
        if call.inverse is not None:
            json_values.stored_inverse(call.inverse)
    except JournalError as error:
        return f"its row in the journal is damaged: {error}"
    return None


def altered(calls: Iterable[SagaCall], log: Iterable[SagaLogRow]) -> Mapping[str, str]:
    """Return the calls that cannot be undone by what their row holds, by id, with the reason.

    It cannot be read, or its inverse is not the last that the log of their turn has.
    """
    # A row can be changed in place, but the log is a chain of digests. An inverse runs only if
    # both have it.
    written: dict[tuple[str | None, str | None], object] = {}
    for row in log:
        if row.kind in _WRITTEN:
            body = json_values.readable(row.body)
            written[row.turn, row.call] = body.get("inverse")
    found: dict[str, str] = {}
    for call in calls:
        why = unreadable(call)
        if why is None and call.inverse is not None:
            is_logged = logged(call.inverse) == written.get((call.turn, call.id))
            why = None if is_logged else UNLOGGED
        if why is not None:
            found[call.id] = why
    return found


def reaching_outside(calls: Iterable[SagaCall]) -> frozenset[str]:
    """Return the ids of calls whose inverse is a command, a request or a tool of a server."""
    inverses = ((call.id, json_values.readable(call.inverse)) for call in calls)
    return frozenset(
        call_id
        for call_id, inverse in inverses
        if inverse_kinds.is_external(str(inverse.get("handler")))
    )


def without_inverse(
    calls: Iterable[SagaCall], altered: Mapping[str, str]
) -> Iterator[SagaCall]:
    """Return the calls, those that were altered without what their row holds."""
    for call in calls:
        if call.id not in altered:
            yield call
        elif unreadable(call) is None:
            yield replace(call, inverse=None)
        else:
            yield replace(call, inverse=None, intent="{}")
