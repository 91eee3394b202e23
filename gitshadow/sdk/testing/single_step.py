"""One step of a proof, the steps before it committed: what differs then is its own doing.

Invariant: the world is compared by what `observe` returns, and by nothing that an inverse says.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gitshadow.errors import UsageError
from gitshadow.sdk.testing.proof import Finding, Flaw, StepProof, difference
from gitshadow.sdk.testing.trials import BrokenError, Trial, Trials
from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.commands import (
    ClaimCompensation,
    Command,
    Invoke,
    Procedure,
    Returned,
)
from gitshadow.sdk.turns.inverse_kinds import is_external
from gitshadow.sdk.turns.report import Domain, UndoItem
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.values import Outcome
from gitshadow.store.journal.saga_rows import SagaCall, SagaEntry
from gitshadow.undo.report import State

_PROVEN = {
    State.REVERSED: Finding.REVERSED,
    State.COMPENSATED: Finding.COMPENSATED,
    State.NOT_REVERSED: Finding.STAYS,
    State.NO_EFFECT: Finding.NO_EFFECT,
}


@dataclass(slots=True)
class Alone:
    """Prove one step of a script."""

    trials: Trials
    index: int

    def prove(self) -> Procedure[StepProof]:
        """Prove one step, the ones before it committed: what differs then is its own."""
        trial = yield from self.trials.fresh()
        if self.index:
            first = yield from self.trials.commit(trial, range(self.index))
        flaws = yield from self._broken_before(trial)
        proof, found = yield from self._broken_after(trial)
        if not found and proof.proven in (Finding.REVERSED, Finding.COMPENSATED):
            found = yield from self._repeated(trial)
        if not found and self._has_probe:
            found = yield from self._lost(trial)
        if self.index:
            yield from self.trials.undo(trial, first.row.id)
        return replace(proof, flaws=(*flaws, *found))

    def _broken_before(self, trial: Trial) -> Procedure[list[Flaw]]:
        """Fail before the tool does anything: what reads beforehand must change nothing."""
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
        said = "capture, observe or describe changed the state"
        return [Flaw(Finding.IMPURE, when, f"{said}: {difference(before, after)}")]

    def _broken_after(self, trial: Trial) -> Procedure[tuple[StepProof, list[Flaw]]]:
        """Fail after the step: what its report says must be what is there."""
        before = yield from self.trials.look()
        worlds: list[object] = []

        def body(core: TurnCore) -> Procedure[None]:
            yield from self.trials.call(core, trial, self.index)
            worlds.append((yield from self.trials.look()))

        core = yield from self.trials.turn(trial, body, broken=True)
        trial.results.pop()
        seen = _Seen(before, worlds[0], (yield from self.trials.look()))
        assert core.report is not None, "a broken turn is rolled back"
        (item,) = (one for one in core.report.items if one.call_id)
        tool = self.trials.script[self.index][0]
        proof = StepProof(self.index + 1, tool, _PROVEN[item.state], _said(item))
        flaw = seen.judged(item)
        return proof, [] if flaw is None else [flaw]

    @property
    def _has_probe(self) -> bool:
        """Return whether a lost answer can be settled; without a probe it stays in doubt."""
        tool = self.trials.tools.find(self.trials.script[self.index][0])
        return tool is not None and "probe" in tool.options and not tool.holds

    def _lost(self, trial: Trial) -> Procedure[list[Flaw]]:
        """Fail after the tool has done its work and before it answers: its probe must see that."""
        before = yield from self.trials.look()
        worlds: list[object] = []

        def body(core: TurnCore) -> Procedure[None]:
            self.trials.rig.failing = "after"
            try:
                yield from self.trials.call(core, trial, self.index)
            except BrokenError:
                worlds.append((yield from self.trials.look()))
                raise

        core = yield from self.trials.turn(trial, body, broken=True)
        seen = _Seen(
            before, worlds[0], (yield from self.trials.look()), "ran, then failed"
        )
        assert core.report is not None, "a broken turn is rolled back"
        (item,) = (one for one in core.report.items if one.call_id)
        flaw = seen.judged(item)
        return [] if flaw is None else [flaw]

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

    def _twice(self, command: Invoke, call: SagaCall) -> Procedure[str | None]:
        """Run an inverse again, where the engine might; return what differs from one run."""
        if not self._is_repeatable(call):
            return None
        before = yield from self.trials.look()
        event = yield command
        after = yield from self.trials.look()
        if before != after:
            return f"the second run changed the world: {difference(before, after)}"
        return "the second run failed" if _failed(event) else None

    def _is_repeatable(self, call: SagaCall) -> bool:
        """Tell whether the engine would try an inverse again of which it lost the answer."""
        inverse = json_values.stored_inverse(call.inverse or "")
        if is_external(inverse.handler):
            return inverse.idempotent
        handler = self.trials.tools.handler(inverse.handler)
        return handler is not None and handler.repeatable


def _attempted(command: ClaimCompensation, core: TurnCore) -> Iterator[SagaCall]:
    """Return the call whose inverse runs next."""
    for row in command.then:
        if isinstance(row, SagaEntry) and row.kind == "undo_attempt" and row.call:
            yield core.calls[row.call]


@dataclass(frozen=True, slots=True)
class _Seen:
    """Hold the world before a step, after it, and after its rollback."""

    before: object
    done: object
    undone: object
    when: str = "failed after it"

    def judged(self, item: UndoItem) -> Flaw | None:
        """Return what is wrong with a report's item, or None."""
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


def _said(item: UndoItem) -> str | None:
    return item.residue or item.follow_up


def _failed(event: object) -> bool:
    """Tell whether an attempt did not end well."""
    if not isinstance(event, Returned):
        return True
    return isinstance(event.value, Outcome) and not event.value.ok
