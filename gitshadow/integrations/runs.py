"""A framework's run as one turn: what the adapters of all frameworks are made of.

A framework runs tools in its own way; here each of its calls passes through the turn in which it
runs. Invariant: a tool that raised has failed the turn, whatever its framework makes of the error,
and every call has ended before its turn does.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.errors import UsageError
from gitshadow.integrations.exposing import Cell, Errors, plain_name
from gitshadow.turns.aio import AsyncAgentUndo, AsyncTurn
from gitshadow.turns.errors import ToolFailure
from gitshadow.turns.registry import Tool, ToolRegistry
from gitshadow.turns.values import Outcome, OutcomeKind


class Asked(NamedTuple):
    """Hold what a model asked for: the tool as the framework names it, and the framework's id."""

    name: str
    arguments: Mapping[str, object]
    call_id: str


class Done(NamedTuple):
    """Hold how a call ended, and what the framework's own tool answered (None: it did not run)."""

    outcome: Outcome
    answer: object


@dataclass(slots=True)
class _Work:
    """What a framework does in one call, as a function of the tool's arguments."""

    execute: Callable[[], Awaitable[object]]
    takes: frozenset[str]
    passing: Errors
    passed: Exception | None = None
    answer: object = None

    async def run(self, **given: object) -> object:
        """Have it done; return what the tool's own function gave, else the framework's answer."""
        cell = Cell({name: given[name] for name in self.takes}, self.passing)
        with cell.carried():
            try:
                self.answer = await self.execute()
            except self.passing as error:
                self.passed = error
                raise ToolFailure(str(error) or type(error).__name__) from error
        return cell.result.value if cell.result is not None else self.answer


@dataclass(slots=True)
class _Run:
    turn: AsyncTurn
    failed: Exception | None = None
    at_work: set["asyncio.Task[object]"] = field(default_factory=set)
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Say that a call is at work; what it raises fails the turn."""
        task = asyncio.current_task()
        assert task is not None, "a call runs in a task"
        self.at_work.add(task)
        self.idle.clear()
        try:
            yield
        except Exception as error:
            self.failed = self.failed or error
            raise
        finally:
            self.at_work.discard(task)
            if not self.at_work:
                self.idle.set()

    async def settle(self, *, cancel: bool) -> None:
        """Wait until no call is at work; a cancelled run cancels those that are."""
        for task in self.at_work if cancel else ():
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
        return self._au.desk.setting.registry

    @property
    def failed(self) -> Exception | None:
        """Return what a tool of the turn at work raised, or None."""
        return self._run.failed if self._run is not None else None

    @asynccontextmanager
    async def turn(self, label: str) -> AsyncIterator[AsyncTurn]:
        """Have a block be one turn: whatever the framework runs inside it.

        Raises:
            SessionBusy: the session has a turn or an undo at work; nothing was changed.
            Exception: what a tool raised, itself, even where the framework wrapped it or showed
                it to the model; the turn was rolled back, and the report is its `undo_report`.
        """
        async with self._au.turn(label) as turn:
            run = self._run = _Run(turn)
            try:
                yield turn
            except BaseException as error:
                await run.settle(cancel=isinstance(error, asyncio.CancelledError))
                if run.failed not in (None, error) and isinstance(error, Exception):
                    raise run.failed from error
                raise
            finally:
                self._run = None
            await run.settle(cancel=False)
            if run.failed is not None:
                raise run.failed

    async def call(
        self,
        asked: Asked,
        execute: Callable[[], Awaitable[object]],
        passing: Errors = (),
    ) -> Done:
        """Run a framework's call in the turn at work.

        Args:
            asked: What the model asked for.
            execute: Has the framework run its tool.
            passing: Errors by which a tool talks to its framework (try again, ask first); the call
                has done nothing then, and the turn goes on.

        Returns:
            How it ended; a call that has done its work in this turn is a `duplicate`.

        Raises:
            UsageError: no turn is at work.
            Exception: what the tool raised, or an earlier one: the turn is over. One of `passing`.
        """
        run = self._at_work(asked.name)
        if run.failed is not None:
            raise run.failed
        earlier = run.turn.core.calls.get(asked.call_id)
        if earlier is not None and earlier.outcome == OutcomeKind.SUCCESS:
            return Done(_repeated(asked), None)
        tool = self._declared(asked.name)
        call_id = asked.call_id if earlier is None else _next_id(asked.call_id, run)
        work = _Work(execute, tool.takes, passing)
        with run.busy():
            outcome = await run.turn.call_through(
                work.run, tool.name, asked.arguments, call_id=call_id
            )
        if work.passed is not None:
            raise work.passed
        return Done(outcome, work.answer)

    def _at_work(self, tool: str) -> _Run:
        if self._run is None:
            raise UsageError(
                f"could not call {tool}: no turn is at work",
                hint="run the framework inside: async with runs.turn(...)",
            )
        return self._run

    def _declared(self, name: str) -> Tool:
        """Return how a framework's tool is declared; one that is not becomes undeclared."""
        for tool in self.registry:
            if name in (tool.name, plain_name(tool.name)):
                return tool
        full = name if "." in name else f"tool.{name}"
        return self.registry.find(full) or self.registry.add(full, _elsewhere)


def _repeated(asked: Asked) -> Outcome:
    said = f"{asked.name} has run in this turn as {asked.call_id}; it was not run again"
    return Outcome(OutcomeKind.DUPLICATE, said)


def _next_id(call_id: str, run: _Run) -> str:
    """Return an id for another attempt of a call that did nothing the first time."""
    attempt = 2
    while f"{call_id}~{attempt}" in run.turn.core.calls:
        attempt += 1
    return f"{call_id}~{attempt}"


def _elsewhere(**arguments: object) -> object:
    raise UsageError("could not run a tool that its framework runs")
