"""Prove that a script of calls can be undone, by failing at every step of it.

First each step alone, with the steps before it committed; then all steps together; then each before
later ones. The state is compared by the result of `observe`, never by the report of an inverse.
A trial is an ordinary turn on a store in memory that commits or fails on purpose, so a proof tests
the code that will run; a step of the script that does not succeed ends the proof.
Invariant: both functions run one procedure, so a proof does not depend on the front.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from gitshadow.errors import UsageError
from gitshadow.sdk.testing.memory_store import MemoryStore
from gitshadow.sdk.testing.proof import Finding, Flaw, Proof, StepProof, difference
from gitshadow.sdk.turns import calls, json_values, outbox
from gitshadow.sdk.turns.async_driver import AsyncDriver
from gitshadow.sdk.turns.call_records import CallRequest
from gitshadow.sdk.turns.commands import (
    ClaimCompensation,
    Command,
    Invoke,
    Pause,
    Procedure,
    Returned,
    Save,
    T,
    answered_by,
    demand,
    in_the_open,
)
from gitshadow.sdk.turns.driver import Driver
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.inverse_kinds import is_external
from gitshadow.sdk.turns.policy import Limits, Policy
from gitshadow.sdk.turns.protocols import Clock, SessionStore
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import Domain, UndoItem, UndoReport
from gitshadow.sdk.turns.session_runtime import Opening, SessionRuntime
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.undo_operation import Whole
from gitshadow.sdk.turns.undo_request import UndoRequest
from gitshadow.sdk.turns.values import JsonObject, Outcome, OutcomeKind
from gitshadow.store.journal.saga_rows import SagaCall, SagaEntry, SagaOp
from gitshadow.undo.report import State

Arguments: TypeAlias = JsonObject | Callable[[Sequence[object]], JsonObject]
Script: TypeAlias = Sequence[tuple[str, Arguments]]
"""Calls in order: a tool, and its arguments or a function of the results before it."""

_UNBOUND = Limits(tool_calls=None)


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
        self, trial: Trial, turn: str, only: tuple[str, ...] | None = None
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


_PROVEN = {
    State.REVERSED: Finding.REVERSED,
    State.COMPENSATED: Finding.COMPENSATED,
    State.NOT_REVERSED: Finding.STAYS,
    State.NO_EFFECT: Finding.NO_EFFECT,
}
_ERASED = (State.REVERSED, State.NO_EFFECT)


@dataclass(slots=True)
class _SingleStep:
    """Prove one step of a script."""

    trials: Trials
    index: int

    def prove(self) -> Procedure[StepProof]:
        """Prove one step after the steps before it were committed."""
        trial = yield from self.trials.fresh()
        if self.index:
            first = yield from self.trials.commit(trial, range(self.index))
        flaws = yield from self._broken_before(trial)
        item, found = yield from self._broken(trial, lost=False)
        tool, said = self.trials.script[self.index][0], item.residue or item.follow_up
        proof = StepProof(self.index + 1, tool, _PROVEN[item.state], said)
        if not found and proof.proven in (Finding.REVERSED, Finding.COMPENSATED):
            found = yield from self._repeated(trial)
        if not found and self._has_probe:
            _, found = yield from self._broken(trial, lost=True)
        # The next trial begins where this one ends, unless `reset` restores the world.
        if self.index:
            yield from self.trials.undo(trial, first.row.id)
        return replace(proof, flaws=(*flaws, *found))

    def _broken_before(self, trial: Trial) -> Procedure[list[Flaw]]:
        """Fail before the tool runs: `capture`, `fingerprint`, `describe` must change nothing."""
        when = "failed before it"
        before = yield from self.trials.look()
        if before != (yield from self.trials.look()):
            raise UsageError("cannot prove: observe gives two answers for one state")

        def body(core: TurnCore) -> Procedure[None]:
            self.trials.rig.failing = "before"
            yield from self.trials.call(core, trial, self.index)

        yield from self.trials.turn(trial, body, broken=True)
        after = yield from self.trials.look()
        if after == before:
            return []
        said = "capture, fingerprint or describe changed the state"
        return [Flaw(Finding.IMPURE, when, f"{said}: {difference(before, after)}")]

    def _broken(
        self, trial: Trial, *, lost: bool
    ) -> Procedure[tuple[UndoItem, list[Flaw]]]:
        """Fail after the step, or (`lost`) after the tool's work and before its answer.

        The report must match the state; the probe must find the effect of a lost answer.
        """
        before = yield from self.trials.look()
        worlds: list[object] = []

        def body(core: TurnCore) -> Procedure[None]:
            self.trials.rig.failing = "after" if lost else None
            with suppress(BrokenError):
                yield from self.trials.call(core, trial, self.index)
            worlds.append((yield from self.trials.look()))

        core = yield from self.trials.turn(trial, body, broken=True)
        del trial.results[self.index :]
        when = "ran, then failed" if lost else "failed after it"
        seen = _Seen(before, worlds[0], (yield from self.trials.look()), when)
        (item,) = (one for one in _report_of(core).items if one.call_id)
        flaw = seen.judged(item)
        return item, [] if flaw is None else [flaw]

    @property
    def _has_probe(self) -> bool:
        """Whether a lost answer can be settled; without a probe it stays in doubt."""
        tool = self.trials.tools.find(self.trials.script[self.index][0])
        return tool is not None and "probe" in tool.options and not tool.holds

    def _repeated(self, trial: Trial) -> Procedure[list[Flaw]]:
        """Run each inverse twice with one key: a lost answer must do no harm."""
        when = "repeated with its key"
        flaws: list[Flaw] = []
        attempts: list[SagaCall] = []
        turns: list[TurnCore] = []

        def body(core: TurnCore) -> Procedure[None]:
            turns.append(core)
            yield from self.trials.call(core, trial, self.index)

        def again(command: Command, event: object) -> Procedure[None]:
            if isinstance(command, ClaimCompensation):
                attempts.extend(_attempted(command, turns[0]))
            elif isinstance(command, Invoke) and attempts:
                said = yield from self._twice(command, attempts.pop())
                if said is not None:
                    flaws.append(Flaw(Finding.NOT_IDEMPOTENT, when, said))

        yield from self.trials.turn(trial, body, broken=True, watch=again)
        trial.results.pop()
        return flaws

    def _twice(self, command: Invoke[object], call: SagaCall) -> Procedure[str | None]:
        """Run an inverse again if an engine might; return the difference to one run, or None."""
        if not self._is_repeatable(call):
            return None
        before = yield from self.trials.look()
        event = yield command
        after = yield from self.trials.look()
        if before != after:
            return f"the second run changed the world: {difference(before, after)}"
        return "the second run failed" if _failed(event) else None

    def _is_repeatable(self, call: SagaCall) -> bool:
        """Whether an engine would repeat an inverse after a lost answer."""
        inverse = json_values.stored_inverse(call.inverse or "")
        if is_external(inverse.handler):
            return inverse.idempotent
        handler = self.trials.tools.find_handler(inverse.handler)
        return handler is not None and handler.repeatable


def _attempted(command: ClaimCompensation, core: TurnCore) -> Iterator[SagaCall]:
    """Return the call whose inverse runs next."""
    for row in command.then:
        if isinstance(row, SagaEntry) and row.kind == "undo_attempt" and row.call:
            yield core.calls[row.call]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The state before a step, after it, and after its rollback."""

    before: object
    done: object
    undone: object
    when: str

    def judged(self, item: UndoItem) -> Flaw | None:
        """Return the flaw of a report's item, or None."""
        when = self.when
        if item.domain is Domain.OUTBOX:
            if self.undone == self.before:
                return None
            said = difference(self.before, self.undone)
            return Flaw(Finding.LIES, when, f"it reports never sent, but {said}")
        if item.state is State.NO_EFFECT:
            if self.done == self.before:
                return None
            said = f"it reports {item.detail or 'read-only'}, but changed the state"
            return Flaw(Finding.LIES, when, f"{said}: {self._done()}")
        if item.state is State.NOT_REVERSED:
            why = item.reason.value if item.reason else "not reversed"
            if why in ("non_reversible", "undeclared"):
                return None
            return Flaw(Finding.FAILS, when, f"{why}: {item.error or item.detail}")
        if self.done == self.before:
            return Flaw(Finding.UNSEEN, when, "observe does not see what the tool does")
        if self.undone == self.done:
            said = (
                f"it reports {item.state.value}, but the state is as the call left it"
            )
            return Flaw(Finding.LIES, when, f"{said}: {self._done()}")
        if item.state is State.REVERSED and self.undone != self.before:
            said = difference(self.before, self.undone)
            return Flaw(Finding.RESIDUE, when, f"it reports reversed, but {said}")
        return None

    def _done(self) -> str:
        return difference(self.before, self.done)


