"""The async driver: does what procedures ask for, awaiting what is awaitable.

Invariant: `shielded` ends only when its procedure has, however often the task is cancelled.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from gitshadow.turns.drive import Base, pull
from gitshadow.turns.steps import (
    Answer,
    Command,
    Ended,
    Event,
    Invoke,
    Part,
    Pause,
    Procedure,
    Pull,
    Raised,
    Returned,
    T,
    Tell,
    TimedOut,
)


class AsyncDriver(Base):
    """Run procedures to their end."""

    async def run(self, procedure: Procedure[T]) -> T:
        """Run a procedure and return its value; what it raises goes on."""
        step: Callable[[], Command] = partial(procedure.send, None)
        while True:
            try:
                command = step()
            except StopIteration as stop:
                value: T = stop.value
                return value
            try:
                step = partial(procedure.send, await self.perform(command))
            except BaseException as error:  # noqa: BLE001 - the procedure says what follows
                step = partial(procedure.throw, error)

    async def shielded(self, procedure: Procedure[T]) -> T:
        """Run a procedure that no cancellation stops; one that came is raised at its end."""
        task = asyncio.ensure_future(self.run(procedure))
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            task.exception()  # looked at, so that it is not called lost
            raise cancelled
        return task.result()

    async def perform(self, command: Command) -> object:
        """Carry a command out and return its event."""
        if isinstance(command, Invoke):
            return await _invoke(command)
        if isinstance(command, Answer):
            return await _answer(command)
        if isinstance(command, Pause):
            await asyncio.sleep(command.seconds)
            return None
        if isinstance(command, Pull):
            return await _pull(command)
        if isinstance(command, Tell):
            return await asyncio.to_thread(self.tell, command)
        if isinstance(command, Part):
            return await self.run(command.procedure)
        return self.at_once(command)


async def _invoke(command: Invoke) -> Event:
    """Call a function of the host and say how that ended."""
    limit = asyncio.timeout(command.timeout_s)
    try:
        async with limit:
            if command.blocking:
                run = asyncio.to_thread
                function, args = command.function, command.args
                return Returned(await run(function, *args, **command.kwargs))
            value = command.function(*command.args, **command.kwargs)
            return Returned(await value if inspect.isawaitable(value) else value)
    except Exception as error:  # noqa: BLE001 - the host's own errors are events
        if limit.expired() and command.timeout_s is not None:
            return TimedOut(command.timeout_s)
        return Raised(error)


async def _pull(command: Pull) -> Returned | Raised | Ended:
    if isinstance(command.stream, Iterator):
        return pull(command)
    try:
        return Returned(await anext(command.stream))
    except StopAsyncIteration:
        return Ended()
    except Exception as error:  # noqa: BLE001 - the provider's own errors are events
        return Raised(error)


async def _answer(command: Answer) -> bool:
    loop = asyncio.get_running_loop()
    there = asyncio.Event()
    command.question.listen(lambda: loop.call_soon_threadsafe(there.set))
    waiting: Awaitable[bool] = there.wait()
    try:
        await asyncio.wait_for(waiting, command.timeout_s)
    except TimeoutError:
        return False
    return command.question.value is True
