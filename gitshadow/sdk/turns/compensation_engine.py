"""Carrying undos out elsewhere than where they were asked for: what engines are made of.

An undo is a row of the journal before any engine hears of it, and its procedure reads everything
from there: whichever engine gets hold of it, in whichever process, goes on where it stands.
Invariant: who carries an undo out holds its session's lock until it has ended.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from gitshadow.errors import UnsupportedError
from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.commands import Event, Invoke
from gitshadow.sdk.turns.driver import Driver
from gitshadow.sdk.turns.errors import EngineError, SessionBusy, UndoPending
from gitshadow.sdk.turns.journal_store import JournalStore
from gitshadow.sdk.turns.report import UndoReport, from_json
from gitshadow.sdk.turns.session_runtime import Opening, SessionRuntime
from gitshadow.store.journal import saga
from gitshadow.store.journal.saga_rows import SagaOp
from gitshadow.store.layout import discover

_LOOK_S = 0.01
_GRACE_S = 1.0


class Deadline:
    """Hold until when somebody waits for an undo."""

    def __init__(self, op_id: str, timeout_s: float | None) -> None:
        self._op_id = op_id
        self._timeout_s = timeout_s
        self._end = None if timeout_s is None else time.monotonic() + timeout_s

    def check(self) -> None:
        """Do nothing while there is time.

        Raises:
            UndoPending: there is none left.
        """
        if self._end is not None and time.monotonic() >= self._end:
            raise UndoPending(
                f"could not see the end of undo {self._op_id} in {self._timeout_s:g} s",
                hint="it is still running; ask again",
            )


@dataclass(frozen=True, slots=True)
class Bench:
    """Hold what it takes to carry out undos of one session.

    Args:
        path: The root of the working tree.
        opening: What the session was opened with: its tools among it.
    """

    path: str
    opening: Opening

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
        return Bench(self.path, replace(self.opening, session=session))

    def runtime(self) -> SessionRuntime:
        """Open the session once more, for the calling thread; to be closed."""
        host = replace(self.opening.host, engine=None)
        return SessionRuntime.open(self.path, replace(self.opening, host=host))

    @contextmanager
    def at_work(self, check: Callable[[], None]) -> Iterator[SessionRuntime]:
        """Open the session and hold its lock, as soon as whoever has it gives it back.

        Args:
            check: Called while it is not free; it raises where waiting is to end.
        """
        with closing(self.runtime()) as runtime, ExitStack() as held:
            while not _taken(runtime, held):
                check()
                time.sleep(_LOOK_S)
            yield runtime

    def unfinished(self) -> list[SagaOp]:
        """Return the undos of the session that have no report, oldest first."""
        with closing(self.runtime()) as runtime:
            return runtime.carrying.unfinished()

    def is_free(self) -> bool:
        """Tell whether nobody is at work in the session."""
        with closing(self.runtime()) as runtime:
            try:
                runtime.take()
            except SessionBusy:
                return False
            return True

    @contextmanager
    def idle(self) -> Iterator[list[SagaOp]]:
        """Hold the session's lock for a block that gets the undos without a report.

        Raises:
            SessionBusy: somebody is at work in the session.
        """
        with closing(self.runtime()) as runtime, runtime.locked(finishing=True):
            yield runtime.carrying.unfinished()

    def sessions_with_work(self) -> list[str]:
        """Return the sessions of the repository that have an undo without a report."""
        with closing(self.runtime()) as runtime:
            store = runtime.store
            assert isinstance(store, JournalStore)
            return saga.sessions_with_work(store.db)

    def told(self, op_id: str) -> UndoReport | None:
        """Return the report of an undo, None while it has none."""
        with closing(self.runtime()) as runtime:
            return _told(runtime, op_id)

    def report(self, op_id: str, check: Callable[[], None]) -> UndoReport:
        """Wait until the journal holds the report of an undo, and return it.

        Args:
            op_id: The undo.
            check: Called while there is none; it raises where waiting is to end.
        """
        with closing(self.runtime()) as runtime:
            while (found := _told(runtime, op_id)) is None:
                check()
                time.sleep(_LOOK_S)
        return found


def carry_out(runtime: SessionRuntime, op_id: str, driver: Driver) -> UndoReport:
    """Bring an undo to its end, from wherever it stands; to be called under the lock.

    Raises:
        EngineError: the journal has no such undo.
    """
    return _told(runtime, op_id) or driver.run(runtime.carrying.finish(op_id))


def _told(runtime: SessionRuntime, op_id: str) -> UndoReport | None:
    """Return the report of an undo, None while it has none."""
    op = runtime.store.op(op_id)
    if op is None:
        raise EngineError(f"cannot find undo {op_id} in the journal")
    if op.status != "done" or op.report is None:
        return None
    return from_json(json_values.parse(op.report))


def _taken(runtime: SessionRuntime, held: ExitStack) -> bool:
    """Take a session's lock if it is free, and hold it until the stack ends."""
    try:
        held.enter_context(runtime.locked(finishing=True))
    except SessionBusy:
        return False
    return True


class WorkerDriver(Driver):
    """Run procedures in a thread without an event loop: a coroutine gets one of its own."""

    def _invoke(self, command: Invoke) -> Event:
        function = partial(_settled, command.function, command.timeout_s)
        return super()._invoke(command._replace(function=function))


def _settled(
    function: Callable[..., object],
    limit_s: float | None,
    *args: object,
    **kwargs: object,
) -> object:
    """Call a function; where it gives something to be awaited, await it."""
    value = function(*args, **kwargs)
    if not inspect.isawaitable(value):
        return value
    # The driver's own limit comes first; this one ends what it has given up.
    end_s = None if limit_s is None else limit_s + _GRACE_S
    return asyncio.run(_within(value, end_s))


async def _within(value: Awaitable[object], limit_s: float | None) -> object:
    return await asyncio.wait_for(value, limit_s)


class JournalEngine:
    """The built-in engine behind the protocol: whoever waits carries the undo out, in its thread.

    Nothing but the journal is needed. Without an engine the same procedure runs in place; this
    one is for inverses that must not keep an event loop waiting.
    """

    def bind(self, bench: Bench) -> "JournalRunner":
        """Return the engine of one session."""
        return JournalRunner(bench)


@dataclass(frozen=True, slots=True)
class JournalRunner:
    """Carry out the undos of one session with the journal alone."""

    bench: Bench

    def submit(self, op: SagaOp) -> None:
        """Do nothing more: the row in the journal is all there is."""

    def wait(self, op_id: str, timeout_s: float | None) -> UndoReport:
        """Carry an undo out, after whoever is at work in the session.

        Raises:
            UndoPending: the session was busy all the time.
            EngineError: there is no such undo.
        """
        until = Deadline(op_id, timeout_s)
        with self.bench.at_work(until.check) as runtime:
            return carry_out(runtime, op_id, WorkerDriver(runtime))

    def resume(self, op_id: str) -> None:
        """Do nothing more; `wait` goes on with it."""

    def recover(self) -> list[str]:
        """Return the undos that have no report; `wait` goes on with each."""
        return [op.id for op in self.bench.unfinished()]
