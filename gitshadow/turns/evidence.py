"""Is an inverse the one that was written down? The log, which is only added to, against the row.

Invariant: pure; a row that the log does not bear out is never run, be it a function of the program.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gitshadow.errors import JournalError
from gitshadow.store.journal.saga_rows import Noted, SagaCall
from gitshadow.turns import external, records

_WRITTEN = ("outcome", "probed")


def altered(calls: Iterable[SagaCall], log: Iterable[Noted]) -> frozenset[str]:
    """Return the ids of calls whose inverse is not the last that the log of their turn has."""
    written: dict[tuple[str | None, str | None], object] = {}
    for row in log:
        if row.kind in _WRITTEN:
            written[row.turn, row.call] = records.parse(row.body).get("inverse")
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
        return external.is_external(str(records.parse(text).get("handler")))
    except JournalError:
        return False  # no inverse at all: it is not what the log has


def without_inverse(
    calls: Iterable[SagaCall], altered: frozenset[str]
) -> Iterator[SagaCall]:
    """Return the calls, those that were altered without what their row holds."""
    for call in calls:
        yield replace(call, inverse=None) if call.id in altered else call
