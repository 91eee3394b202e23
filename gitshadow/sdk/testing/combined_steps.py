"""The steps of a proof that are sound alone: taken back together, and each before its time.

Invariant: every world on the way back is one of the way there, until something is to stay.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.sdk.testing.proof import Finding, Flaw, Proof, StepProof, difference
from gitshadow.sdk.testing.trials import Trials
from gitshadow.sdk.turns.commands import Command, Procedure, Save
from gitshadow.sdk.turns.report import Domain, UndoReport
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.store.journal.saga_rows import SagaCall
from gitshadow.undo.report import State

_ERASED = (State.REVERSED, State.NO_EFFECT)


class _Ending(NamedTuple):
    """Hold the world before a script and after its undo."""

    start: object
    end: object
    refused: bool
    erased: bool


@dataclass(slots=True)
class Together:
    """Prove steps that are sound alone: taken back together, and each before its time."""

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
        """Break after the last step, and look after each inverse."""
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
        assert core.report is not None, "a broken turn is rolled back"
        return core.report

    def _compare(self, report: UndoReport) -> None:
        """Compare the worlds on the way back, as far as it is the way there turned round."""
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
        """Take back each step before those that came after it, then the rest."""
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

    def _ending(self, first: int | None) -> Procedure["_Ending"]:
        """Undo all, one of them first; that this one is refused is the safe answer."""
        trials = self.trials
        trial = yield from trials.fresh()
        start = yield from trials.look()
        core = yield from trials.commit(trial, range(len(trials.script)))
        ids = {call.ordinal: call.id for call in core.calls.values()}
        refused = False
        if first is not None:
            early = yield from trials.undo(trial, core.row.id, frozenset({ids[first]}))
            states = {item.call_id: item.state for item in early.items}
            refused = states[ids[first]] is State.NOT_REVERSED
        report = yield from trials.undo(trial, core.row.id)
        erased = all(item.state in _ERASED for item in report.items)
        return _Ending(start, (yield from trials.look()), refused, erased)

    def _flaw(self, number: int, when: str, detail: str) -> None:
        step = self.steps[number - 1]
        flaw = Flaw(Finding.ORDER, when, detail)
        self.steps[number - 1] = replace(step, flaws=(*step.flaws, flaw))
