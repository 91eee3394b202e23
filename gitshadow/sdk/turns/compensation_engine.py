"""Carrying undos out elsewhere than where they were asked for: what engines are made of.

An undo is a row of the journal before any engine gets it, and its procedure reads everything
from there: any engine, in any process, continues where the last one stopped.
Invariant: who carries an undo out holds its session's lock until it has ended.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from gitshadow.sdk.turns.bench import Bench, OpenedSession, told
from gitshadow.sdk.turns.commands import Event, Invoke
from gitshadow.sdk.turns.driver import Driver
from gitshadow.sdk.turns.errors import UndoPending
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.store.journal.saga_rows import SagaOp

_GRACE_S = 1.0


def deadline(op_id: str, timeout_s: float | None) -> Callable[[], None]:
    """Return what raises `UndoPending` once there was no report of an undo for so long."""
    end_s = None if timeout_s is None else time.monotonic() + timeout_s

    def check() -> None:
        if end_s is not None and time.monotonic() >= end_s:
            raise UndoPending(
                f"could not see the end of undo {op_id} in {timeout_s:g} s",
                hint="it is still running; ask again",
            )

    return check


def carry_out(runtime: OpenedSession, op_id: str, driver: Driver) -> UndoReport:
    """Finish an undo, from whatever state it is in; to be called under the lock.

    Raises:
        EngineError: the journal has no such undo.
    """
    # Another process may have finished it while this one waited for the lock.
    return told(runtime.store, op_id) or driver.run(runtime.finish(op_id))


class WorkerDriver(Driver):
    """Run procedures in a thread without an event loop: a coroutine gets one of its own."""

    def _invoke(self, command: Invoke[object]) -> Event:
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
    """The built-in engine behind the protocol: the caller that waits runs the undo in its thread.

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
        """Run an undo when the process at work in the session has finished.

        Raises:
            UndoPending: the session was busy all the time.
            EngineError: there is no such undo.
        """
        with self.bench.at_work(deadline(op_id, timeout_s)) as runtime:
            return carry_out(runtime, op_id, WorkerDriver(runtime))

    def resume(self, op_id: str) -> None:
        """Do nothing more; `wait` goes on with it."""

    def recover(self) -> list[str]:
        """Return the undos that have no report; `wait` goes on with each."""
        return [op.id for op in self.bench.unfinished()]
