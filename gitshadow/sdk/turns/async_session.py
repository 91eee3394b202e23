"""The async front: sessions and turns for programs with an event loop.

Invariant: every method runs the procedure that `session` runs, awaited; the end of a turn and
every undo are shielded from cancellation.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from os import PathLike
from types import TracebackType
from typing import ParamSpec, TypeVar, Unpack, overload

from gitshadow.errors import ShadowError
from gitshadow.sdk.turns import calls, outbox, resolution
from gitshadow.sdk.turns.async_driver import AsyncDriver
from gitshadow.sdk.turns.base_session import SessionFront, TurnFront, stays_primary
from gitshadow.sdk.turns.call_records import CallRequest, requested
from gitshadow.sdk.turns.commands import Procedure
from gitshadow.sdk.turns.errors import ValidationFailed
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.protocols import SessionStore
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session_runtime import Opening, SessionRuntime
from gitshadow.sdk.turns.turn_end import Check, Terms, finish, may_retry, validated
from gitshadow.sdk.turns.undo_request import (
    UndoOptions,
    request_of,
    rewind_request,
)
from gitshadow.sdk.turns.values import Outcome, Release

P = ParamSpec("P")
R = TypeVar("R")


class AsyncTurn(TurnFront):
    """Hold one turn; an async context manager that commits, or rolls back on exceptions."""

    def __init__(
        self, runtime: SessionRuntime, driver: AsyncDriver, label: str, terms: Terms
    ) -> None:
        super().__init__(runtime, label, terms)
        self._driver = driver

    async def __aenter__(self) -> "AsyncTurn":
        """Begin the turn.

        Raises:
            SessionBusy: the session has a turn or an undo at work; nothing was changed.
        """
        core = self._runtime.new_turn(self._label, self._terms.policy)
        try:
            await self._driver.shielded(outbox.release(core.setting))
        except BaseException:
            self._runtime.release()
            raise
        try:
            await self._driver.shielded(core.begin())
        except BaseException as error:
            try:
                await self._driver.shielded(core.finish(error))
            finally:
                self._runtime.release()
            raise
        self._core = core
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the turn; an exception goes on, with the rollback's report as `undo_report`.

        A cancelled task stays cancelled: its own `CancelledError` goes on, after the rollback.
        """
        try:
            if error is None:
                await self._driver.run(validated(self.core, self._terms.validate))
        except BaseException as failed:
            await self._end(failed)
            raise
        else:
            await self._end(error)
        finally:
            self._runtime.release()

    async def _end(self, error: BaseException | None) -> None:
        try:
            await self._driver.shielded(finish(self.core, error))
        except ShadowError as trouble:
            stays_primary(error, trouble)
        except asyncio.CancelledError:
            # Cancelled again meanwhile: the first one, which has the report, goes on.
            if not isinstance(error, asyncio.CancelledError):
                raise

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, object] | None = None,
        /,
        *,
        call_id: str | None = None,
        again: bool = False,
        **more: object,
    ) -> Outcome:
        """Run one tool call; as `Turn.call`. Calls may overlap: their start is their order."""
        registry = self.core.setting.registry
        request = requested(
            registry, tool, arguments, more, call_id=call_id, again=again
        )
        return await self._driver.run(calls.run(self.core, request))

    async def call_through(
        self,
        function: Callable[..., object],
        tool: str,
        arguments: Mapping[str, object],
        *,
        call_id: str | None = None,
        origin: str | None = None,
    ) -> Outcome:
        """Run one call of a tool whose work something else does; as `Turn.call_through`."""
        request = CallRequest(
            tool, arguments, call_id, function=function, origin=origin
        )
        return await self._driver.run(calls.run(self.core, request))

    async def say(
        self, author: str, text: str, *, kind: str = "note", **data: object
    ) -> None:
        """Add an event to the session's history; as `Turn.say`."""
        await self._driver.run(self.core.say(author, text, kind, data))

    async def set_state(self, changes: Mapping[str, object]) -> None:
        """Change the session's state; as `Turn.set_state`."""
        await self._driver.run(self.core.set_state(changes))

    async def save_artifact(self, name: str, data: bytes) -> int:
        """Save a new version of an artifact and return its number; as `Turn.save_artifact`."""
        return await self._driver.run(self.core.save_artifact(name, data))

    @asynccontextmanager
    async def savepoint(self, name: str) -> AsyncIterator[None]:
        """Take back what was done inside the block if something leaves it by exception."""
        mark = await self._driver.run(self.core.mark())
        try:
            yield
        except BaseException as error:
            try:
                await self._driver.shielded(self.core.undo_since(mark, name, error))
            except ShadowError as trouble:
                stays_primary(error, trouble)
            raise

    async def undo(self, **options: Unpack[UndoOptions]) -> UndoReport:
        """Take back what the turn did, after it has ended; as `AgentUndo.undo`."""
        with self._runtime.locked():
            whole = self._runtime.unwind(self.id, request_of(options))
            return await self._driver.shielded(self._runtime.carrying.run(whole))


