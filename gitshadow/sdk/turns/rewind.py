"""The moments of a session to which an undo or a reader returns.

A rewind adds one event, a marker: its delta restores the state, its range is what it hides. Nothing
is deleted, and the cost is that of what changed since. Outside effects are undone only on request;
otherwise the report names them. A fork begins with the history of a session before an invocation:
state, artifacts and conversation are copied into the event that begins it, so none of that can be
undone there; effects and files remain the first session's, which is only read, not even locked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from gitshadow.errors import UsageError
from gitshadow.model import Oid
from gitshadow.sdk.turns import events, json_values
from gitshadow.sdk.turns.errors import (
    InvocationNotFound,
    NothingToUndo,
    SessionNotFound,
)
from gitshadow.sdk.turns.protocols import HistoryStore, SessionStore
from gitshadow.sdk.turns.state_rollback import values
from gitshadow.store.journal.saga_rows import (
    MARKER,
    NewEvent,
    SagaEntry,
    SessionEvent,
)

CREATED = "created"
"""The invocation of a session's initial values: nothing returns to before it."""

_OF_A_TURN = frozenset({"created", "turn", "state", "artifact", MARKER})
"""Kinds of events that are no part of a conversation."""


def find(store: HistoryStore, session: str, before: str) -> int:
    """Return the first event of an invocation, before which something returns.

    Raises:
        SessionNotFound: the session has no history.
        InvocationNotFound: it has no such invocation.
    """
    if store.last_seq(session) < 0:
        raise SessionNotFound(f"cannot find session {session}")
    first = store.first_of(session, before)
    # Event 0 is the creation of the session, and there is nothing before it.
    if not first:
        raise InvocationNotFound(f"cannot find invocation {before} in {session}")
    return first


def last_live(store: SessionStore, session: str) -> str:
    """Return the newest invocation that is in the conversation.

    Raises:
        NothingToUndo: there is none.
    """
    out = events.hidden(store.markers(session))
    for event in reversed(store.events(session)):
        if event.invocation != CREATED and events.is_live(event.seq, out):
            return event.invocation
    raise NothingToUndo(f"cannot undo in {session}: nothing is left to undo")


def artifacts_before(store: SessionStore, session: str, seq: int) -> dict[str, Oid]:
    """Return the content of each artifact before an event; absent ones are left out."""
    found = {**store.artifacts(session), **store.artifact_delta(session, seq)}
    return {
        name: version.oid
        for name, version in found.items()
        if version is not None and version.oid is not None
    }


class Difference(NamedTuple):
    """The changes between two moments: each value, or number of a version, before and after."""

    state: Mapping[str, tuple[object, object]]
    artifacts: Mapping[str, tuple[int | None, int | None]]


def difference(
    store: SessionStore, session: str, first: str, second: str | None
) -> Difference:
    """Return what differs from before one invocation to before another (None: to now).

    Raises:
        SessionNotFound, InvocationNotFound: there is none.
    """
    ends = [find(store, session, first), store.last_seq(session) + 1]
    if second is not None:
        ends[1] = find(store, session, second)
    old, new = (values(store.state_before(session, seq)) for seq in ends)
    were, are = (artifacts_before(store, session, seq) for seq in ends)
    names = sorted(were.keys() | are.keys())
    return Difference(
        {
            key: (old.get(key), new.get(key))
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        },
        {
            name: (
                _first(store, session, name, were.get(name)),
                _first(store, session, name, are.get(name)),
            )
            for name in names
            if were.get(name) != are.get(name)
        },
    )


def _first(store: SessionStore, session: str, name: str, oid: Oid | None) -> int | None:
    """Return the first version with a content: a restored one is that version again."""
    found = store.versions(session, name)
    return next(
        (one.number for one in found if oid is not None and one.oid == oid), None
    )


def plant(
    store: SessionStore, source: str, before: str, session: str, now_ns: int
) -> None:
    """Begin a session with what another one was before an invocation; under the new one's lock.

    Raises:
        SessionNotFound, InvocationNotFound: there is nothing to begin with.
        UsageError: the new session has a history already.
        StoreError: an artifact's bytes are gone; nothing was begun.
    """
    first = find(store, source, before)
    if store.last_seq(session) >= 0:
        raise UsageError(f"cannot fork {source}: session {session} exists")
    # All bytes are read before any is written, so that a missing one leaves no half session.
    oids = artifacts_before(store, source, first)
    bytes_of = {name: store.read(oid) for name, oid in oids.items()}
    kept = {
        name: store.keep(session, name, 0, data, now_ns)
        for name, data in bytes_of.items()
    }
    told = json_values.canonical({"forked_from": source, "before": before})
    begun = replace(
        events.creation(session, {}, now_ns),
        body=told,
        delta=store.state_before(source, first),
        artifacts=kept,
    )
    note = SagaEntry(
        session=session,
        turn=None,
        call=None,
        kind="forked",
        ts_ns=now_ns,
        body=told,
    )
    store.save([begun, *_conversation(store, source, first, begun), note])


def _conversation(
    store: SessionStore, source: str, first: int, begun: NewEvent
) -> Iterator[NewEvent]:
    """Yield copies of what was said and counted before an event."""
    markers = [one for one in store.markers(source) if one.seq < first]
    earlier = [one for one in store.events(source) if one.seq < first]
    for event in events.live(earlier, markers):
        if event.kind not in _OF_A_TURN:
            yield _copy(event, begun)


def _copy(event: SessionEvent, begun: NewEvent) -> NewEvent:
    return NewEvent(
        session=begun.session,
        invocation=begun.invocation,
        author=event.author,
        kind=event.kind,
        ts_ns=event.ts_ns,
        text=event.text,
        body=event.body,
    )