def _report_of(core: TurnCore) -> UndoReport:
    """Return the report of the rollback of a broken turn."""
    assert core.report is not None, "a broken turn is rolled back"
    return core.report


def _failed(event: object) -> bool:
    """Return whether an attempt failed."""
    if not isinstance(event, Returned):
        return True
    return isinstance(event.value, Outcome) and not event.value.ok


class _Ending(NamedTuple):
    """The state before a script and after its undo."""

    start: object
    end: object
    refused: bool
    erased: bool


@dataclass(slots=True)
class _CombinedSteps:
    """Prove steps that are sound alone: undone together, and each before later ones."""

    trials: Trials
    steps: list[StepProof]
    notes: list[str] = field(default_factory=list)
    worlds: list[object] = field(default_factory=list)
    undone: dict[int, object] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def prove(self) -> Procedure[Proof]:
        """Return the proof of the whole script."""
        self._compare((yield from self._newest_first()))
        if not any(step.flaws for step in self.steps):
            yield from self._out_of_order()
        return Proof(tuple(self.steps), tuple(self.notes))

    def _newest_first(self) -> Procedure[UndoReport]:
        """Fail after the last step, and observe the state after each inverse."""
        trials = self.trials
        trial = yield from trials.fresh()

        def body(core: TurnCore) -> Procedure[None]:
            self.worlds.append((yield from trials.look()))
            for index in range(len(trials.script)):
                yield from trials.call(core, trial, index)
                self.worlds.append((yield from trials.look()))

        def settled(command: Command, event: object) -> Procedure[None]:
            rows = command.rows if isinstance(command, Save) else ()
            for row in rows:
                if isinstance(row, SagaCall) and row.undo == "done":
                    self.undone[row.ordinal] = yield from trials.look()

        core = yield from trials.turn(trial, body, broken=True, watch=settled)
        self.numbers = {call.id: call.ordinal for call in core.calls.values()}
        return _report_of(core)

    def _compare(self, report: UndoReport) -> None:
        """Compare the states of the undo with those of the script, while the order is reversed."""
        before = len(self.steps) + 1
        for item in report.items:
            number = self.numbers.get(item.call_id)
            if number is None or item.state is State.NO_EFFECT:
                continue
            if item.domain is Domain.OUTBOX:
                continue
            if item.state is not State.REVERSED or number > before:
                return
            expected, found = self.worlds[number - 1], self.undone[number]
            if found != expected:
                said = f"sound by itself, but not here: {difference(expected, found)}"
                self._flaw(number, "undone with the others", said)
                return
            before = number

    def _out_of_order(self) -> Procedure[None]:
        """Undo each step before later ones, then the rest."""
        in_order = yield from self._ending(None)
        if not in_order.erased and self.trials.reset is None:
            self.notes.append("steps undone out of order need reset=")
            return
        for step in self.steps[:-1]:
            if step.proven not in (Finding.REVERSED, Finding.COMPENSATED):
                continue
            found = yield from self._ending(step.number)
            expected = found.start if in_order.erased else in_order.end
            if not found.refused and found.end != expected:
                said = difference(expected, found.end)
                self._flaw(step.number, "undone before later steps", said)

    def _ending(self, first: int | None) -> Procedure[_Ending]:
        """Undo all steps, `first` before the others; an engine may refuse that one safely."""
        trials = self.trials
        trial = yield from trials.fresh()
        start = yield from trials.look()
        core = yield from trials.commit(trial, range(len(trials.script)))
        ids = {call.ordinal: call.id for call in core.calls.values()}
        refused = False
        if first is not None:
            early = yield from trials.undo(trial, core.row.id, (ids[first],))
            states = {item.call_id: item.state for item in early.items}
            refused = states[ids[first]] is State.NOT_REVERSED
        report = yield from trials.undo(trial, core.row.id)
        erased = all(item.state in _ERASED for item in report.items)
        return _Ending(start, (yield from trials.look()), refused, erased)

    def _flaw(self, number: int, when: str, detail: str) -> None:
        step = self.steps[number - 1]
        flaw = Flaw(Finding.ORDER, when, detail)
        self.steps[number - 1] = replace(step, flaws=(*step.flaws, flaw))


