"""One undo of all that turns did: phases in order, each recorded before and after.

A failure in one phase does not stop the later ones. A phase that ended without trouble does not run
again when the op is continued: its part of the report is in the log. The op is on disk before its
first phase.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.errors import RefusedError, ShadowError
from gitshadow.messages.undo import Uncovered
from gitshadow.sdk.turns import evidence, json_values
from gitshadow.sdk.turns.commands import Part, Procedure, Save, now
from gitshadow.sdk.turns.report import UndoItem, UndoKind, UndoReport, from_json
from gitshadow.sdk.turns.undo_request import UndoRequest
from gitshadow.sdk.turns.values import JsonObject
from gitshadow.store.journal.saga_rows import (
    SagaCall,
    SagaEntry,
    SagaLogRow,
    SagaOp,
    SagaRow,
    SagaTurn,
)
from gitshadow.undo.report import Action, Reason, State

PHASE = "undo_phase"
"""The kind of note that says how far an op got."""


def report_of(op: SagaOp) -> UndoReport | None:
    """Return the report of an op, None while it has none."""
    return None if op.report is None else from_json(json_values.parse(op.report))


class PhaseResult(NamedTuple):
    """What a phase did: its part of the report, and rows to be saved with its end."""

    part: UndoReport
    rows: tuple[SagaRow, ...] = ()


class UndoPhase(NamedTuple):
    """One part of an undo.

    `act` does it or, given True, returns what it would do and changes nothing. `in_parts`: doing it
    is made of parts that an engine can keep, one per inverse.
    """

    name: str
    act: Callable[[bool], Procedure[PhaseResult]]
    in_parts: bool = False

    def plan(self) -> Procedure[UndoReport]:
        """Return what `run` would do; change nothing."""
        return (yield from self.act(True)).part

    def run(self) -> Procedure[PhaseResult]:
        """Do it."""
        return self.act(False)


def blank(op: SagaOp, *, planned: bool = False) -> UndoReport:
    """Return a part of an op's report with nothing in it."""
    return UndoReport(
        op_id=None if planned else op.id,
        kind=UndoKind(op.kind),
        target=op.target,
        items=(),
        token="",
        planned=planned,
    )


def ended_phases(op: SagaOp, log: Iterable[SagaLogRow]) -> dict[str, UndoReport]:
    """Return the parts of an op's phases that ended without trouble, from the log."""
    found: dict[str, UndoReport] = {}
    for body in _bodies(op, log):
        part = body.get("part")
        if isinstance(part, dict):
            found[str(body["phase"])] = from_json(part)
    return {name: part for name, part in found.items() if part.ok}


def begun(op: SagaOp, log: Iterable[SagaLogRow], phase: str) -> list[bool]:
    """Return for each time that a phase of an op was begun whether it came to an end."""
    found: list[bool] = []
    for body in _bodies(op, log):
        if body.get("phase") == phase:
            found = [*found[:-1], True] if "part" in body else [*found, False]
    return found


