"""A second session that begins with the history of the first one before an invocation.

State, artifacts and conversation are copied into the event that begins the new session, so none of
it can be undone there; effects and files remain the first session's. The first session is only
read, not even locked.
"""

from collections.abc import Iterator
from dataclasses import replace

from gitshadow.errors import UsageError
from gitshadow.sdk.turns import events, json_values, rewind
from gitshadow.sdk.turns.protocols import SessionStore
from gitshadow.sdk.turns.turn import creation
from gitshadow.store.journal.saga_rows import MARKER, NewEvent, SagaEntry, SessionEvent

_OF_A_TURN = frozenset({"created", "turn", "state", "artifact", MARKER})
"""Kinds of events that are no part of a conversation."""


def plant(
    store: SessionStore, source: str, before: str, session: str, now_ns: int
) -> None:
    """Begin a session with what another one was before an invocation; under the new one's lock.

    Raises:
        SessionNotFound, InvocationNotFound: there is nothing to begin with.
        UsageError: the new session has a history already.
        StoreError: an artifact's bytes are gone; nothing was begun.
    """
    first = rewind.find(store, source, before).first
    if store.last_seq(session) >= 0:
        raise UsageError(f"cannot fork {source}: session {session} exists")
    # All bytes are read before any is written, so that a missing one leaves no half session.
    oids = rewind.artifacts_before(store, source, first)
    bytes_of = {name: store.read(oid) for name, oid in oids.items()}
    kept = {
        name: store.keep(session, name, 0, data, now_ns)
        for name, data in bytes_of.items()
    }
    told = {"forked_from": source, "before": before}
    begun = replace(
        creation(session, {}, now_ns),
        body=json_values.canonical(told),
        delta=store.state_before(source, first),
        artifacts=kept,
    )
    note = SagaEntry(
        session=session,
        turn=None,
        call=None,
        kind="forked",
        ts_ns=now_ns,
        body=json_values.canonical(told),
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
