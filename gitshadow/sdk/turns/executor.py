"""The undos of a session in progress: carried out in place, or submitted to an engine.

A submitted undo is in the journal as `submitted` until its engine begins it, and until then the
session has no new turn. Carrying an undo out needs the session's lock; submitting one releases it.
"""

from dataclasses import replace

from gitshadow.errors import UsageError
from gitshadow.sdk.turns.commands import Invoke, Procedure, Save, demand
from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.protocols import CompensationEngine, SessionLock
from gitshadow.sdk.turns.report import UndoKind, UndoReport
from gitshadow.sdk.turns.turn_undo import Undoing
from gitshadow.sdk.turns.undo_operation import Whole
from gitshadow.store.journal.saga_rows import SagaOp

_SUBMITTED = "submitted"


class Carrying:
    """Finish the undos of a session; every method is called under its lock.

    Args:
        undoing: Makes the undos.
        engine: Carries them out; None where that is done in place.
        lock: The session's lock; it is released once an engine has taken an undo over.
    """

    def __init__(
        self, undoing: Undoing, engine: CompensationEngine | None, lock: SessionLock
    ) -> None:
        self._undoing = undoing
        self._store, self._setting = undoing.store, undoing.setting
        self._engine = engine
        self._lock = lock

    def run(self, work: Whole, *, again: bool = False) -> Procedure[UndoReport]:
        """Carry an undo out, in place or by the session's engine.

        Args:
            work: What is to be done.
            again: Whether it has ended before.

        Raises:
            RefusedError: the token does not fit; nothing was done.
            UndoPending, EngineError: as `CompensationEngine.wait`.
        """
        engine = self._engine
        if engine is None or not work.calls_handlers:
            return (yield from self._done(work))
        # Checked before the engine has the op: a refused undo must leave nothing behind.
        yield from work.admit()
        # The row is saved before the engine gets the op, because the engine reads everything from
        # it.
        op = replace(work.op, status=_SUBMITTED)
        yield Save((op,))
        # Engines block, for example on a database, so they get a thread of their own.
        hand = Invoke(engine.submit, (op,))
        hand = Invoke(engine.resume, (op.id,)) if again else hand
        yield from demand(hand._replace(blocking=True))
        # The engine's worker needs the lock, so waiting for it with the lock held would never
        # end.
        self._lock.release()
        return (yield from _awaited(engine, op.id))

    def recover(self) -> Procedure[list[UndoReport]]:
        """Bring the undos to their end that lost their process, in place or by the engine."""
        engine = self._engine
        if engine is None:
            found = []
            for op in self.unfinished():
                report = yield from self.finish(op.id)
                found.append(report)
            return found
        taken = yield from demand(Invoke(engine.recover, blocking=True))
        self._lock.release()
        found = []
        for op_id in taken:
            report = yield from _awaited(engine, op_id)
            found.append(report)
        return found

    def finish(self, op_id: str) -> Procedure[UndoReport]:
        """Carry an undo out in place, from wherever it stopped."""
        return (yield from self._done(self._work(op_id)))

    def _done(self, work: Whole) -> Procedure[UndoReport]:
        """Run an undo here, and call its observers."""
        telling = self._setting.telling
        if work.op.kind == UndoKind.REWIND:
            return (yield from telling.rewind(work))
        return (yield from telling.undo(work))

    def resumed(self, op_id: str) -> Whole:
        """Return an earlier undo to go on with: what it did stays done.

        Raises:
            UsageError: this session has no such undo.
        """
        return self._work(op_id)

    def unfinished(self) -> list[SagaOp]:
        """Return the undos, rollbacks and rewinds without a report, oldest first."""
        ops = self._store.ops(self._setting.session)
        return [op for op in ops if op.status != "done"]

    def check_none_waits(self) -> None:
        """Do nothing if no undo is waiting for its engine.

        Raises:
            SessionBusy: one does; nothing may come between.
        """
        for op in self.unfinished():
            if op.status == _SUBMITTED:
                raise SessionBusy(
                    f"cannot use session {op.session}: undo {op.id} is waiting for its engine",
                    hint="wait for it to end, or finish it here: git agent-undo program recover",
                )

    def _work(self, op_id: str) -> Whole:
        op = self._store.op(op_id)
        if op is None or op.session != self._setting.session:
            raise UsageError(
                f"cannot find undo {op_id} in session {self._setting.session}"
            )
        return self._undoing.of(replace(op, status="applying"))


def _awaited(engine: CompensationEngine, op_id: str) -> Procedure[UndoReport]:
    return (yield from demand(Invoke(engine.wait, (op_id, None), blocking=True)))