@dataclass(slots=True, kw_only=True)
class Whole:
    """Carry one undo out.

    `ended` are phases that came to an end in an earlier attempt. `left` gives the rows of calls as
    the undo left them, `closing` what changes with its end.
    """

    op: SagaOp
    phases: tuple[UndoPhase, ...]
    request: UndoRequest
    ended: Mapping[str, UndoReport] = field(default_factory=dict)
    not_covered: tuple[Uncovered, ...] = ()
    left: Callable[[], Iterable[SagaCall]] = tuple
    closing: Callable[[UndoReport], Iterable[SagaTurn]] = lambda report: ()

    def plan(self) -> Procedure[UndoReport]:
        """Return what a run would do; write nothing and call no inverse."""
        parts = []
        for phase in self.phases:
            part = yield from phase.plan()
            parts.append(part)
        return self._report(parts, planned=True)

    @property
    def calls_handlers(self) -> bool:
        """Return whether functions of the program may be called."""
        return any(phase.in_parts for phase in self.phases)

    def run(self) -> Procedure[UndoReport]:
        """Run the phases, newest work first, and close the op with its report.

        Raises:
            RefusedError: the plan is not the one that the token stands for, or not all of it can
                be undone although that was asked for; nothing was done.
        """
        yield from self.admit()
        # The op is on disk before its first phase, so that `recover` finds it after a crash.
        yield Part("begin", self._begin())
        parts: list[UndoReport] = []
        for phase in self.phases:
            # The plan of an atomic undo promised everything; a failure that only the run shows
            # stops the rest.
            if self.request.atomic and not all(one.ok for one in parts):
                part = yield from self._left_out(phase)
            else:
                part = yield from self._carried_out(phase)
            parts.append(part)
        report = self._report(parts, planned=False)
        yield Part("end", self._close(report))
        return report

    def admit(self) -> Procedure[None]:
        """Do nothing if what would be done is what was asked for.

        Raises:
            RefusedError: it is not; nothing was done.
        """
        if self.request.token is None and not self.request.atomic:
            return
        planned = yield from self.plan()
        # What people confirmed must be what happens, so a changed plan is refused.
        if self.request.token not in (None, planned.token):
            raise RefusedError(
                "cannot undo: the plan has changed since it was shown",
                hint="check a new plan",
            )
        left = planned.counts[State.NOT_REVERSED.value]
        if self.request.atomic and left:
            raise RefusedError(
                f"cannot undo {self.op.target} as a whole: {left} of it cannot be undone",
                hint="the plan shows what and why",
            )

    def _begin(self) -> Procedure[None]:
        moment = yield from now()
        begun = self._note("undo_begun", {"kind": self.op.kind}, moment)
        yield Save((self.op, begun))

    def _carried_out(self, phase: UndoPhase) -> Procedure[UndoReport]:
        """Run a phase; what stops it becomes an item, and the next one runs.

        One that ended before is run again only in the parts that an engine remembers; they find
        nothing to do.
        """
        if not phase.in_parts:
            row = yield Part(phase.name, self._at_once(phase))
            return from_json(json_values.parse(str(row)))
        part = blank(self.op)
        try:
            yield Part(f"begin {phase.name}", self._begun(phase))
            done = yield from phase.run()
            # A repeated phase finds nothing to do, so the report of its first run is the true
            # one.
            part = self.ended.get(phase.name, done.part)
            yield Part(
                f"end {phase.name}", self._ended(phase, done._replace(part=part))
            )
        # A phase that fails must not keep the later ones from undoing their part.
        except (ShadowError, OSError) as error:
            return part.with_trouble(phase.name, str(error))
        return part

    def _at_once(self, phase: UndoPhase) -> Procedure[str]:
        """Run a phase and return its part of the report as a text."""
        if phase.name in self.ended:
            return json_values.lenient(self.ended[phase.name].to_json())
        part = blank(self.op)
        try:
            yield from self._begun(phase)
            done = yield from phase.run()
            # Rows that are not saved were not restored; files are, whatever becomes of the row.
            part = part if done.rows else done.part
            yield from self._ended(phase, done)
            part = done.part
        except (ShadowError, OSError) as error:
            part = part.with_trouble(phase.name, str(error))
        return json_values.lenient(part.to_json())

    def _begun(self, phase: UndoPhase) -> Procedure[None]:
        moment = yield from now()
        yield Save((self._note(PHASE, {"phase": phase.name}, moment),))

    def _ended(self, phase: UndoPhase, done: PhaseResult) -> Procedure[None]:
        moment = yield from now()
        body = {"phase": phase.name, "part": done.part.to_json()}
        yield Save((*done.rows, self._note(PHASE, body, moment)))

    def _left_out(self, phase: UndoPhase) -> Procedure[UndoReport]:
        """Report a phase that was not begun, because one before it failed."""
        planned = yield from phase.plan()
        items = tuple(_not_begun(item) for item in planned.items)
        return replace(blank(self.op), items=items)

    def _report(self, parts: list[UndoReport], *, planned: bool) -> UndoReport:
        whole = replace(blank(self.op, planned=planned), not_covered=self.not_covered)
        for part in parts:
            whole = joined(whole, part)
        tokens = [part.token for part in parts if part.token]
        token = tokens[0] if len(tokens) == 1 else json_values.token(tokens)
        why = self.request.why
        notes = whole.notes if why is None else (why, *whole.notes)
        return replace(whole, token=token, notes=notes)

    def _close(self, report: UndoReport) -> Procedure[None]:
        moment = yield from now()
        text = json_values.lenient(report.to_json())
        self.op = replace(
            self.op, status="done", token=report.token, ended_ns=moment, report=text
        )
        body = {"status": report.status.value, "counts": report.counts}
        note = self._note("undo_ended", body, moment)
        yield Save((self.op, note, *self.closing(report)))

    def _note(self, kind: str, body: JsonObject, moment_ns: int) -> SagaEntry:
        return evidence.note(self.op, kind, {"op": self.op.id, **body}, moment_ns)


def joined(one: UndoReport, two: UndoReport) -> UndoReport:
    """Return two parts of a report as one."""
    return replace(
        one,
        items=(*one.items, *two.items),
        commit=two.commit or one.commit,
        not_covered=tuple(dict.fromkeys((*one.not_covered, *two.not_covered))),
        notes=tuple(dict.fromkeys((*one.notes, *two.notes))),
        state_delta={**one.state_delta, **two.state_delta},
        artifact_delta={**one.artifact_delta, **two.artifact_delta},
        hidden_invocations=one.hidden_invocations or two.hidden_invocations,
        marker_event=one.marker_event if two.marker_event is None else two.marker_event,
    )


def _not_begun(item: UndoItem) -> UndoItem:
    if item.state is State.NO_EFFECT:
        return item
    return replace(
        item,
        state=State.NOT_REVERSED,
        action=Action.NONE,
        reason=Reason.FAILED,
        detail="not started: an earlier step failed",
    )


def _bodies(op: SagaOp, log: Iterable[SagaLogRow]) -> Iterator[JsonObject]:
    for row in log:
        if row.kind == PHASE:
            body = json_values.readable(row.body)
            if body.get("op") == op.id:
                yield body
