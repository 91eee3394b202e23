"""A framework's run as one turn: the base of the adapters of all frameworks.

A framework runs tools in its own way; here each of its calls passes through the turn in which it
runs. `Runs` is for frameworks that await tools, `SyncRuns` for those that call them.
Invariant: a tool that raised has failed the turn, even if its framework hides the error, and every
call has ended before its turn does.
"""

import asyncio
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from gitshadow.errors import UsageError
from gitshadow.sdk.integrations.tool_exposure import Cell, Errors, plain_name
from gitshadow.sdk.turns import calls
from gitshadow.sdk.turns.async_session import AsyncAgentUndo, AsyncTurn
from gitshadow.sdk.turns.call_records import CallRequest
from gitshadow.sdk.turns.commands import Returned
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.mcp_tools import as_name
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo, Turn
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.turn_end import Check
from gitshadow.sdk.turns.values import JsonObject, Outcome, OutcomeKind
from gitshadow.store.journal.saga_rows import SagaCall

T = TypeVar("T")

NO_ERRORS = (OutcomeKind.SUCCESS, OutcomeKind.HELD)
"""Outcomes of calls that did their work, or will do it after the turn."""

# A tool may run another agent: the variable is copied into the threads of its framework.
_IN_A_CALL: ContextVar[bool] = ContextVar("gitshadow_in_a_call", default=False)


class Asked(NamedTuple):
    """A call that a model requested: the framework's name of the tool, and its id of the call.

    `origin` is a text that is equal only if the framework replays this call.
    """

    name: str
    arguments: JsonObject
    call_id: str | None
    origin: str | None = None


class CallEnd(NamedTuple):
    """The outcome of a call, and the answer of the framework's tool; None if it did not run."""

    outcome: Outcome
    answer: Returned[object] | None

    @property
    def is_error(self) -> bool:
        """Whether the model reads it as an error; a held call is no error."""
        return self.outcome.kind not in NO_ERRORS


@dataclass(slots=True)
class _Work(Generic[T]):
    """The framework's own work in one call, as a function of the tool's arguments."""

    execute: Callable[[], T]
    takes: frozenset[str]
    passing: Errors
    passed: Exception | None = None
    answer: Returned[object] | None = None

    async def run(self: "_Work[Awaitable[object]]", **given: object) -> object:
        """Await it; return the value of the tool's own function, else the framework's answer."""
        with self._carrying(**given) as cell:
            answer = self.answer = Returned(await self.execute())
        return (cell.result or answer).value

    def run_sync(self, **given: object) -> object:
        """Do as `run` for a framework that does not await its tools."""
        with self._carrying(**given) as cell:
            answer = self.answer = Returned(self.execute())
        return (cell.result or answer).value

    @contextmanager
    def _carrying(self, **given: object) -> Iterator[Cell]:
        cell = Cell({name: given[name] for name in self.takes}, self.passing)
        with cell.carried():
            try:
                yield cell
            except self.passing as error:
                self.passed = error
                raise ToolFailure(str(error) or type(error).__name__) from error

    def ended(self, outcome: Outcome) -> CallEnd:
        """Return the end of the call; raise the error that is between tool and framework."""
        if self.passed is not None:
            raise self.passed
        return CallEnd(outcome, self.answer)


