"""A framework's run as one turn: what the adapters of all frameworks are made of.

A framework runs tools in its own way; here each of its calls passes through the turn in which it
runs. Invariant: a tool that raised has failed the turn, whatever its framework makes of the error,
and every call has ended before its turn does.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Container,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.errors import UsageError
from gitshadow.sdk.integrations.tool_exposure import Cell, Errors, plain_name
from gitshadow.sdk.turns import calls
from gitshadow.sdk.turns.async_session import AsyncAgentUndo, AsyncTurn
from gitshadow.sdk.turns.call_records import CallRequest
from gitshadow.sdk.turns.commands import Returned
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.hook_turns import concluded
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.turn_end import Check
from gitshadow.sdk.turns.values import Outcome, OutcomeKind
from gitshadow.store.journal.saga_rows import SagaCall

NO_ERRORS = (OutcomeKind.SUCCESS, OutcomeKind.HELD)
"""Outcomes of calls that did their work, or are to do it after the turn."""


class Asked(NamedTuple):
    """Hold what a model asked for: the tool as the framework names it, and the framework's id.

    `origin` is what the framework gives again only where it replays this very call.
    """

    name: str
    arguments: Mapping[str, object]
    call_id: str | None
    origin: str | None = None


class CallEnd(NamedTuple):
    """Hold how a call ended, and what the framework's own tool answered; None: it did not run."""

    outcome: Outcome
    answer: Returned | None

    @property
    def is_error(self) -> bool:
        """Tell whether the model reads it as an error; a call that is held is none."""
        return self.outcome.kind not in NO_ERRORS


@dataclass(slots=True)
class _Work:
    """What a framework does in one call, as a function of the tool's arguments."""

    execute: Callable[[], Awaitable[object]]
    takes: frozenset[str]
    passing: Errors
    passed: Exception | None = None
    answer: Returned | None = None

    async def run(self, **given: object) -> object:
        """Have it done; return what the tool's own function gave, else the framework's answer."""
        cell = Cell({name: given[name] for name in self.takes}, self.passing)
        with cell.carried():
            try:
                answer = self.answer = Returned(await self.execute())
            except self.passing as error:
                self.passed = error
                raise ToolFailure(str(error) or type(error).__name__) from error
        return (cell.result or answer).value


