"""The trials of a proof: turns on a store in memory that commit or fail on purpose.

Invariant: a trial is an ordinary turn, so a proof tests the code that will run; a step of the
script that does not succeed ends the proof.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from gitshadow.errors import UsageError
from gitshadow.sdk.testing.memory_store import MemoryStore
from gitshadow.sdk.turns import calls, outbox
from gitshadow.sdk.turns.async_driver import AsyncDriver
from gitshadow.sdk.turns.call_records import CallRequest
from gitshadow.sdk.turns.commands import (
    Command,
    Invoke,
    Pause,
    Procedure,
    T,
    answered_by,
    demand,
    in_the_open,
)
from gitshadow.sdk.turns.driver import Driver
from gitshadow.sdk.turns.file_recording import FileRecorder
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Limits, Policy
from gitshadow.sdk.turns.protocols import Clock, SessionStore
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session_runtime import Opening, SessionRuntime
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.undo_operation import Whole
from gitshadow.sdk.turns.undo_request import UndoRequest
from gitshadow.sdk.turns.values import JsonObject, OutcomeKind
from gitshadow.store.journal.saga_rows import SagaOp

Arguments: TypeAlias = JsonObject | Callable[[Sequence[object]], JsonObject]
Script: TypeAlias = Sequence[tuple[str, Arguments]]
"""Calls in order: a tool, and its arguments or a function of the results before it."""

_UNBOUND = Limits(tool_calls=None)


class Hurried(Driver):
    """Run procedures without the pauses between two attempts."""

    def perform(self, command: Command) -> object:
        """Run a command, but skip pauses."""
        return None if isinstance(command, Pause) else super().perform(command)


class AsyncHurried(AsyncDriver):
    """As `Hurried`, awaited."""

    async def perform(self, command: Command) -> object:
        """Run a command, but skip pauses."""
        return None if isinstance(command, Pause) else await super().perform(command)


class BrokenError(Exception):
    """The exception that ends a turn on purpose."""


class Rigged(ToolRegistry):
    """The program's tools; the next call can be made to fail before or after its work."""

    def __init__(self, inner: ToolRegistry) -> None:
        super().__init__()
        self._inner = inner
        self.failing: Literal["before", "after"] | None = None

    def find(self, name: str) -> Tool | None:
        """Return a tool; it fails if `failing` is set."""
        found = self._inner.find(name)
        if found is None or self.failing is None:
            return found
        is_before = self.failing == "before"
        return replace(found, function=_fail if is_before else _Ran(found.function))

    def find_handler(self, name: str) -> Tool | None:
        """Return the handler of an inverse; it never fails on purpose."""
        return self._inner.find_handler(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._inner)


def _fail(**arguments: object) -> None:
    raise BrokenError


class _Ran:
    """Do a tool's work, but lose the answer."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def __call__(self, **arguments: object) -> object:
        value = self._function(**arguments)
        if inspect.isawaitable(value):
            return self._later(value)
        raise BrokenError

    async def _later(self, value: Awaitable[object]) -> None:
        await value
        raise BrokenError


@dataclass(slots=True)
class Trial:
    """The session of a trial, and the results of its calls."""

    runtime: SessionRuntime
    results: list[object] = field(default_factory=list)


@dataclass(slots=True)
class Trials:
    """Make trials and run turns in them; the session of both drivers."""

    tools: ToolRegistry
    script: Script
    observe: Callable[[], object]
    reset: Callable[[], object] | None
    policy: Policy
    host: Host
    store: SessionStore = field(default_factory=MemoryStore)
    recorder: FileRecorder | None = None
    runtimes: dict[str, SessionRuntime] = field(default_factory=dict)
    rig: Rigged = field(init=False)
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.rig = Rigged(self.tools)
        self.clock = self.host.clock

    def fresh(self) -> Procedure[Trial]:
        """Begin a trial."""
        if self.reset is not None:
            yield from demand(Invoke(self.reset))
        # A trial runs tools on purpose, so nobody is asked. Limits are meant for a turn of the
        # program, and a script may be longer.
        policy = replace(self.policy, non_reversible="allow", limits=_UNBOUND)
        name = f"proof-{len(self.runtimes) + 1}"
        opening = Opening(name, self.rig, None, policy, self.host)
        self.runtimes[name] = SessionRuntime(self.store, opening)
        return Trial(self.runtimes[name])

    def composed(self, op: SagaOp) -> Whole:
        """Return the undo of an op of a trial."""
        return self.runtimes[op.session].composed(op)

    def look(self) -> Procedure[object]:
        """Return a copy of the observed state, which may be live."""
        return deepcopy((yield from demand(Invoke(self.observe))))

    def turn(
        self,
        trial: Trial,
        body: Callable[[TurnCore], Procedure[None]],
        *,
        broken: bool,
        watch: Callable[[Command, object], Procedure[None]] | None = None,
    ) -> Procedure[TurnCore]:
        """Run a turn that commits, or fails after its body."""
        core = trial.runtime.new_turn("proof")
        try:
            yield from core.begin()
            try:
                yield from body(core)
            except BrokenError:
                broken = True
            except BaseException as error:
                yield from core.finish(error)
                raise
            end = core.finish(BrokenError("broken on purpose") if broken else None)
            yield from end if watch is None else watched(end, watch)
            if not broken:
                yield from outbox.release(core.setting)
        finally:
            self.rig.failing = None
            trial.runtime.release()
        return core

    def call(self, core: TurnCore, trial: Trial, index: int) -> Procedure[None]:
        """Run one step of the script; it must succeed."""
        name, given = self.script[index]
        arguments = given(trial.results) if callable(given) else given
        outcome = yield from calls.run(core, CallRequest(name, arguments))
        if not outcome.ok and outcome.kind is not OutcomeKind.HELD:
            raise UsageError(
                f"cannot prove step {index + 1} ({name}): it was {outcome.kind.value}:"
                f" {outcome.text}",
                hint="a script holds calls that succeed",
            )
        trial.results.append(outcome.content)

    def commit(self, trial: Trial, indices: Iterable[int]) -> Procedure[TurnCore]:
        """Run steps in a turn that commits."""

        def body(core: TurnCore) -> Procedure[None]:
            for index in indices:
                yield from self.call(core, trial, index)

        return (yield from self.turn(trial, body, broken=False))

    def undo(
        self, trial: Trial, turn: str, only: frozenset[str] | None = None
    ) -> Procedure[UndoReport]:
        """Undo a committed turn, or some of its calls."""
        with trial.runtime.locked():
            unwind = trial.runtime.undoing.undo(turn, UndoRequest(only=only))
            return (yield from unwind.run())


def watched(
    inner: Procedure[T], watch: Callable[[Command, object], Procedure[None]]
) -> Procedure[T]:
    """Run a procedure, and call `watch` with each of its commands and the event of it."""

    def answer(command: Command) -> Procedure[object]:
        event = yield command
        yield from watch(command, event)
        return event

    return answered_by(in_the_open(inner), answer)