def prove_rollback(
    tools: ToolRegistry,
    script: Script,
    observe: Callable[[], object],
    *,
    reset: Callable[[], object] | None = None,
    policy: Policy | None = None,
    host: Host | None = None,
) -> Proof:
    """Run a script many times, fail before and after each step, and compare the state.

    Args:
        tools: The program's tools. Every tool and inverse runs several times.
        script: The calls; each must succeed.
        observe: Returns the state that the tools change, as a value that can be compared: nested
            dicts and lists make the most readable proof.
        reset: Restores the state before each trial; without it each begins where the last ended.
        policy: The policy for calls and inverses; tools without an inverse may run here.
        host: The program's own implementations.

    Returns:
        The proof. `assert proof.ok, proof` is a test.

    Raises:
        UsageError: a step of the script failed, or `observe` has two results for one state.
        Exception: of a tool, `observe` or `reset`.
    """
    rules, plugs = policy or Policy(), host or Host()
    trials = Trials(tools, script, observe, reset, rules, plugs)
    return Driver(trials).run(_hurried(_proof(trials)))


async def prove_rollback_async(
    tools: ToolRegistry,
    script: Script,
    observe: Callable[[], object],
    *,
    reset: Callable[[], object] | None = None,
    policy: Policy | None = None,
    host: Host | None = None,
) -> Proof:
    """Prove a script whose tools, `observe` or `reset` may be coroutine functions."""
    rules, plugs = policy or Policy(), host or Host()
    trials = Trials(tools, script, observe, reset, rules, plugs)
    return await AsyncDriver(trials).run(_hurried(_proof(trials)))


def _hurried(procedure: Procedure[T]) -> Procedure[T]:
    """Run a procedure without the pauses between two attempts."""

    def answer(command: Command) -> Procedure[object]:
        return None if isinstance(command, Pause) else (yield command)

    return answered_by(in_the_open(procedure), answer)


def _proof(trials: Trials) -> Procedure[Proof]:
    """Prove each step alone, then all together, then each before later ones."""
    steps: list[StepProof] = []
    for index in range(len(trials.script)):
        steps += [(yield from _SingleStep(trials, index).prove())]
    if any(step.flaws for step in steps):
        note = "all steps together: one of them is flawed by itself"
        return Proof(tuple(steps), (note,))
    return (yield from _CombinedSteps(trials, steps).prove())
