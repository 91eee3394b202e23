"""Going back: the state as it was before an invocation, what followed hidden, nothing deleted.

A rewind adds one event, a marker: its delta restores the state, its range says what is out.
Invariant: its cost is that of what changed since the target; outside effects are undone only when
asked for, and named otherwise.
"""

from dataclasses import dataclass

from gitshadow.sdk.turns import events
from gitshadow.sdk.turns.errors import (
    InvocationNotFound,
    NothingToUndo,
    SessionNotFound,
)
from gitshadow.sdk.turns.protocols import SessionStore
from gitshadow.sdk.turns.state_rollback import OTHER_SCOPES, Changes

CREATED = "created"
"""The invocation of what a session was made with: nothing goes back before it."""


@dataclass(frozen=True, slots=True)
class RewindTarget:
    """Hold what a rewind goes back to, read before anything is changed.

    `first` is the first event to be hidden, `marker` the number that the rewind's own event gets.
    """

    invocation: str
    first: int
    marker: int
    hides: tuple[str, ...]
    changes: Changes


def find(store: SessionStore, session: str, before: str) -> RewindTarget:
    """Return the target of a rewind.

    Raises:
        SessionNotFound: the session has no history.
        InvocationNotFound: it has no such invocation.
    """
    last = store.last_seq(session)
    first = found(session, before, last, store.first_of(session, before))
    state = {
        key: value
        for key, value in store.state_delta(session, first).items()
        if not key.startswith(OTHER_SCOPES)
    }
    versions = {
        name: version
        for name, version in store.artifact_delta(session, first).items()
        if not name.startswith(OTHER_SCOPES)
    }
    hides = tuple(store.invocations_since(session, first))
    changes = Changes(state=state, artifacts=versions)
    return RewindTarget(before, first, last + 1, hides, changes)


def found(session: str, before: str, last: int, first: int | None) -> int:
    """Return an invocation's first event, given the session's last; the creation is none.

    Raises:
        SessionNotFound: the session has no history.
        InvocationNotFound: it has no such invocation.
    """
    if last < 0:
        raise SessionNotFound(f"cannot find session {session}")
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
