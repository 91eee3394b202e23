"""The log as evidence about calls: their inverses, and what people found out.

Pure. The log is only ever appended to, and an inverse that it does not contain is never run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from gitshadow.errors import JournalError
from gitshadow.sdk.turns import inverse_kinds, json_values
from gitshadow.store.journal.saga_rows import SagaCall, SagaLogRow
from gitshadow.undo.report import State

RESOLVED = "resolved"
"""The kind of note with which a person settles a call."""
_WRITTEN = ("outcome", "probed")


class Resolution(NamedTuple):
    """What a person says of a call; `was` is how far the machine had come with it."""

    state: State
    note: str
    was: str


def resolutions(log: Iterable[SagaLogRow]) -> dict[str, Resolution]:
    """Return the last word of a person on each call of a turn that has one."""
    found: dict[str, Resolution] = {}
    for row in log:
        if row.kind == RESOLVED and row.call is not None:
            body = json_values.parse(row.body)
            earlier = found.get(row.call)
            # A second decision does not change how far the machine had come before the first.
            was = str(body.get("was")) if earlier is None else earlier.was
            state = State(str(body.get("as", State.REVERSED)))
            found[row.call] = Resolution(state, str(body.get("note")), was)
    return found


def altered(calls: Iterable[SagaCall], log: Iterable[SagaLogRow]) -> frozenset[str]:
    """Return the ids of calls whose inverse is not the last that the log of their turn has."""
    # A row can be changed in place, but the log is a chain of digests. An inverse runs only if
    # both have it.
    written: dict[tuple[str | None, str | None], object] = {}
    for row in log:
        if row.kind in _WRITTEN:
            written[row.turn, row.call] = json_values.parse(row.body).get("inverse")
    return frozenset(
        call.id
        for call in calls
        if call.inverse is not None
        and call.inverse != written.get((call.turn, call.id))
    )


def reaching_outside(calls: Iterable[SagaCall]) -> frozenset[str]:
    """Return the ids of calls whose inverse is a command, a request or a tool of a server."""
    return frozenset(
        call.id
        for call in calls
        if call.inverse is not None and _is_external(call.inverse)
    )


def _is_external(text: str) -> bool:
    try:
        return inverse_kinds.is_external(str(json_values.parse(text).get("handler")))
    except JournalError:
        # A text that is no inverse cannot be in the log either.
        return False


def without_inverse(
    calls: Iterable[SagaCall], altered: frozenset[str]
) -> Iterator[SagaCall]:
    """Return the calls, those that were altered without what their row holds."""
    for call in calls:
        yield replace(call, inverse=None) if call.id in altered else call
