"""The phases of which undos are made, each on its own.

A plan changes nothing, except that planning files records the present.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from gitshadow.messages.undo import Uncovered
from gitshadow.sdk.turns import reversibility
from gitshadow.sdk.turns.commands import Procedure
from gitshadow.sdk.turns.file_undo import FileWork
from gitshadow.sdk.turns.report import Domain, UndoItem, UndoReport
from gitshadow.sdk.turns.saga import Unwind
from gitshadow.sdk.turns.state_rollback import Taking
from gitshadow.sdk.turns.undo_operation import PhaseResult, UndoPhase, blank, joined
from gitshadow.sdk.turns.values import Reversibility
from gitshadow.store.journal.saga_rows import SagaCall, SagaOp
from gitshadow.undo.report import Reason

FILES = "files"
FILES_AGAIN = "files_again"


def effects(unwinds: Sequence[Unwind]) -> tuple[list[UndoPhase], list[UndoPhase]]:
    """Return what undoes calls before the files, and what does after them."""
    early = _unwinding("effects", unwinds, late=False)
    late = _unwinding("late_effects", unwinds, late=True)
    has_late = any(unwind.has_late for unwind in unwinds)
    return [early] if unwinds else [], [late] if has_late else []


def files(work: FileWork | None, name: str = FILES) -> list[UndoPhase]:
    """Return what undoes files, if there are any to undo."""
    is_empty = work is None or not (work.turns or work.calls or work.ops)
    return [] if work is None or is_empty else [UndoPhase(name, work.plan, work.run)]


def snapshot(work: FileWork | None) -> list[UndoPhase]:
    """Return what has the present recorded before anything is changed."""
    if work is None:
        return []
    return [UndoPhase("snapshot", partial(_empty, work.op), work.snapshot)]


def history(taking: Taking) -> list[UndoPhase]:
    """Return what restores state, artifacts and conversation."""
    return [UndoPhase("state", taking.plan, taking.run)]


def not_made_again(op: SagaOp, calls: Iterable[SagaCall]) -> list[UndoPhase]:
    """Return what names the effects that a redo does not make again."""
    found = tuple(calls)
    if not found:
        return []
    plan = partial(_named, op, found, planned=True)
    return [UndoPhase("effects", plan, partial(_named_at_last, op, found))]


def outstanding(op: SagaOp, calls: Iterable[SagaCall]) -> Iterator[Uncovered]:
    """Yield the effects that an undo without effects leaves as they are."""
    for call in reversibility.mutating(calls):
        settled = call.undo in ("done", "skipped", "resolved")
        if call.klass == Reversibility.READ_ONLY or settled:
            continue
        # What it changed is restored with the files of its turn.
        if reversibility.is_files_only(call):
            continue
        why = f"outstanding: a plain {op.kind} does not undo outside effects"
        if call.outcome == "held":
            why = f"held: a plain {op.kind} does not stop it from being sent"
        yield Uncovered(f"{call.tool} {call.id}", why)


def _unwinding(name: str, unwinds: Sequence[Unwind], *, late: bool) -> UndoPhase:
    return UndoPhase(
        name,
        partial(_planned, unwinds, late=late),
        partial(_carried_out, unwinds, late=late),
        in_parts=True,
    )


def _planned(unwinds: Sequence[Unwind], *, late: bool) -> Procedure[UndoReport]:
    parts = []
    for unwind in unwinds:
        part = yield from unwind.plan(late=late)
        parts.append(part)
    return _together(parts)


def _carried_out(unwinds: Sequence[Unwind], *, late: bool) -> Procedure[PhaseResult]:
    parts = []
    for unwind in unwinds:
        done = yield from unwind.run(late=late)
        parts.append(done.part)
    return PhaseResult(_together(parts))


def _together(parts: Sequence[UndoReport]) -> UndoReport:
    whole = parts[0]
    for part in parts[1:]:
        # The token of each turn is part of the whole one, so a change in any of them refuses the
        # plan.
        whole = replace(joined(whole, part), token=whole.token + part.token)
    return whole


def _empty(op: SagaOp) -> Procedure[UndoReport]:
    yield from ()
    return blank(op, planned=True)


def _named(
    op: SagaOp, calls: Sequence[SagaCall], *, planned: bool
) -> Procedure[UndoReport]:
    yield from ()
    return replace(blank(op, planned=planned), items=tuple(map(_gone, calls)))


def _gone(call: SagaCall) -> UndoItem:
    if call.outcome == "dropped":
        said = "it was held and dropped; it is not held again"
        item = reversibility.left(call, Reason.NON_REVERSIBLE, said)
        return replace(item, domain=Domain.OUTBOX)
    said = "it was undone; an effect is not repeated"
    return reversibility.left(call, Reason.NON_REVERSIBLE, said)


def _named_at_last(op: SagaOp, calls: Sequence[SagaCall]) -> Procedure[PhaseResult]:
    return PhaseResult((yield from _named(op, calls, planned=False)))
