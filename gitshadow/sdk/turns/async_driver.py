"""The async driver: runs the commands of procedures and awaits what is awaitable.

The journal is written in a thread of its own, so that the loop never waits for a disk.
Invariant: `shielded` ends only when its procedure has, even if the task is cancelled several times;
no cancellation is raised between a written row and the next step.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial

from gitshadow.sdk.turns.commands import (
    Command,
    Event,
    Invoke,
    Now,
    Part,
    Pause,
    Procedure,
    Raised,
    Save,
    T,
    TimedOut,
    in_the_open,
    riding,
)
from gitshadow.sdk.turns.driver import AtOnce, Base, ended
from gitshadow.sdk.turns.journal_store import JournalStore
from gitshadow.sdk.turns.protocols import Means


class AsyncDriver(Base):
    """Run procedures to their end."""

    def __init__(self, runtime: Means) -> None:
        super().__init__(runtime)
        # A store of the host may only be used in the thread that made it.
        is_ours = isinstance(runtime.store, JournalStore)
        self._journal = _JournalThread(self.at_once) if is_ours else None

    def close(self) -> None:
        """End the journal's thread after its last command."""
        if self._journal is not None:
            self._journal.close()

    async def run(self, procedure: Procedure[T]) -> T:
        """Run a procedure and return its value; raise what it raises."""
        # First of all: in a forked process, the copies of locks may never be released.
        _ = self.runtime.store
        flat = riding(in_the_open(procedure))
        step: Callable[[], Command] = partial(flat.send, None)
        while True:
            try:
                command = step()
            except StopIteration as stop:
                value: T = stop.value
                return value
            try:
                step = partial(flat.send, await self.perform(command))
            except BaseException as error:  # noqa: BLE001 - the procedure says what follows
                step = partial(flat.throw, error)

    async def shielded(self, procedure: Procedure[T]) -> T:
        """Run a procedure to its end; a cancellation of the task is raised only then."""
        task = asyncio.ensure_future(self.run(procedure))
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            # asyncio warns of exceptions that nobody retrieves, and the cancellation is raised
            # instead.
            task.exception()
            raise cancelled
        return task.result()

    async def perform(self, command: Command) -> object:
        """Run a command and return its event."""
        if isinstance(command, Invoke):
            return await _invoke(command)
        if isinstance(command, Pause):
            await asyncio.sleep(command.seconds)
            return None
        assert not isinstance(command, Part), "parts are opened"
        if self._journal is None or isinstance(command, Now):
            return self.at_once(command)
        return await self._journal.do(command)


class _JournalThread:
    """Run commands on a journal in one thread, in order; write rows that wait together at once.

    Each call of `do` returns when its own rows are on the disk.
    """

    def __init__(self, perform: Callable[[AtOnce], object]) -> None:
        self._perform = perform
        self._waiting: list[tuple[AtOnce, Future[object]]] = []
        self._mutex = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "gitshadow-journal")
        self._closed = False

    def close(self) -> None:
        """End the thread when nothing waits; later commands find a closed journal."""
        self._closed = True
        self._thread.shutdown()

    async def do(self, command: AtOnce) -> object:
        """Return the event of a command; raise a cancellation only after it."""
        # The pool accepts no work after its end; a closed journal raises the right error.
        if self._closed:
            return self._perform(command)
        future: Future[object] = Future()
        with self._mutex:
            self._waiting.append((command, future))
        self._thread.submit(self._drain)
        return await _uncancelled(asyncio.wrap_future(future))

    def _drain(self) -> None:
        with self._mutex:
            taken, self._waiting = self._waiting, []
        while taken:
            # Rows that wait at the same time share one transaction, and so one wait for the disk.
            count = 0
            while count < len(taken) and isinstance(taken[count][0], Save):
                count += 1
            together, taken = taken[: count or 1], taken[count or 1 :]
            if len(together) == 1 or not self._saved(together):
                for command, future in together:
                    self._answer(command, future)

    def _saved(self, together: list[tuple[AtOnce, Future[object]]]) -> bool:
        """Write the rows of several commands in one transaction; return whether that worked."""
        rows = [row for one, _ in together if isinstance(one, Save) for row in one.rows]
        try:
            self._perform(Save(tuple(rows)))
        except Exception:  # noqa: BLE001 - then each is tried alone and gets its own error
            return False
        for _, future in together:
            future.set_result(None)
        return True

    def _answer(self, command: AtOnce, future: Future[object]) -> None:
        try:
            event = self._perform(command)
        except BaseException as error:  # noqa: BLE001 - raised where the event is awaited
            future.set_exception(error)
        else:
            future.set_result(event)


async def _uncancelled(future: "asyncio.Future[object]") -> object:
    """Await a future to its end; a cancellation is raised at the next wait instead."""
    task = asyncio.current_task()
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            if task is not None:
                task.uncancel()
            cancelled = error
    if cancelled is not None and task is not None:
        task.cancel(*cancelled.args)
    return future.result()


async def _invoke(command: Invoke[object]) -> Event:
    """Call a function of the host and return the event of its end."""
    limit, task = asyncio.timeout(command.timeout_s), asyncio.current_task()
    function = partial(command.function, *command.args, **command.kwargs)
    is_plain = not inspect.iscoroutinefunction(command.function)
    in_thread = command.blocking or (command.timeout_s is not None and is_plain)
    # A timeout ends a coroutine, but a thread that nobody waits for goes on.
    goes_on = in_thread
    try:
        async with limit:
            value = await _in_thread(function) if in_thread else function()
            goes_on = False
            value = await value if inspect.isawaitable(value) else value
            return ended(command, value)
    except asyncio.CancelledError as error:
        if task is None or task.cancelling():
            raise
        # Our own task goes on: a task inside the function was cancelled.
        return Raised(error)
    except GeneratorExit as error:
        # Only the end of the loop closes this coroutine, and its task does not run then.
        if asyncio.current_task() is not task:
            raise
        return Raised(error)
    except Exception as error:  # noqa: BLE001 - the host's own errors are events
        if limit.expired() and command.timeout_s is not None:
            return TimedOut(command.timeout_s, goes_on)
        return Raised(error)


async def _in_thread(function: Callable[[], object]) -> object:
    """Call a plain function in a daemon thread, which the end of the process does not wait for."""
    ended: Future[object] = Future()
    # A future that runs cannot be cancelled, so the thread can always set its value.
    ended.set_running_or_notify_cancel()

    def work() -> None:
        try:
            ended.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised where the value is awaited
            ended.set_exception(error)

    target = partial(copy_context().run, work)
    threading.Thread(target=target, daemon=True, name="gitshadow-call").start()
    return await asyncio.wrap_future(ended)
