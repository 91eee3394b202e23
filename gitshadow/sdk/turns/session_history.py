"""The history of a session: looking at it, and the ways back in it.

Invariant: nothing here deletes or changes an event, a value or a version.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gitshadow.errors import UsageError
from gitshadow.sdk.turns import events, rewind, state_rollback
from gitshadow.sdk.turns.turn import creation
from gitshadow.store.journal.saga_rows import SessionEvent

if TYPE_CHECKING:
    from gitshadow.sdk.turns.session_runtime import SessionRuntime


class SessionHistory:
    """Look at a session's history and go back in it."""

    def __init__(self, runtime: "SessionRuntime") -> None:
        self._runtime = runtime

    def create(self, state: Mapping[str, object]) -> None:
        """Begin the session's history with a state.

        Raises:
            UsageError: it has a history already.
        """
        with self._runtime.locked():
            if self._runtime.store.last_seq(self._runtime.session) >= 0:
                raise UsageError(f"could not create {self._runtime.session}: it exists")
            self._runtime.store.save(
                [creation(self._runtime.session, state, self._runtime.clock())]
            )

    def last_live(self) -> str:
        """Return the newest invocation that counts.

        Raises:
            NothingToUndo: there is none.
        """
        return rewind.last_live(self._runtime.store, self._runtime.session)

    def events(self) -> list[SessionEvent]:
        """Return the session's whole history, oldest first."""
        return self._runtime.store.events(self._runtime.session)

    def live_events(self) -> list[SessionEvent]:
        """Return the events that count, oldest first."""
        return events.live(
            self.events(), self._runtime.store.markers(self._runtime.session)
        )

    def state(self, before: str | None = None) -> dict[str, object]:
        """Return the state, as it is or as it was before an invocation.

        Raises:
            InvocationNotFound: there is no such invocation.
        """
        seq = self._runtime.store.last_seq(self._runtime.session) + 1
        if before is not None:
            seq = rewind.find(self._runtime.store, self._runtime.session, before).first
        return state_rollback.values(
            self._runtime.store.state_before(self._runtime.session, seq)
        )
