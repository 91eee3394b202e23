"""The history of a session: looking at it, and the ways back in it.

Invariant: nothing here deletes or changes an event, a value or a version.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gitshadow.errors import UsageError
from gitshadow.store.journal.saga_rows import SagaOp, SessionEvent
from gitshadow.turns import events, records, rewind
from gitshadow.turns.report import UndoKind
from gitshadow.turns.rewind import Rewind, Target
from gitshadow.turns.saga import UndoRequest, new_op
from gitshadow.turns.turn import creation

if TYPE_CHECKING:
    from gitshadow.turns.desk import Desk


class Past:
    """Look at a session's history and go back in it."""

    def __init__(self, desk: "Desk") -> None:
        self._desk = desk

    def create(self, state: Mapping[str, object]) -> None:
        """Begin the session's history with a state.

        Raises:
            UsageError: it has a history already.
        """
        with self._desk.locked():
            if self._desk.store.last_seq(self._desk.session) >= 0:
                raise UsageError(f"could not create {self._desk.session}: it exists")
            self._desk.store.save(
                [creation(self._desk.session, state, self._desk.clock())]
            )

    def rewind(self, before: str, *, effects: bool) -> Rewind:
        """Return a rewind, not begun yet; to be called under the lock.

        Raises:
            SessionNotFound: the session has no history.
            InvocationNotFound: it has no such invocation.
        """
        rewind.find(self._desk.store, self._desk.session, before)
        op = new_op(self._desk.session, UndoKind.REWIND, before, self._desk.clock())
        told = records.canonical({"effects": effects})
        return self.resumed(replace(op, request=told))

    def last_live(self) -> str:
        """Return the newest invocation that counts.

        Raises:
            NothingToUndo: there is none.
        """
        return rewind.last_live(self._desk.store, self._desk.session)

    def events(self) -> list[SessionEvent]:
        """Return the session's whole history, oldest first."""
        return self._desk.store.events(self._desk.session)

    def live_events(self) -> list[SessionEvent]:
        """Return the events that count, oldest first."""
        return events.live(self.events(), self._desk.store.markers(self._desk.session))

    def state(self, before: str | None = None) -> dict[str, object]:
        """Return the state, as it is or as it was before an invocation.

        Raises:
            InvocationNotFound: there is no such invocation.
        """
        seq = self._desk.store.last_seq(self._desk.session) + 1
        if before is not None:
            seq = rewind.find(self._desk.store, self._desk.session, before).first
        return rewind.values(self._desk.store.state_before(self._desk.session, seq))

    def resumed(self, op: SagaOp) -> Rewind:
        """Return the rewind that an op stands for, new or interrupted."""
        desk = self._desk
        target = self._with_missing(rewind.find(desk.store, desk.session, op.target))
        hidden = rewind.standing(desk.store, desk.session, target)
        unwinds = None
        if records.parse(op.request).get("effects") is True:
            turns = dict.fromkeys(call.turn for call in reversed(hidden))
            per_turn = ([c for c in hidden if c.turn == turn] for turn in turns)
            unwinds = tuple(
                desk.unwind_of(op, calls, UndoRequest()) for calls in per_turn
            )
        return Rewind(op=op, target=target, calls=tuple(hidden), unwinds=unwinds)

    def _with_missing(self, target: Target) -> Target:
        """Find out which artifacts' bytes are gone: nothing is silently emptied."""
        blobs, vault = target.blobs.items(), self._desk.store
        gone = {name for name, oid in blobs if oid is not None and not vault.has(oid)}
        return replace(target, missing=frozenset(gone))
