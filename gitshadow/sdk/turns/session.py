"""The sync front: sessions and turns for programs without an event loop.

Invariant: every method runs a procedure of the core; `aio` has the same methods, awaited.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from os import PathLike
from types import TracebackType
from typing import ParamSpec, TypeVar, Unpack, overload

from gitshadow.errors import ShadowError
from gitshadow.sdk.turns import calls, outbox, resolution
from gitshadow.sdk.turns.base_session import SessionFront, TurnFront, stays_primary
from gitshadow.sdk.turns.call_records import CallRequest, requested
from gitshadow.sdk.turns.commands import Procedure
from gitshadow.sdk.turns.driver import Driver
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
    UndoRequest,
    request_of,
    rewind_request,
)
from gitshadow.sdk.turns.values import Outcome, Release

P = ParamSpec("P")
R = TypeVar("R")


class Turn(TurnFront):
    """Hold one turn; a context manager that commits, or rolls back when something is raised."""

    def __init__(
        self, runtime: SessionRuntime, driver: Driver, label: str, terms: Terms
    ) -> None:
        super().__init__(runtime, label, terms)
        self._driver = driver

    def __enter__(self) -> "Turn":
        """Begin the turn.

        Raises:
            SessionBusy: the session has a turn or an undo at work; nothing was changed.
        """
        core = self._runtime.new_turn(self._label, self._terms.policy)
        try:
            self._driver.run(outbox.release(core.setting))
            self._driver.run(core.begin())
        except BaseException:
            self._runtime.release()
            raise
        self._core = core
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the turn; an exception goes on, with the rollback's report as `undo_report`."""
        try:
            if error is None:
                self._driver.run(validated(self.core, self._terms.validate))
        except BaseException as failed:
            self._end(failed)
            raise
        else:
            self._end(error)
        finally:
            self._runtime.release()

    def _end(self, error: BaseException | None) -> None:
        try:
            self._driver.run(finish(self.core, error))
        except ShadowError as trouble:
            stays_primary(error, trouble)

    def call(
        self,
        tool: str,
        arguments: Mapping[str, object] | None = None,
        /,
        *,
        call_id: str | None = None,
        again: bool = False,
        **more: object,
    ) -> Outcome:
        """Run one tool call.

        Args:
            tool: Its name.
            arguments: Its arguments, whatever their names. They may be given as keywords as
                well, but for those named `call_id` or `again`.
            call_id: The model's own id for the call.
            again: Run it although a rewind hid the same call and nothing took that back.
            more: Arguments.

        Returns:
            How it ended. A failure, a denial, a conflict or an unknown tool is an outcome for the
            model to read, and the turn goes on.

        Raises:
            UsageError: `call_id` or `again` was meant for the tool: give it in `arguments`.
            TurnCancelled: `cancel` was called before.
            LimitExceeded: a bound of the turn was reached.
            Exception: what the tool raised. Let it leave the block: the turn is rolled back.
        """
        registry = self.core.setting.registry
        request = requested(
            registry, tool, arguments, more, call_id=call_id, again=again
        )
        return self._driver.run(calls.run(self.core, request))

    def call_through(
        self,
        function: Callable[..., object],
        tool: str,
        arguments: Mapping[str, object],
        *,
        call_id: str | None = None,
        origin: str | None = None,
    ) -> Outcome:
        """Run one call of a tool whose work something else does, a framework for example.

        Args:
            function: Called instead of the registered function, with the arguments and with what
                that one asks for (`idempotency_key`, `revision`).
            tool: Its name.
            arguments: Its arguments, which the journal keeps.
            call_id: The model's own id for the call.
            origin: What is the same only where a framework replays this call, in whichever turn.
                A replay of one whose effect was not undone is a duplicate.

        Returns:
            How it ended; as `call`, whose errors it raises.
        """
        request = CallRequest(
            tool, arguments, call_id, function=function, origin=origin
        )
        return self._driver.run(calls.run(self.core, request))

    def say(
        self, author: str, text: str, *, kind: str = "note", **data: object
    ) -> None:
        """Add an event to the session's history; it stays even if the turn is rolled back.

        Args:
            author: Who said it.
            text: What people and models read.
            kind: `user`, `assistant`, `call`, `result`, `system` are messages to a model.
            data: JSON values kept with it; `call_id` and `tool` belong to a call or its result.
        """
        self._driver.run(self.core.say(author, text, kind, data))

    def set_state(self, changes: Mapping[str, object]) -> None:
        """Change the session's state: JSON values, None for a key that is to be absent.

        A turn that is rolled back gives the values back.
        """
        self._driver.run(self.core.set_state(changes))

    def save_artifact(self, name: str, data: bytes) -> int:
        """Save a new version of an artifact and return its number, from 0.

        A turn that is rolled back makes the version before it current again.

        Raises:
            StoreError: it could not be written.
        """
        return self._driver.run(self.core.save_artifact(name, data))

    @contextmanager
    def savepoint(self, name: str) -> Iterator[None]:
        """Take back what was done inside the block if something leaves it by exception.

        The exception goes on with the report as `undo_report`; whoever catches it goes on with
        the turn.
        """
        mark = self._driver.run(self.core.mark())
        try:
            yield
        except BaseException as error:
            try:
                self._driver.run(self.core.undo_since(mark, name, error))
            except ShadowError as trouble:
                stays_primary(error, trouble)
            raise

    def undo(self, **options: Unpack[UndoOptions]) -> UndoReport:
        """Take back what the turn did, after it has ended; as `AgentUndo.undo`."""
        request = request_of(options)
        return _undo(self._runtime, self._driver, self.id, request)


