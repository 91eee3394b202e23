"""The sync driver: runs the commands of procedures in the caller's thread.

Invariant: an exception of user code becomes an event; an interrupt or exit of the process is raised
inside the procedure, and then by it.
"""

import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import copy_context
from functools import partial
from typing import TypeAlias

from gitshadow.sdk.turns.commands import (
    ClaimCompensation,
    Command,
    Event,
    InStore,
    Invoke,
    Now,
    Part,
    Pause,
    Procedure,
    Raised,
    Returned,
    Save,
    T,
    TimedOut,
    in_the_open,
    riding,
)
from gitshadow.sdk.turns.deferred_work import unrun
from gitshadow.sdk.turns.protocols import Means

AtOnce: TypeAlias = Save | ClaimCompensation | Now | InStore
_STREAMS = (Iterator, AsyncIterator)


class Base:
    """Run the commands that wait for nothing; the same in both drivers."""

    def __init__(self, runtime: Means) -> None:
        self.runtime = runtime
        # Calls of one turn may come from several threads; code of the host runs without the lock.
        self.lock = threading.RLock()

    def at_once(self, command: AtOnce) -> object:
        """Run a command and return its event."""
        with self.lock:
            return _done(command, self.runtime)


def _done(command: AtOnce, means: Means) -> object:
    store = means.store
    if isinstance(command, Save):
        store.save(command.rows)
        return None
    if isinstance(command, Now):
        return means.clock()
    if isinstance(command, InStore):
        return command.function(means)
    claim = command.call, command.owner, command.now_ns, command.until_ns
    return store.claim(*claim, rows=command.rows, then=command.then)


class Driver(Base):
    """Run procedures to their end."""

    def run(self, procedure: Procedure[T]) -> T:
        """Run a procedure and return its value; raise what it raises."""
        # First of all: in a forked process, the copies of locks may never be released.
        _ = self.runtime.store
        flat = riding(self.opened(procedure))
        step: Callable[[], Command] = partial(flat.send, None)
        stopped: BaseException | None = None
        while True:
            try:
                with self.lock:
                    command = step()
            except StopIteration as stop:
                value: T = stop.value
                return value
            except RuntimeError as error:
                # Python makes this of a tool's StopIteration that leaves the procedure.
                if stopped is not None and error.__cause__ is stopped:
                    raise stopped from None
                raise
            try:
                event = self.perform(command)
                if isinstance(event, Raised) and isinstance(event.error, StopIteration):
                    stopped = event.error
                step = partial(flat.send, event)
            except BaseException as error:  # noqa: BLE001 - the procedure says what follows
                step = partial(flat.throw, error)

    def opened(self, procedure: Procedure[T]) -> Procedure[T]:
        """Open the parts of a procedure; an engine that records parts runs each separately."""
        return in_the_open(procedure)

    def perform(self, command: Command) -> object:
        """Run a command and return its event."""
        if isinstance(command, Invoke):
            return self._invoke(command)
        if isinstance(command, Pause):
            time.sleep(command.seconds)
            return None
        assert not isinstance(command, Part), "parts are opened"
        return self.at_once(command)

    def _invoke(self, command: Invoke[object]) -> Event:
        if command.timeout_s is None:
            return called(command)
        return _within(command, command.timeout_s)


def called(command: Invoke[object]) -> Event:
    """Call a function of the host and return the event of its end."""
    try:
        value = command.function(*command.args, **command.kwargs)
    except BaseException as error:
        # Nothing cancels or closes a plain function: these come from what it runs itself.
        is_its_own = type(error).__name__ in ("CancelledError", "GeneratorExit")
        if isinstance(error, Exception) or is_its_own:
            return Raised(error)
        raise
    event = ended(command, value)
    if isinstance(event, Raised) and inspect.isawaitable(value):
        return Raised(TypeError(f"{_name(command)} is async: use AsyncAgentUndo"))
    return event


def ended(command: Invoke[object], value: object) -> Returned[object] | Raised:
    """Return the event of a function that returned; a value that has not run is an error."""
    kind = unrun(value)
    if kind is None or (command.streams and isinstance(value, _STREAMS)):
        return Returned(value)
    said = f"{_name(command)} returned {kind}, which has not run yet"
    return Raised(TypeError(said))


def _name(command: Invoke[object]) -> str:
    return getattr(command.function, "__qualname__", "a function")


def _within(command: Invoke[object], seconds: float) -> Event:
    """Call a function in a thread of its own, and wait for a limited time."""
    found: list[Event] = []
    context = copy_context()
    target: Callable[[], None] = lambda: found.append(context.run(called, command))  # noqa: E731
    # Python cannot stop a thread. A daemon thread at least does not keep the process from ending.
    thread = threading.Thread(target=target, daemon=True, name="gitshadow-inverse")
    thread.start()
    thread.join(seconds)
    return found[0] if found else TimedOut(seconds, goes_on=True)
