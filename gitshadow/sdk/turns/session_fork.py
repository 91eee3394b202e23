"""A second session that begins where the first one was before an invocation.

State, artifacts and conversation are copied as what the new session was made with: nothing of it
can be undone there, and effects and files of the first session are the first one's alone.
Invariant: of the first session everything is read and nothing is written, not even its lock.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gitshadow.errors import UsageError
from gitshadow.model import Oid
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
    bytes_of = {
        name: store.read(oid) for name, oid in _artifacts(store, source, first).items()
    }
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


def _artifacts(store: SessionStore, source: str, first: int) -> Mapping[str, Oid]:
    """Return what each artifact held before an event."""
    found = {**store.artifacts(source), **store.artifact_delta(source, first)}
    return {
        name: version.oid
        for name, version in found.items()
        if version is not None and version.oid is not None
    }


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
