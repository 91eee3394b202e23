"""What an engine is given: one session of a repository, and its undos.

Invariant: a session that is opened here has no engine: its opener runs its undos.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from gitshadow.errors import UnsupportedError
from gitshadow.sdk.turns.commands import Procedure
from gitshadow.sdk.turns.errors import EngineError, SessionBusy
from gitshadow.sdk.turns.protocols import CompensationEngine, Means, SagaStore
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.undo_operation import report_of
from gitshadow.store.journal.saga_rows import SagaOp
from gitshadow.store.layout import discover

_LOOK_S = 0.01


class OpenedSession(Means, Protocol):
    """A session as an engine opens it to carry out its undos."""

    def unfinished(self) -> list[SagaOp]:
        """Return the undos of the session that have no report, oldest first."""
        ...

    def sessions_with_work(self) -> list[str]:
        """Return the sessions of the repository that have an undo without a report."""
        ...

    def finish(self, op_id: str) -> Procedure[UndoReport]:
        """Carry an undo out in place, from wherever it stopped; under the lock."""
        ...

    def take(self) -> None:
        """Lock the session; raise `SessionBusy` where it is locked."""
        ...

    def locked(self, *, finishing: bool = False) -> AbstractContextManager[None]:
        """Lock the session for a block, as `take` does."""
        ...

    def close(self) -> None:
        """Release the store and the lock."""
        ...


@dataclass(frozen=True, slots=True)
class Bench:
    """Open one session again, to carry out its undos.

    Args:
        path: The root of the working tree.
        session: The session's id.
        opens: Opens a session of the program by its id.
    """

    path: str
    session: str
    opens: Callable[[str], OpenedSession]

    @property
    def journal(self) -> str:
        """Return the path of the journal.

        Raises:
            UnsupportedError: there is no Git working tree.
        """
        layout = discover(self.path)
        if layout is None:
            raise UnsupportedError(f"cannot find a Git working tree at {self.path}")
        return layout.journal

    def of(self, session: str) -> "Bench":
        """Return the same for another session of the program."""
        return replace(self, session=session)

    def runtime(self) -> OpenedSession:
        """Open the session once more, for the calling thread; to be closed."""
        return self.opens(self.session)

    @contextmanager
    def at_work(self, check: Callable[[], None]) -> Iterator[OpenedSession]:
        """Open the session and lock it for a block, as soon as the lock is free.

        Args:
            check: Called while it is not free; it raises where waiting is to end.
        """
        with closing(self.runtime()) as runtime, ExitStack() as held:
            while True:
                try:
                    held.enter_context(runtime.locked(finishing=True))
                    break
                except SessionBusy:
                    check()
                    time.sleep(_LOOK_S)
            yield runtime

    def unfinished(self) -> list[SagaOp]:
        """Return the undos of the session that have no report, oldest first."""
        with closing(self.runtime()) as runtime:
            return runtime.unfinished()

    def is_free(self) -> bool:
        """Return whether nobody is at work in the session."""
        with closing(self.runtime()) as runtime:
            try:
                runtime.take()
            except SessionBusy:
                return False
            return True

    @contextmanager
    def idle(self) -> Iterator[list[SagaOp]]:
        """Lock the session for a block that gets the undos without a report.

        Raises:
            SessionBusy: somebody is at work in the session.
        """
        with closing(self.runtime()) as runtime, runtime.locked(finishing=True):
            yield runtime.unfinished()

    def sessions_with_work(self) -> list[str]:
        """Return the sessions of the repository that have an undo without a report."""
        with closing(self.runtime()) as runtime:
            return runtime.sessions_with_work()

    def told(self, op_id: str) -> UndoReport | None:
        """Return the report of an undo, None while it has none."""
        with closing(self.runtime()) as runtime:
            return told(runtime.store, op_id)

    def report(self, op_id: str, check: Callable[[], None]) -> UndoReport:
        """Wait until the journal holds the report of an undo, and return it.

        Args:
            op_id: The undo.
            check: Called while there is none; it raises where waiting is to end.
        """
        with closing(self.runtime()) as runtime:
            # Another process may carry the undo out, and a journal notifies nobody of a new row.
            while (found := told(runtime.store, op_id)) is None:
                check()
                time.sleep(_LOOK_S)
        return found


class EngineProvider(Protocol):
    """Something that carries undos out: `Host(engine=...)`."""

    def bind(self, bench: Bench) -> CompensationEngine:
        """Return the engine of one session."""
        ...


def told(store: SagaStore, op_id: str) -> UndoReport | None:
    """Return the report of an undo, None while it has none.

    Raises:
        EngineError: the journal has no such undo.
    """
    op = store.op(op_id)
    if op is None:
        raise EngineError(f"cannot find undo {op_id} in the journal")
    return report_of(op) if op.status == "done" else None