class AsyncAgentUndo(SessionFront):
    """Hold one session of an agent program; an async context manager that closes it."""

    def __init__(self, runtime: SessionRuntime) -> None:
        super().__init__(runtime)
        self._driver = AsyncDriver(runtime)

    def close(self) -> None:
        """Close the session store, and end the thread that writes it."""
        self._driver.close()
        super().close()

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] = ".",
        *,
        session: str,
        tools: ToolRegistry,
        agent: str | None = None,
        policy: Policy | None = None,
        host: Host | None = None,
    ) -> "AsyncAgentUndo":
        """Open a session; as `AgentUndo.open`."""
        opening = Opening(session, tools, agent, policy or Policy(), host or Host())
        return cls(SessionRuntime.open(path, opening))

    @classmethod
    def over(
        cls,
        store: SessionStore,
        *,
        session: str,
        tools: ToolRegistry,
        agent: str | None = None,
        policy: Policy | None = None,
        host: Host | None = None,
    ) -> "AsyncAgentUndo":
        """Open a session kept in a store of the program's own; as `AgentUndo.over`."""
        opening = Opening(session, tools, agent, policy or Policy(), host or Host())
        return cls(SessionRuntime(store, opening))

    async def __aenter__(self) -> "AsyncAgentUndo":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def turn(
        self,
        label: str,
        *,
        policy: Policy | None = None,
        validate: Check | None = None,
    ) -> AsyncTurn:
        """Return a turn; it begins where its `async with` block does; as `AgentUndo.turn`."""
        terms = Terms(policy=policy, validate=validate)
        return AsyncTurn(self._runtime, self._driver, label, terms)

    async def run_turn(
        self,
        label: str,
        work: Callable[[AsyncTurn], Awaitable[R]],
        *,
        policy: Policy | None = None,
        validate: Check | None = None,
        retries: int = 0,
    ) -> R:
        """Run a coroutine function in a turn of its own; as `AgentUndo.run_turn`."""
        for left in range(max(retries, 0), -1, -1):
            try:
                async with self.turn(label, policy=policy, validate=validate) as turn:
                    return await work(turn)
            except ValidationFailed as error:
                if not may_retry(error, left):
                    raise
        raise AssertionError("the last round returns or raises")

    async def drive(self, procedure: Procedure[R]) -> R:
        """Run a procedure of the core; for loops built on it."""
        return await self._driver.run(procedure)

    @overload
    def undoable(
        self, function: Callable[P, Awaitable[R]], /
    ) -> Callable[P, Awaitable[R]]: ...

    @overload
    def undoable(
        self, *, validate: Check | None = None, retries: int = 0
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]: ...

    def undoable(
        self,
        function: Callable[..., Awaitable[object]] | None = None,
        *,
        validate: Check | None = None,
        retries: int = 0,
    ) -> object:
        """Have every run of a coroutine function be a turn; as `AgentUndo.undoable`."""

        def declare(
            function: Callable[..., Awaitable[object]],
        ) -> Callable[..., Awaitable[object]]:
            @wraps(function)
            async def in_turn(*args: object, **kwargs: object) -> object:
                return await self.run_turn(
                    getattr(function, "__name__", "turn"),
                    lambda turn: function(*args, **kwargs),
                    validate=validate,
                    retries=retries,
                )

            return in_turn

        return declare if function is None else declare(function)

    async def plan(self, turn: str, **options: Unpack[UndoOptions]) -> UndoReport:
        """Say what `undo` would do; no inverse is called, no file is touched."""
        whole = self._runtime.unwind(turn, request_of(options))
        return await self._driver.run(whole.plan())

    async def undo(self, turn: str, **options: Unpack[UndoOptions]) -> UndoReport:
        """Take a turn back; as `AgentUndo.undo`."""
        with self._runtime.locked():
            whole = self._runtime.unwind(turn, request_of(options))
            return await self._driver.shielded(self._runtime.carrying.run(whole))

    async def redo(self, op: str, *, token: str | None = None) -> UndoReport:
        """Take an undo back; as `AgentUndo.redo`."""
        with self._runtime.locked():
            found = self._runtime.undoing.redo(op, token)
            return await self._driver.shielded(self._runtime.carrying.run(found))

    async def rewind(
        self,
        before: str,
        *,
        effects: bool = False,
        scope: Collection[str] | None = None,
        token: str | None = None,
    ) -> UndoReport:
        """Go back to before an invocation; as `AgentUndo.rewind`."""
        with self._runtime.locked():
            request = rewind_request(effects=effects, scope=scope, token=token)
            found = self._runtime.undoing.rewind(before, request)
            return await self._driver.shielded(self._runtime.carrying.run(found))

    async def undo_last(self, *, effects: bool = False) -> UndoReport:
        """Go back to before the newest invocation that counts; again: one further."""
        with self._runtime.locked():
            request = rewind_request(effects=effects, scope=None)
            found = self._runtime.undoing.rewind(
                self._runtime.past.last_live(), request
            )
            return await self._driver.shielded(self._runtime.carrying.run(found))

    async def resume(self, op: str) -> UndoReport:
        """Go on with an undo that left something or was interrupted; what is done stays."""
        with self._runtime.locked(finishing=True):
            work = self._runtime.carrying.resumed(op)
            return await self._driver.shielded(
                self._runtime.carrying.run(work, again=True)
            )

    async def release(self) -> list[Release]:
        """Send the held calls whose time has come; as `AgentUndo.release`."""
        with self._runtime.locked():
            return await self._driver.shielded(outbox.release(self._runtime.setting))

    async def recover(self) -> list[UndoReport]:
        """Bring to their end what a crash interrupted; as `AgentUndo.recover`."""
        with self._runtime.locked(finishing=True):
            await self._driver.shielded(resolution.ask_probes(self._runtime))
            return await self._driver.shielded(self._runtime.carrying.recover())
