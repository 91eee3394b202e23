"""Turns of agent programs among the recorder's: which row holds what a turn wrote to files.

A program's turn is reported under its own id, in a session whose native id is the program's.
Invariant: a turn that another one of that id came before is never taken for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gitshadow.adapters.generic import NAME as GENERIC
from gitshadow.adapters.payload import shortened_id
from gitshadow.messages.undo import (
    FileUndoRequest,
    HandOver,
    ProgramCall,
    ProgramTurn,
    ProgramUndo,
)
from gitshadow.model import Burst, OpKind, OpStatus, RepoPath, Session, Turn
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import bursts, events, ops, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.journal.saga_rows import SagaTurn
from gitshadow.store.refs import display_path
from gitshadow.undo.targets import Named, Target, family, is_undoable, resolve

if TYPE_CHECKING:
    from gitshadow.undo.engine import UndoEngine
    from gitshadow.undo.report import Report
    from gitshadow.undo.run import ResolvedUndo

_SLACK_NS = 2_000_000_000
"""By how much the program's clock may be ahead of the file system's."""


class ProgramTarget(NamedTuple):
    """What an undo of a program's work is about.

    `missing` are turns that were not reported to the recorder, `loose` paths that were written by
    the turn in that time and by none of its calls. `session` is the recorder's.
    """

    targets: tuple[Target, ...]
    missing: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    session: str | None = None


def wanted(context: RecorderContext, program: ProgramUndo) -> ProgramTarget:
    """Return what the recorder knows of a program's turns, calls and ops."""
    context.observer.settle()
    return _Reading(context, program).wanted()


def hand_over(
    context: RecorderContext, engine: "UndoEngine", request: "ResolvedUndo"
) -> HandOver | None:
    """Return whose an undo or redo is: a program's turn, session or undo; None for all else.

    A program's turn has effects and a state too, which only its own functions can undo.
    """
    db = context.workspace.db
    if not SagaTables(db).turns():
        return None
    if request.kind is OpKind.UNDO:
        worktree = context.workspace.layout.worktree
        things = [resolve(db, worktree, target) for target in request.targets]
        found = (_program_of(db, thing) for thing in things)
        return next((whose for whose in found if whose is not None), None)
    named = SagaTables(db).op(request.targets[0].text) if request.targets else None
    if named is not None and request.kind is OpKind.REDO:
        return HandOver(named.session, op=named.id)
    planned = request.asked._replace(yes=False, token=None, choice=None)
    # Imported here: lists of turns need this module too, and no plan.
    from gitshadow.undo import run as undo_run

    # Only the plan knows which burst `oops` and which op `redo` means.
    plan = undo_run.run(engine, request._replace(asked=planned))
    if request.kind is OpKind.REDO:
        op = SagaTables(db).op(plan.target)
        return None if op is None else HandOver(op.session, op=op.id)
    burst = bursts.get(db, plan.target)
    return None if burst is None else _program_of(db, burst)


def _program_of(db: Db, thing: Named | RepoPath) -> HandOver | None:
    """Return the session of a thing that is a whole turn or several; None for a single write."""
    if isinstance(thing, Session):
        below = family(db, thing.id)
        first = next((turn for turn, row in _told(db) if row.session in below), None)
        return None if first is None else HandOver(first.session, before=first.id)
    if isinstance(thing, Turn):
        wanted: tuple[str, str | None] = (thing.session, thing.id)
    elif isinstance(thing, Burst):
        wanted = (thing.session, thing.turn)
    else:
        return None
    fitting = [turn for turn, row in _told(db) if (row.session, row.id) == wanted]
    found = fitting[-1] if fitting else None
    return None if found is None else HandOver(found.session, turn=found.id)


def _told(db: Db) -> Iterator[tuple[SagaTurn, Turn]]:
    """Yield the turns of programs that were reported to the recorder, each with its row of it."""
    for turn in SagaTables(db).turns():
        row = recorded_turn(db, turn.session, turn.agent, turn.id, turn.started_ns)
        if row is not None:
            yield turn, row


def nothing(request: FileUndoRequest) -> "Report":
    """Return the report of an undo that found nothing recorded."""
    from gitshadow.undo.report import Report

    kind = OpKind(request.verb)
    return Report(
        kind=kind, target="", items=(), token="none", planned=not request.apply
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    context: RecorderContext
    program: ProgramUndo

    def wanted(self) -> ProgramTarget:
        program = self.program
        turns_of = [(one, self._turn(one.id, one)) for one in program.turns]
        calls_of = [(one, self._turn(one.turn, one)) for one in program.calls]
        known = [turn for _, turn in (*turns_of, *calls_of) if turn is not None]
        named = [f"{turn.session}:{turn.id}" for _, turn in turns_of if turn]
        named += [
            f"{turn.session}:{call}"
            for row, turn in calls_of
            if turn and (call := self._call(turn, row.id)) is not None
        ]
        named += [op for op in program.ops if self._is_done(op)]
        return ProgramTarget(
            tuple(Target(one) for one in named),
            tuple(row.id for row, turn in turns_of if turn is None),
            tuple(self._loose(known[0])) if known and not turns_of else (),
            known[0].session if known else None,
        )

    def _turn(self, turn: str, row: ProgramTurn | ProgramCall) -> Turn | None:
        return recorded_turn(
            self.context.workspace.db,
            self.program.session,
            row.agent,
            turn,
            row.since_ns,
        )

    def _call(self, turn: Turn, id: str) -> str | None:
        """Return a call's id; None for one of that id in another turn."""
        name = shortened_id(id)
        call = turns.get_call(self.context.workspace.db, turn.session, name)
        return name if call is not None and call.turn == turn.id else None

    def _loose(self, turn: Turn) -> Sequence[str]:
        """Return the paths that a turn wrote outside its calls since a moment."""
        if self.program.loose_since_ns is None:
            return ()
        ws = self.context.workspace
        asked = EventFilter(
            worktree=ws.layout.worktree,
            sessions=(turn.session,),
            turn=turn.id,
            since_ns=self.program.loose_since_ns,
        )
        rows = (row for row in events.writes(ws.db, asked) if is_undoable(row))
        found = {display_path(row.path) for row in rows if row.attribution.call is None}
        return sorted(found)

    def _is_done(self, op: str) -> bool:
        known = ops.get(self.context.workspace.db, op)
        return known is not None and known.status is OpStatus.DONE


def recorded_turn(
    db: Db, native: str, agent: str | None, turn: str, since_ns: int
) -> Turn | None:
    """Return the recorder's row of a program's turn, or None if it was not reported.

    Args:
        db: The journal.
        native: The program's id of its session.
        agent: The name that it gives itself.
        turn: Its id of the turn; the recorder adds a number where that was taken.
        since_ns: When the turn began: one that began before is another one.
    """
    session = sessions.find_native(db, agent or GENERIC, native)
    if session is None:
        return None
    found = (
        one
        for one in turns.list_turns(db, session.id)
        if one.id == turn or one.id.startswith(turn + "~")
    )
    later = (one for one in found if one.started_ns >= since_ns - _SLACK_NS)
    return min(later, key=lambda one: one.started_ns, default=None)