@dataclass(slots=True)
class _Run:
    turn: AsyncTurn
    by_hooks: bool = False
    failed: Exception | None = None
    at_work: list["asyncio.Task[object] | None"] = field(default_factory=list)
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count a running call; its exception fails a turn that is a block."""
        task = asyncio.current_task()
        self.at_work.append(task)  # twice where a tool runs another agent
        self.idle.clear()
        try:
            yield
        except Exception as error:
            if not self.by_hooks:
                self.failed = self.failed or error
            raise
        finally:
            self.at_work.remove(task)
            if not self.at_work:
                self.idle.set()

    async def settle(self, *, cancel: bool) -> None:
        """Wait until no call is running; a cancelled run cancels those that are."""
        for task in filter(None, set(self.at_work) if cancel else ()):
            task.cancel()
        if self.at_work:
            await self.idle.wait()


class Runs:
    """Pass the calls of a framework through the turn in which it runs.

    Args:
        au: The session; it has one turn at a time.
    """

    def __init__(self, au: AsyncAgentUndo) -> None:
        self._au = au
        self._run: _Run | None = None

    @property
    def registry(self) -> ToolRegistry:
        """Return the declarations of the tools."""
        return self._au.runtime.setting.registry

    @property
    def failed(self) -> Exception | None:
        """Return the exception of a tool of the running turn, or None."""
        return self._run.failed if self._run is not None else None

    @property
    def by_hooks(self) -> bool | None:
        """Whether hooks opened the running turn, and not a block; None if there is no turn."""
        return self._run.by_hooks if self._run is not None else None

    @asynccontextmanager
    async def turn(
        self, label: str, *, policy: Policy | None = None, validate: Check | None = None
    ) -> AsyncIterator[AsyncTurn]:
        """Make a block one turn, with all calls that the framework runs in it.

        Args:
            label: A description for people.
            policy: As for `AgentUndo.turn`.
            validate: As for `AgentUndo.turn`.

        Raises:
            SessionBusy: a turn or an undo of the session is running; nothing was changed.
            Exception: the original exception of a tool, even if the framework wrapped it or
                showed it to the model; the turn was rolled back, `undo_report` is the report.
        """
        async with self._au.turn(label, policy=policy, validate=validate) as turn:
            run = self._run = _Run(turn)
            try:
                yield turn
            except BaseException as error:
                is_cancelled = isinstance(error, asyncio.CancelledError)
                await self._settle(run, cancel=is_cancelled)
                if run.failed is None or not isinstance(error, Exception):
                    raise
            else:
                await self._settle(run)
            if run.failed is not None:
                raise run.failed

    async def call(
        self,
        asked: Asked,
        execute: Callable[[], Awaitable[object]],
        passing: Errors = (),
    ) -> CallEnd:
        """Run a framework's call in the running turn.

        Args:
            asked: The call that the model requested.
            execute: Makes the framework run its tool.
            passing: Errors that are messages of a tool to its framework (retry, ask first); such
                a call did nothing, and the turn continues.

        Returns:
            The end of the call; a call that already did its work in this turn is a `duplicate`.

        Raises:
            UsageError: no turn is running.
            Exception: of this tool or an earlier one, which ends the turn; or one of `passing`.
        """
        run = self._at_work(asked.name)
        if run.failed is not None:
            raise run.failed
        core = run.turn.core
        if (before := done_before(core.calls, asked)) is not None:
            return before
        tool = declared(self.registry, asked.name)
        work = _Work(execute, tool.takes, passing)
        with run.busy():
            outcome = await run.turn.call_through(
                work.run,
                tool.name,
                asked.arguments,
                call_id=fresh_id(core, asked.call_id),
                origin=asked.origin,
            )
        return work.ended(outcome)

    async def begin(self, label: str) -> None:
        """Open a turn for a hook; it is not rolled back automatically.

        An earlier turn of hooks that did not end is marked as interrupted.

        Raises:
            SessionBusy: a turn or an undo of the session is running.
        """
        if self.by_hooks:
            self._au.runtime.release()  # the next owner of the lock marks the turn
        self._run = None
        turn = self._au.turn(label)
        await turn.__aenter__()
        self._run = _Run(turn, by_hooks=True)

    async def end(self) -> None:
        """Commit the turn that hooks opened, if any."""
        if self._run is not None and self._run.by_hooks:
            run = self._run
            await self._settle(run)
            await run.turn.__aexit__(None, None, None)

    async def announce(self, asked: Asked) -> Outcome | None:
        """Record the start of a call that runs elsewhere; open a turn if none is running.

        Returns:
            None if the call may run; otherwise an outcome for the model.

        Raises:
            Exception: of a guard or an earlier tool, which ends the turn.
        """
        if self._run is None:
            await self.begin("")
        run = self._at_work(asked.name)
        if run.failed is not None:
            raise run.failed
        tool = declared(self.registry, asked.name)
        request = CallRequest(tool.name, asked.arguments, asked.call_id)
        with run.busy():
            return await self._au.drive(calls.announce(run.turn.core, request))

    async def conclude(self, call_id: str, ended: Outcome | Exception) -> None:
        """Record the end of an announced call; ignore a call that was not announced."""
        run = self._run
        row = run.turn.core.calls.get(call_id) if run is not None else None
        if run is not None and row is not None and row.outcome is None:
            with run.busy():
                await self._au.drive(calls.conclude(run.turn.core, call_id, ended))

    async def note(self, author: str, text: str) -> None:
        """Add a line to the session's history, if a turn is running."""
        if self._run is not None:
            await self._run.turn.say(author, text)

    async def _settle(self, run: _Run, *, cancel: bool = False) -> None:
        """Let no other call begin, and wait for the running ones."""
        self._run = None
        await run.settle(cancel=cancel)

    def _at_work(self, tool: str) -> _Run:
        if self._run is None:
            raise UsageError(
                f"cannot call {tool}: no turn is running",
                hint="run the framework inside: async with runs.turn(...)",
            )
        return self._run


