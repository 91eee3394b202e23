"""own_session, own_above, own_changes, own_undone, own_undo: an agent and its own work."""

from gitshadow.attribution.process import ProcessId
from gitshadow.errors import UsageError
from gitshadow.messages.codec import UNSET
from gitshadow.messages.own_session import (
    OwnAboveAnswer,
    OwnChange,
    OwnChangesAnswer,
    OwnChangesRequest,
    OwnSessionAnswer,
    OwnSessionRequest,
    OwnUndo,
    OwnUndoneAnswer,
    OwnUndoRequest,
)
from gitshadow.messages.undo import FileUndoAnswer, FileUndoRequest, Processes
from gitshadow.model import Event, EventKind, Op, OpKind, PathChange
from gitshadow.query.params import typed_paths
from gitshadow.query.resolve import Own, own_of, own_thing, sessions_above
from gitshadow.query.rows import event_row, rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.reporting.notices import paths_of, who_ran
from gitshadow.store.journal import events
from gitshadow.store.journal.events import EventFilter
from gitshadow.undo import run as undo_run
from gitshadow.undo.effective import Undone, standing
from gitshadow.undo.engine import UndoEngine
from gitshadow.undo.plan import PathFilter
from gitshadow.undo.run import ResolvedUndo
from gitshadow.undo.targets import Target, undoes_of

_SHOWN = 100
_MOST = 1000
_QUIET = (EventKind.BASELINE,)


def own_session(
    context: RecorderContext, request: OwnSessionRequest
) -> OwnSessionAnswer:
    """Return the session of the caller."""
    session = _own(context, request.ancestors).session
    return OwnSessionAnswer(
        session.id, session.native_id, session.agent, rfc3339(session.started_ns)
    )


def own_above(context: RecorderContext, request: OwnSessionRequest) -> OwnAboveAnswer:
    """Return the ids of the sessions of the agent that started the caller; none without one."""
    found = sessions_above(context.workspace.db, _processes(request.ancestors))
    return OwnAboveAnswer(tuple(one.id for one in found))


def own_changes(
    context: RecorderContext, request: OwnChangesRequest
) -> OwnChangesAnswer:
    """Return what the session wrote, newest first, and the op that undid each change."""
    own = _own(context, request.ancestors)
    context.observer.settle()
    ws = context.workspace
    # A model reads the answer: more rows would fill its context.
    limit = min(request.limit or _SHOWN, _MOST)
    wanted = EventFilter(
        limit=limit,
        sessions=own.whose,
        paths=typed_paths(ws.layout, request.cwd, request.paths) or None,
        kinds=tuple(kind for kind in EventKind if kind not in _QUIET),
        worktree=ws.layout.worktree,
    )
    undone = Undone(ws.db, ws.layout.worktree)
    rows = []
    for event in events.rows(ws.db, wanted):
        op = undone.by(event) if isinstance(event, PathChange) else None
        rows.append(_own_change(event, op))
    return OwnChangesAnswer(own.session.id, tuple(rows), limit)


def _own_change(event: Event, op: Op | None) -> OwnChange:
    row = event_row(event)
    return OwnChange(
        seq=row.seq,
        ts=row.ts,
        path=row.path,
        old_path=UNSET if row.old_path is None else row.old_path,
        kind=row.kind,
        session=row.session,
        turn=row.turn,
        call=row.call,
        tool=row.tool,
        confidence=row.confidence,
        burst=row.burst,
        undone_by=None if op is None else op.id,
    )


def own_undone(context: RecorderContext, request: OwnSessionRequest) -> OwnUndoneAnswer:
    """Return the undos of the session's work that are in effect, newest first."""
    own = _own(context, request.ancestors)
    db = context.workspace.db
    rows = []
    for op in standing(db).ops:
        paths = [] if op.kind is OpKind.REDO else paths_of(db, op, own.whose)
        if paths:
            by = "you" if op.session in own.whose else who_ran(db, op)
            ts, names = rfc3339(op.ts_ns), tuple(dict.fromkeys(paths))
            rows.append(OwnUndo(op.id, op.kind.value, ts, by, names))
    return OwnUndoneAnswer(own.session.id, tuple(rows))


def own_undo(context: RecorderContext, request: OwnUndoRequest) -> FileUndoAnswer:
    """Plan an undo of the session's own work; apply it if the token of a plan is given."""
    own = _own(context, request.ancestors)
    context.observer.settle()
    ws, token = context.workspace, request.token
    thing = own_thing(ws, own, request.target)
    resolved = ResolvedUndo(
        FileUndoRequest(yes=token is not None, token=token),
        targets=(Target(undoes_of(thing)),),
        paths=PathFilter(typed_paths(ws.layout, request.cwd, request.paths)),
        whose=own.whose,
    )
    report = undo_run.run(UndoEngine(context, own.session.id), resolved)
    return report.answer()


def _own(context: RecorderContext, ancestors: Processes) -> Own:
    return own_of(context.workspace.db, _processes(ancestors))


def _processes(ancestors: Processes) -> list[ProcessId]:
    """Return the processes of the caller, nearest first."""
    if not ancestors:
        raise UsageError("cannot identify the caller")
    return [ProcessId(*pair) for pair in ancestors]