class AgentUndo(SessionFront):
    """Hold one session of an agent program; a context manager that closes it."""

    def __init__(self, runtime: SessionRuntime) -> None:
        super().__init__(runtime)
        self._driver = Driver(runtime)

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
    ) -> "AgentUndo":
        """Open a session.

        Args:
            path: Any directory of a Git working tree in which `git agent-undo init` was run.
            session: The program's own id; turns of one id follow each other.
            tools: What its models may call.
            agent: A name for people.
            policy: What calls must pass.
            host: What the program plugs in.

        Raises:
            UnsupportedError: there is no Git working tree.
            NotInitialisedError: it is not recorded.
            JournalError: the journal cannot be used.
        """
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
    ) -> "AgentUndo":
        """Open a session kept in a store of the program's own, without any repository.

        Closing the session closes the store.
        """
        opening = Opening(session, tools, agent, policy or Policy(), host or Host())
        return cls(SessionRuntime(store, opening))

    def __enter__(self) -> "AgentUndo":
        return self

    def __exit__(
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
    ) -> Turn:
        """Return a turn; it begins where its `with` block does.

        Args:
            label: What people read of it.
            policy: What its calls must pass, in place of the session's.
            validate: Asked when the block was left without an exception: anything but True rolls
                the turn back, and `ValidationFailed` is raised.
        """
        terms = Terms(policy=policy, validate=validate)
        return Turn(self._runtime, self._driver, label, terms)

    def run_turn(
        self,
        label: str,
        work: Callable[[Turn], R],
        *,
        policy: Policy | None = None,
        validate: Check | None = None,
        retries: int = 0,
    ) -> R:
        """Run a function in a turn of its own and return its value.

        Args:
            label: What people read of the turn.
            work: Gets the turn.
            policy: As for `turn`.
            validate: As for `turn`.
            retries: How often it is run again, in a new turn, when the check said no. Where the
                rollback left something standing it is not.

        Raises:
            ValidationFailed: the check said no each time.
            SessionBusy: a turn or an undo is at work; nothing was changed.
            Exception: what the function raised; the turn was rolled back.
        """
        for left in range(max(retries, 0), -1, -1):
            try:
                with self.turn(label, policy=policy, validate=validate) as turn:
                    return work(turn)
            except ValidationFailed as error:
                if not may_retry(error, left):
                    raise
        raise AssertionError("the last round returns or raises")

    def drive(self, procedure: Procedure[R]) -> R:
        """Run a procedure of the core; for loops built on it."""
        return self._driver.run(procedure)

    @overload
    def undoable(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    @overload
    def undoable(
        self, *, validate: Check | None = None, retries: int = 0
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def undoable(
        self,
        function: Callable[..., object] | None = None,
        *,
        validate: Check | None = None,
        retries: int = 0,
    ) -> object:
        """Have every run of a function be a turn, labelled with its name; see `run_turn`."""

        def declare(function: Callable[..., object]) -> Callable[..., object]:
            @wraps(function)
            def in_turn(*args: object, **kwargs: object) -> object:
                return self.run_turn(
                    getattr(function, "__name__", "turn"),
                    lambda turn: function(*args, **kwargs),
                    validate=validate,
                    retries=retries,
                )

            return in_turn

        return declare if function is None else declare(function)

    def plan(self, turn: str, **options: Unpack[UndoOptions]) -> UndoReport:
        """Say what `undo` would do; no inverse is called, no file is touched."""
        whole = self._runtime.unwind(turn, request_of(options))
        return self._driver.run(whole.plan())

    def undo(self, turn: str, **options: Unpack[UndoOptions]) -> UndoReport:
        """Take a turn back: its effects, newest first, its state and artifacts, its files.

        Args:
            turn: Its id, or that of one call, which is taken back alone: the report warns of what
                came later and may build on it.
            options: See `UndoOptions`; a token fits only with the options that it was planned with.

        Returns:
            The report, per item. Doing it again does nothing twice and tries what failed.

        Raises:
            UsageError: there is no such turn.
            SessionBusy: a turn or an undo of this session is at work.
            RefusedError: the token does not fit, or not all can be taken back; nothing was done.
        """
        return _undo(self._runtime, self._driver, turn, request_of(options))

    def redo(self, op: str, *, token: str | None = None) -> UndoReport:
        """Take an undo back: files, state, artifacts and conversation come forward.

        Effects do not: the report names those that were taken back, and none is made again.

        Raises:
            UsageError: the session has no such undo.
            SessionBusy: a turn or an undo of this session is at work.
        """
        with self._runtime.locked():
            found = self._runtime.undoing.redo(op, token)
            return self._driver.run(self._runtime.carrying.run(found))

    def rewind(
        self,
        before: str,
        *,
        effects: bool = False,
        scope: Collection[str] | None = None,
        token: str | None = None,
    ) -> UndoReport:
        """Go back to before an invocation: state and files restored, what followed hidden.

        Nothing is deleted.

        Args:
            before: A turn, or an earlier rewind's own invocation: then that rewind is undone.
            effects: Whether outside effects are taken back too; else the report names them.
            scope: Any of `files`, `effects`, `state`, `artifacts`, `events`; all but effects by
                default.
            token: Of a plan: refuse where the plan is another one by now.

        Raises:
            SessionNotFound: the session has no history.
            InvocationNotFound: it has no such invocation.
            SessionBusy: a turn or an undo of this session is at work.
            RefusedError: it was rewound already, and effects are not made again; or the plan
                is not the one that the token stands for.
        """
        with self._runtime.locked():
            request = rewind_request(effects=effects, scope=scope, token=token)
            found = self._runtime.undoing.rewind(before, request)
            return self._driver.run(self._runtime.carrying.run(found))

    def undo_last(self, *, effects: bool = False) -> UndoReport:
        """Go back to before the newest invocation that counts; again: one further.

        Raises:
            NothingToUndo: there is none.
        """
        with self._runtime.locked():
            request = rewind_request(effects=effects, scope=None)
            found = self._runtime.undoing.rewind(
                self._runtime.past.last_live(), request
            )
            return self._driver.run(self._runtime.carrying.run(found))

    def resume(self, op: str) -> UndoReport:
        """Go on with an undo that left something or was interrupted; what is done stays."""
        with self._runtime.locked(finishing=True):
            work = self._runtime.carrying.resumed(op)
            return self._driver.run(self._runtime.carrying.run(work, again=True))

    def release(self) -> list[Release]:
        """Send the held calls whose time has come; turns do so when they begin and commit.

        Raises:
            SessionBusy: a turn or an undo of this session is at work.
        """
        with self._runtime.locked():
            return self._driver.run(outbox.release(self._runtime.setting))

    def recover(self) -> list[UndoReport]:
        """Bring to their end the rollbacks and undos of this session that a crash interrupted.

        Calls that began and never ended are asked about first, where their tools have a `probe`;
        the others stay in doubt, see `attention`. An interrupted turn is not undone by itself.
        """
        with self._runtime.locked(finishing=True):
            self._driver.run(resolution.ask_probes(self._runtime))
            return self._driver.run(self._runtime.carrying.recover())


def _undo(
    runtime: SessionRuntime, driver: Driver, turn: str, request: UndoRequest
) -> UndoReport:
    with runtime.locked():
        return driver.run(runtime.carrying.run(runtime.unwind(turn, request)))