@dataclass(slots=True)
class _SyncRun:
    turn: Turn
    failed: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Keep the first error."""
        # A later one may only be a consequence of it.
        self.failed = self.failed or error


class SyncRuns:
    """Pass the calls of a framework through the turn in which it runs, without an event loop.

    A framework may run tools in threads of its own; their calls are run one after the other.

    Args:
        au: The session; it has one turn at a time.
    """

    def __init__(self, au: AgentUndo) -> None:
        self._au = au
        self._run: _SyncRun | None = None
        self._one_at_a_time = threading.Lock()

    @property
    def registry(self) -> ToolRegistry:
        """Return the declarations of the tools."""
        return self._au.runtime.setting.registry

    @contextmanager
    def turn(
        self, label: str, *, policy: Policy | None = None, validate: Check | None = None
    ) -> Iterator[Turn]:
        """Make a block one turn, with all calls that the framework runs in it; as `Runs.turn`."""
        with self._au.turn(label, policy=policy, validate=validate) as turn:
            run = self._run = _SyncRun(turn)
            try:
                yield turn
            except Exception:
                if run.failed is None:
                    raise
            finally:
                with self._one_at_a_time:  # so no call is at work
                    self._run = None
            if run.failed is not None:
                raise run.failed

    def call(
        self, asked: Asked, execute: Callable[[], object], passing: Errors = ()
    ) -> CallEnd:
        """Run a framework's call in the running turn, after earlier calls; as `Runs.call`."""
        # The call of an agent that a tool runs: the call of that tool waits for it.
        if _IN_A_CALL.get():
            return self._called(asked, execute, passing)
        with self._one_at_a_time:
            token = _IN_A_CALL.set(True)
            try:
                return self._called(asked, execute, passing)
            finally:
                _IN_A_CALL.reset(token)

    def _called(
        self, asked: Asked, execute: Callable[[], object], passing: Errors
    ) -> CallEnd:
        run = self._run
        if run is None:
            raise UsageError(
                f"cannot call {asked.name}: no turn is running",
                hint="run the framework inside: with runs.turn(...)",
            )
        if run.failed is not None:
            raise run.failed
        core = run.turn.core
        if (before := done_before(core.calls, asked)) is not None:
            return before
        tool = declared(self.registry, asked.name)
        work = _Work(execute, tool.takes, passing)
        try:
            outcome = run.turn.call_through(
                work.run_sync,
                tool.name,
                asked.arguments,
                call_id=fresh_id(core, asked.call_id),
                origin=asked.origin,
            )
        except Exception as error:
            run.fail(error)
            raise
        return work.ended(outcome)


def declared(registry: ToolRegistry, name: str) -> Tool:
    """Return the declaration of a framework's tool; add an empty one if there is none."""
    for tool in registry:
        if name in (tool.name, plain_name(tool.name)):
            return tool
    full = as_name(name if "." in name else f"tool.{name}")
    return registry.find(full) or registry.add(full, elsewhere)


def done_before(known: Mapping[str, SagaCall], asked: Asked) -> CallEnd | None:
    """Return a duplicate if a call of this id did its work, or will do it later; or None."""
    row = known.get(asked.call_id) if asked.call_id is not None else None
    if row is None or row.outcome not in NO_ERRORS:
        return None
    said = f"{asked.name} was already run in this turn as {asked.call_id}; it was not run again"
    return CallEnd(Outcome.duplicate(said), None)


def fresh_id(turn: TurnCore, call_id: str | None) -> str | None:
    """Return an unused id; a call of a used one, such as a retry, gets a number."""
    attempt, found = 1, call_id
    while found is not None and turn.has(found):
        attempt += 1
        found = f"{call_id}~{attempt}"
    return found


def elsewhere(**arguments: object) -> object:
    """Refuse to run; registered for a tool that its framework runs."""
    raise UsageError("cannot run a tool that its framework runs")
