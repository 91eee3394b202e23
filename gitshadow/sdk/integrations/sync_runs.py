"""A framework's run as one turn, where neither waits for the other: `runs` without asyncio.

A framework may run tools in threads of its own; here their calls come one after the other.
Invariant: as in `runs`: a tool that raised has failed the turn, and every call has ended before its
turn does.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from gitshadow.errors import UsageError
from gitshadow.sdk.integrations.runs import (
    Asked,
    CallEnd,
    declared,
    done_before,
    fresh_id,
)
from gitshadow.sdk.integrations.tool_exposure import Cell, Errors
from gitshadow.sdk.turns.commands import Returned
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo, Turn
from gitshadow.sdk.turns.turn_end import Check

# It goes along into the threads of a framework: a tool may run another agent.
_IN_A_CALL: ContextVar[bool] = ContextVar("gitshadow_in_a_call", default=False)


@dataclass(slots=True)
class _Work:
    """What a framework does in one call, as a function of the tool's arguments."""

    execute: Callable[[], object]
    takes: frozenset[str]
    passing: Errors
    passed: Exception | None = None
    answer: Returned | None = None

    def run(self, **given: object) -> object:
        """Have it done; return what the tool's own function gave, else the framework's answer."""
        cell = Cell({name: given[name] for name in self.takes}, self.passing)
        with cell.carried():
            try:
                answer = self.answer = Returned(self.execute())
            except self.passing as error:
                self.passed = error
                raise ToolFailure(str(error) or type(error).__name__) from error
        return (cell.result or answer).value


@dataclass(slots=True)
class _Run:
    turn: Turn
    failed: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Keep the first error: a later one may be what became of it."""
        self.failed = self.failed or error


class SyncRuns:
    """Hold the turn in which a framework runs at the moment.

    Args:
        au: The session; it has one turn at a time.
    """

    def __init__(self, au: AgentUndo) -> None:
        self._au = au
        self._run: _Run | None = None
        self._one_at_a_time = threading.Lock()

    @property
    def registry(self) -> ToolRegistry:
        """Return how the tools are declared."""
        return self._au.runtime.setting.registry

    @contextmanager
    def turn(
        self, label: str, *, policy: Policy | None = None, validate: Check | None = None
    ) -> Iterator[Turn]:
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
        with self._au.turn(label, policy=policy, validate=validate) as turn:
            run = self._run = _Run(turn)
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
        """Run a framework's call in the turn at work, when the others have ended.

        Args:
            asked: What the model asked for.
            execute: Has the framework run its tool.
            passing: Errors by which a tool talks to its framework; as `Runs.call`.

        Returns:
            How it ended; a call that has done its work in this turn is a `duplicate`.

        Raises:
            UsageError: no turn is running.
            Exception: what the tool raised, or an earlier one: the turn is over. One of `passing`.
        """
        if (
            _IN_A_CALL.get()
        ):  # of an agent that a tool runs: that call waits for this one
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
        known = run.turn.core.calls
        if (before := done_before(known, asked)) is not None:
            return before
        tool = declared(self.registry, asked.name)
        work = _Work(execute, tool.takes, passing)
        try:
            outcome = run.turn.call_through(
                work.run,
                tool.name,
                asked.arguments,
                call_id=fresh_id(known, asked.call_id),
                origin=asked.origin,
            )
        except Exception as error:
            run.fail(error)
            raise
        if work.passed is not None:
            raise work.passed
        return CallEnd(outcome, work.answer)