@dataclass(slots=True)
class _Run:
    turn: AsyncTurn
    by_hooks: bool = False
    failed: Exception | None = None
    at_work: list["asyncio.Task[object]"] = field(default_factory=list)
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Say that a call is at work; what it raises fails a turn that is a block."""
        task = asyncio.current_task()
        assert task is not None, "a call runs in a task"
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
        """Wait until no call is at work; a cancelled run cancels those that are."""
        for task in set(self.at_work) if cancel else ():
            task.cancel()
        if self.at_work:
            await self.idle.wait()


class Runs:
    """Hold the turn in which a framework runs at the moment.

    Args:
        au: The session; it has one turn at a time.
    """

    def __init__(self, au: AsyncAgentUndo) -> None:
        self._au = au
        self._run: _Run | None = None

    @property
    def registry(self) -> ToolRegistry:
        """Return how the tools are declared."""
        return self._au.runtime.setting.registry

    @property
    def failed(self) -> Exception | None:
        """Return what a tool of the turn at work raised, or None."""
        return self._run.failed if self._run is not None else None

    @property
    def by_hooks(self) -> bool | None:
        """Tell whether hooks opened the turn at work, and not a block; None: there is none."""
        return self._run.by_hooks if self._run is not None else None

    @asynccontextmanager
    async def turn(
        self, label: str, *, policy: Policy | None = None, validate: Check | None = None
    ) -> AsyncIterator[AsyncTurn]:
        """Have a block be one turn: whatever the framework runs inside it.

        Args:
            label: For people.
            policy: As for `AgentUndo.turn`.
            validate: As for `AgentUndo.turn`.

        Raises:
            SessionBusy: the session has a turn or an undo at work; nothing was changed.
            Exception: what a tool raised, itself, even where the framework wrapped it or showed
                it to the model; the turn was rolled back, and the report is its `undo_report`.
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
        """Run a framework's call in the turn at work.

        Args:
            asked: What the model asked for.
            execute: Has the framework run its tool.
            passing: Errors by which a tool talks to its framework (try again, ask first); the call
                has done nothing then, and the turn goes on.

        Returns:
            How it ended; a call that has done its work in this turn is a `duplicate`.

        Raises:
            UsageError: no turn is running.
            Exception: what the tool raised, or an earlier one: the turn is over. One of `passing`.
        """
        run = self._at_work(asked.name)
        if run.failed is not None:
            raise run.failed
        known = run.turn.core.calls
        if (before := done_before(known, asked)) is not None:
            return before
        tool = declared(self.registry, asked.name)
        work = _Work(execute, tool.takes, passing)
        with run.busy():
            outcome = await run.turn.call_through(
                work.run,
                tool.name,
                asked.arguments,
                call_id=fresh_id(known, asked.call_id),
                origin=asked.origin,
            )
        if work.passed is not None:
            raise work.passed
        return CallEnd(outcome, work.answer)

    async def begin(self, label: str) -> None:
        """Open a turn because a hook tells of one; nothing rolls it back by itself.

        One that hooks opened and that has no end was interrupted: it is marked so.

        Raises:
            SessionBusy: the session has a turn or an undo at work.
        """
        if self.by_hooks:
            self._au.runtime.release()  # whoever takes it next finds the turn and marks it
        self._run = None
        turn = self._au.turn(label)
        await turn.__aenter__()
        self._run = _Run(turn, by_hooks=True)

    async def end(self) -> None:
        """Commit the turn that hooks opened, if one is open."""
        if self._run is not None and self._run.by_hooks:
            run = self._run
            await self._settle(run)
            await run.turn.__aexit__(None, None, None)

    async def announce(self, asked: Asked) -> Outcome | None:
        """Write down a call that runs elsewhere, in a turn of its own where none is at work.

        Returns:
            None to let it run; an outcome for the model where it must not.

        Raises:
            Exception: what a guard raised, or an earlier error: the turn is over.
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
        """Write down how an announced call ended; one that nobody announced is left alone."""
        run = self._run
        row = run.turn.core.calls.get(call_id) if run is not None else None
        if run is not None and row is not None and row.outcome is None:
            with run.busy():
                await self._au.drive(concluded(run.turn.core, call_id, ended))

    async def note(self, author: str, text: str) -> None:
        """Add a line to the session's history, if a turn is at work."""
        if self._run is not None:
            await self._run.turn.say(author, text)

    async def _settle(self, run: _Run, *, cancel: bool = False) -> None:
        """Let no other call begin, and wait for those at work."""
        self._run = None
        await run.settle(cancel=cancel)

    def _at_work(self, tool: str) -> _Run:
        if self._run is None:
            raise UsageError(
                f"cannot call {tool}: no turn is running",
                hint="run the framework inside: async with runs.turn(...)",
            )
        return self._run


def declared(registry: ToolRegistry, name: str) -> Tool:
    """Return how a framework's tool is declared; one that is not becomes undeclared."""
    for tool in registry:
        if name in (tool.name, plain_name(tool.name)):
            return tool
    full = name if "." in name else f"tool.{name}"
    return registry.find(full) or registry.add(full, elsewhere)


def done_before(known: Mapping[str, SagaCall], asked: Asked) -> CallEnd | None:
    """Return the duplicate where a call of this id has done its work, or is to do it later."""
    row = known.get(asked.call_id) if asked.call_id is not None else None
    if row is None or row.outcome not in NO_ERRORS:
        return None
    said = f"{asked.name} was already run in this turn as {asked.call_id}; it was not run again"
    return CallEnd(Outcome.duplicate(said), None)


def fresh_id(known: Container[str | None], call_id: str | None) -> str | None:
    """Return an id that is new; another attempt of a call that did nothing gets a number."""
    attempt, found = 1, call_id
    while found in known:
        attempt += 1
        found = f"{call_id}~{attempt}"
    return found


def elsewhere(**arguments: object) -> object:
    """Stand for the function of a tool that its framework runs."""
    raise UsageError("cannot run a tool that its framework runs")
