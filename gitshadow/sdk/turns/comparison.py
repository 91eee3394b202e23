"""What differs between two moments of a session: its state and its artifacts, looked at only.

Invariant: nothing is written; what is absent on a side is None there.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gitshadow.model import Oid
from gitshadow.sdk.turns import rewind, state_rollback
from gitshadow.sdk.turns.protocols import SessionStore


class Difference(NamedTuple):
    """Hold what changed, each as the value (of an artifact: the version) before and after."""

    state: Mapping[str, tuple[object, object]]
    artifacts: Mapping[str, tuple[int | None, int | None]]


def between(
    store: SessionStore, session: str, first: str, second: str | None
) -> Difference:
    """Return what differs from before one invocation to before another (None: to now).

    Raises:
        SessionNotFound, InvocationNotFound: there is none.
    """
    ends = [rewind.find(store, session, first).first, store.last_seq(session) + 1]
    if second is not None:
        ends[1] = rewind.find(store, session, second).first
    old, new = (state_rollback.values(store.state_before(session, seq)) for seq in ends)
    were, are = (_contents(store, session, seq) for seq in ends)
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


def _contents(store: SessionStore, session: str, seq: int) -> Mapping[str, Oid | None]:
    """Return what each artifact held before an event."""
    found = {**store.artifacts(session), **store.artifact_delta(session, seq)}
    return {name: None if one is None else one.oid for name, one in found.items()}


def _first(store: SessionStore, session: str, name: str, oid: Oid | None) -> int | None:
    """Return the first version with a content: a restored one is that version come back."""
    found = store.versions(session, name)
    return next(
        (one.number for one in found if oid is not None and one.oid == oid), None
    )
