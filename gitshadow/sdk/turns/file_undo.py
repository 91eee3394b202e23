"""The phase of an undo that restores the files of turns, by the recorder.

The recorder's op has the id of the undo itself. Asked for the same id again, the recorder does
nothing and returns its report, so that a crash between the two undoes no file twice. If the
recorder cannot be asked, the report has an item that was not undone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gitshadow.messages.undo import (
    FileUndoAnswer,
    FileUndoRequest,
    ProgramCall,
    ProgramTurn,
    ProgramUndo,
    Uncovered,
)
from gitshadow.model import Oid
from gitshadow.sdk.turns import call_outcome, json_values, path_images
from gitshadow.sdk.turns.call_outcome import CallKnowledge
from gitshadow.sdk.turns.commands import (
    Invoke,
    Procedure,
    Raised,
    Returned,
    ask,
)
from gitshadow.sdk.turns.file_recording import UNTOLD, FileRecorder
from gitshadow.sdk.turns.report import Domain, UndoItem, UndoReport
from gitshadow.sdk.turns.undo_operation import PhaseResult, blank
from gitshadow.store.journal.saga_rows import SagaCall, SagaLogRow, SagaOp, SagaTurn
from gitshadow.undo.report import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWork:
    """The files that an undo is about: those of turns, of calls of one turn, or of earlier ops.

    `op_id` is what the recorder's op is to be called. `loose_since_ns`: files that a turn wrote
    since then outside its calls are named, because it is unknown whether they are meant. `told`
    are notes on what the recorder does not know.
    """

    op: SagaOp
    recorder: FileRecorder
    op_id: str
    verb: str = "undo"
    turns: tuple[ProgramTurn, ...] = ()
    calls: tuple[ProgramCall, ...] = ()
    ops: tuple[str, ...] = ()
    loose_since_ns: int | None = None
    on_conflict: str = "skip"
    told: tuple[Uncovered, ...] = ()

    def act(self, planned: bool) -> Procedure[PhaseResult]:
        """Undo the files, or plan that; both record the present files."""
        found = yield from self._asked(apply=not planned)
        return PhaseResult(self._part(found))

    def snapshot(self, planned: bool) -> Procedure[PhaseResult]:
        """Record the present files, so that the undo itself can be undone; plan nothing."""
        part = blank(self.op)
        if planned:
            return PhaseResult(part)
        found = yield from self._asked(apply=False)
        if isinstance(found, str):
            notes = (f"the current state was not recorded first: {found}",)
            part = replace(part, notes=notes)
        return PhaseResult(part)

    def _asked(self, *, apply: bool) -> Procedure[FileUndoAnswer | str]:
        program = ProgramUndo(
            session=self.recorder.session,
            turns=self.turns,
            calls=self.calls,
            loose_since_ns=self.loose_since_ns,
            ops=self.ops,
        )
        request = FileUndoRequest(
            verb=self.verb,
            on_conflict=self.on_conflict,
            op=self.op_id,
            yes=apply,
            dry_run=not apply,
            program=program,
        )
        call = Invoke(self.recorder.undo, (request,), blocking=True)
        event = yield from ask(call)
        if isinstance(event, Returned):
            found: FileUndoAnswer | str = event.value
            return found
        why = event.error if isinstance(event, Raised) else "no answer"
        return f"{type(why).__name__}: {why}"

    def _part(self, found: FileUndoAnswer | str) -> UndoReport:
        part = replace(blank(self.op), not_covered=self.told)
        if isinstance(found, str):
            return part.with_trouble("files", found or "no answer", Domain.FILES)
        told = [*self.told, *found.not_covered]
        if found.missing:
            what = f"files of {', '.join(found.missing)}"
            told.append(Uncovered(what, "it was not reported to the recorder"))
        why = "written outside its calls: it may belong to earlier work"
        told += [Uncovered(path, why, path) for path in found.loose or ()]
        return replace(
            part,
            items=tuple(map(UndoItem.of_row, found.items)),
            commit=Oid(found.commit) if found.commit else None,
            # A phase without items has no token, so it does not change the token of the plan.
            token=found.token if found.items else "",
            not_covered=tuple(told),
            notes=tuple(_notes(found)),
        )


def untold(log: Iterable[SagaLogRow]) -> tuple[Uncovered, ...]:
    """Return what was not reported to the recorder, from the notes of turns."""
    found = (
        Uncovered(
            f"files of {row.call or row.turn}",
            f"it was not reported to the recorder: {json_values.readable(row.body).get('why')}",
        )
        for row in log
        if row.kind == UNTOLD
    )
    return tuple(dict.fromkeys(found))


def elsewhere(calls: Iterable[SagaCall]) -> tuple[Uncovered, ...]:
    """Return the files that calls named and that are not in the working tree."""
    found = (
        Uncovered(path, f"outside the working tree, named by {call.tool} {call.id}")
        for call in calls
        if call_outcome.from_row(call) is not CallKnowledge.NOT_DONE
        for path in path_images.outside(call)
    )
    return tuple(dict.fromkeys(found))


def began(turns: Sequence[SagaTurn]) -> tuple[ProgramTurn, ...]:
    """Return turns as the recorder is asked for them, newest first."""
    return tuple(
        ProgramTurn(one.id, one.started_ns, one.agent) for one in reversed(turns)
    )


def _notes(report: FileUndoAnswer) -> Iterable[str]:
    yield from report.notes
    yield from report.head_moved
    if report.maybe:
        yield f"uncertain changes, skipped: {', '.join(report.maybe)}"
    if report.status == Status.NOTHING_TO_DO and report.headline and report.items:
        yield f"files: {report.headline}"
