"""The async front: sessions and turns for programs with an event loop.

`make fronts` generates `session`, the sync front, from this module; a line or block marked
`async only` is left out there, of a marked `try` only its body is kept. The beginning and the end
of a turn and every undo are shielded from cancellation. A cancelled task stays cancelled: its own
`CancelledError` is raised again after the rollback.
Invariant: a method only runs a procedure of the core, so that both fronts do the same.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar, Unpack, overload

from gitshadow.errors import ShadowError
from gitshadow.sdk.turns import calls, outbox
from gitshadow.sdk.turns.async_driver import AsyncDriver
from gitshadow.sdk.turns.base_session import SessionFront, TurnFront, stays_primary
from gitshadow.sdk.turns.call_records import CallRequest, requested
from gitshadow.sdk.turns.commands import Procedure
from gitshadow.sdk.turns.deferred_work import check_has_run, check_turn_function
from gitshadow.sdk.turns.errors import ValidationFailed
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.turn_end import Check, finish, may_retry, validated
from gitshadow.sdk.turns.undo_request import RedoOptions, RewindOptions, UndoOptions
from gitshadow.sdk.turns.values import JsonObject, Outcome, Release

P = ParamSpec("P")
R = TypeVar("R")


class AsyncTurn(TurnFront[AsyncDriver]):
    """Run tool calls as one turn: an async context manager that commits or rolls back."""

    async def __aenter__(self) -> "AsyncTurn":
        """Begin the turn.

        Raises:
            SessionBusy: a turn or an undo of the session is running; nothing was changed.
        """
        core = self._runtime.new_turn(self._label, self._policy)
        try:
            await self._driver.shielded(outbox.release(core.setting))
            try:  # async only: a cancellation is raised after the turn has begun
                await self._driver.shielded(core.begin())
            except BaseException as error:  # async only
                await self._driver.shielded(core.finish(error))
                raise
        except BaseException:
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
        """End the turn; an exception is raised again with the rollback report as `undo_report`."""
        try:
            if error is None:
                await self._driver.run(validated(self.core, self._check))
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
        except asyncio.CancelledError:  # async only
            # This is a second cancellation. The first one has the report and is raised again.
            if not isinstance(error, asyncio.CancelledError):
                raise

    async def call(
        self,
        tool: str,
        arguments: JsonObject | None = None,
        /,
        *,
        call_id: str | None = None,
        again: bool = False,
        **more: object,
    ) -> Outcome:
        """Run one tool call; calls may overlap, and are ordered by their start.

        Args:
            tool: The name of the tool.
            arguments: Its arguments under any names. Keywords work too, except for arguments
                named `call_id` or `again`.
            call_id: The model's own id for the call.
            again: Run the call although a rewind hid the same call, whose effect was not undone.
            more: Arguments.

        Returns:
            The outcome. A failure, a denial, a conflict or an unknown tool is an outcome for the
            model to read, and the turn continues.

        Raises:
            UsageError: `call_id` or `again` was meant for the tool: pass it in `arguments`. Or
                the tool is no name, the arguments are no mapping, or a secret one of them raises
                when it is read.
            TurnCancelled: `cancel` was called before.
            LimitExceeded: a limit of the turn was reached.
            Exception: the tool's own exception. Let it leave the block to roll the turn back.
        """
        registry = self.core.setting.registry
        request = requested(
            registry, tool, arguments, more, call_id=call_id, again=again
        )
        return await self._driver.run(calls.run(self.core, request))

    async def call_through(
        self,
        function: Callable[..., object],
        tool: str,
        arguments: JsonObject,
        *,
        call_id: str | None = None,
        origin: str | None = None,
    ) -> Outcome:
        """Run one tool call whose work is done by other code, for example a framework.

        Args:
            function: Called instead of the registered function, with the arguments and with those
                that the registered function requests (`idempotency_key`, `revision`).
            tool: The name of the tool.
            arguments: Its arguments, which the journal keeps.
            call_id: The model's own id for the call.
            origin: A text that is equal only if a framework replays this call, in any turn.
                A replay is a duplicate if the effect of the first call was not undone.

        Returns:
            The outcome, as from `call`, which also lists the errors.
        """
        request = CallRequest(
            tool, arguments, call_id, function=function, origin=origin
        )
        return await self._driver.run(calls.run(self.core, request))

    async def say(
        self, author: str, text: str, *, kind: str = "note", **data: object
    ) -> None:
        """Add an event to the session's history; it stays even if the turn is rolled back.

        Args:
            author: The author of the text.
            text: The text for people and models.
            kind: `user`, `assistant`, `call`, `result`, `system` are messages to a model.
            data: JSON values kept with it; `call_id` and `tool` belong to a call or its result.
        """
        await self._driver.run(self.core.say(author, text, kind, data))

    async def set_state(self, changes: JsonObject) -> None:
        """Change the session's state: JSON values, None to remove a key.

        A rollback of the turn restores the values.

        Raises:
            UsageError: it is no mapping, or a key is no text.
            NotStorableError: a value would not come back as it is; the text names its key.
        """
        await self._driver.run(self.core.set_state(changes))

    async def save_artifact(self, name: str, data: bytes) -> int:
        """Save a new version of an artifact and return its number, from 0.

        A rollback of the turn makes the previous version current again.

        Raises:
            UsageError: the name is no text, or the data is not bytes.
            StoreError: it could not be written.
        """
        return await self._driver.run(self.core.save_artifact(name, data))

    @asynccontextmanager
    async def savepoint(self, name: str) -> AsyncIterator[None]:
        """Undo the work of the block if an exception leaves it.

        The exception is raised again with the report as `undo_report`; code that catches it can
        continue the turn.
        """
        with self.core.savepoint(name) as point:
            try:
                yield
            except BaseException as error:
                undo = self.core.undo_savepoint(point, error)
                try:
                    await self._driver.shielded(undo)
                except ShadowError as trouble:
                    stays_primary(error, trouble)
                raise
            await self._driver.shielded(self.core.keep_savepoint(point))

    async def undo(self, **options: Unpack[UndoOptions]) -> UndoReport:
        """Undo the turn after it has ended; as `AsyncAgentUndo.undo`."""
        return await self._driver.shielded(self._runtime.undo(self.id, options))


class AsyncAgentUndo(SessionFront[AsyncDriver, AsyncTurn]):
    """Work in one session of an agent program; an async context manager that closes it."""

    _awaits = True  # async only
    _driver_class, _turn_class = AsyncDriver, AsyncTurn

    def close(self) -> None:  # async only
        """Close the session store and end the thread that writes it, as `SessionFront.close`."""
        if self._runtime.may_close():
            self._driver.close()
            super().close()

    async def __aenter__(self) -> "AsyncAgentUndo":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(error)

    async def run_turn(
        self,
        label: str,
        work: Callable[[AsyncTurn], Awaitable[R]],
        *,
        policy: Policy | None = None,
        validate: Check | None = None,
        retries: int = 0,
    ) -> R:
        """Run a coroutine function in a turn of its own and return its value.

        Args:
            label: A description of the turn for people.
            work: The function; its argument is the turn.
            policy: As for `turn`.
            validate: As for `turn`.
            retries: The number of further runs, each in a new turn, if the check fails. There is
                none after an incomplete rollback.

        Raises:
            ValidationFailed: the check failed each time.
            SessionBusy: a turn or an undo of the session is running; nothing was changed.
            UsageError: the function returned what has not run yet, such as a generator.
            Exception: the function's own exception; the turn was rolled back.
        """
        for left in range(max(retries, 0), -1, -1):
            try:
                async with self.turn(label, policy=policy, validate=validate) as turn:
                    value = await work(turn)
                    check_has_run(value)
                    return value
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
        """Make each run of a coroutine function a turn with its name as label; see `run_turn`.

        Raises:
            UsageError: the function would do its work outside of the turn, as a generator does.
        """

        def declare(
            function: Callable[..., Awaitable[object]],
        ) -> Callable[..., Awaitable[object]]:
            check_turn_function(function, awaits=self._awaits)

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
        """Return what `undo` would do; call no inverse and change no file."""
        return await self._driver.run(self._runtime.plan(turn, options))

    async def undo(self, turn: str, **options: Unpack[UndoOptions]) -> UndoReport:
        """Undo a turn: its effects, newest first, its state and artifacts, its files.

        Args:
            turn: The id of the turn, or of one call to undo only that; the report then warns of
                later calls that may depend on it.
            options: See `UndoOptions`; a token is valid only with the options of its plan.

        Returns:
            The report, per item. A second undo repeats nothing and retries what failed.

        Raises:
            UsageError: there is no such turn or option, or a value is none that its option may
                have.
            SessionBusy: a turn or an undo of the session is running.
            RefusedError: the token is not valid, or not all can be undone; nothing was done.
        """
        return await self._driver.shielded(self._runtime.undo(turn, options))

    async def redo(self, op: str, **options: Unpack[RedoOptions]) -> UndoReport:
        """Redo: reverse an undo in files, state, artifacts and conversation.

        Effects are not repeated; the report names those that were undone.

        Args:
            op: The id of the undo.
            options: See `RedoOptions`.

        Raises:
            UsageError: the session has no such undo, or there is no such option.
            SessionBusy: a turn or an undo of the session is running.
        """
        return await self._driver.shielded(self._runtime.redo(op, options))

    async def rewind(self, before: str, **options: Unpack[RewindOptions]) -> UndoReport:
        """Restore state and files from before an invocation, and hide all later events.

        Nothing is deleted.

        Args:
            before: A turn, or the invocation of an earlier rewind, which is then undone.
            options: See `RewindOptions`.

        Raises:
            UsageError: there is no such option, or its value is none that it may have.
            SessionNotFound: the session has no history.
            InvocationNotFound: it has no such invocation.
            SessionBusy: a turn or an undo of the session is running.
            RefusedError: it was already rewound, and effects are not repeated; or the plan does
                not match the token.
        """
        return await self._driver.shielded(self._runtime.rewind(before, options))

    async def undo_last(self, *, effects: bool = False) -> UndoReport:
        """Rewind to before the newest invocation that is not rewound yet.

        Raises:
            NothingToUndo: there is none.
        """
        return await self._driver.shielded(self._runtime.undo_last(effects=effects))

    async def resume(self, op: str) -> UndoReport:
        """Continue an undo that was interrupted or left something to do; nothing is repeated."""
        return await self._driver.shielded(self._runtime.resume(op))

    async def release(self) -> list[Release]:
        """Send the held calls that are due; turns do so when they begin and commit.

        Raises:
            SessionBusy: a turn or an undo of the session is running.
        """
        return await self._driver.shielded(self._runtime.send_due())

    async def recover(self) -> list[UndoReport]:
        """Complete the rollbacks and undos of this session that a crash interrupted.

        First, the `probe` of a tool is called for each of its calls that began and never ended;
        calls without a probe stay in doubt, see `attention`. An interrupted turn is not undone.
        """
        return await self._driver.shielded(self._runtime.recover())
