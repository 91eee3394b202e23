"""own_session, own_above, own_changes, own_undone, own_undo: an agent and its own work."""

from gitshadow.api import Document, Params
from gitshadow.attribution.process import ProcessId
from gitshadow.errors import UsageError
from gitshadow.messages.codec import encode
from gitshadow.messages.undo import FileUndoRequest
from gitshadow.model import EventKind, OpKind, PathChange
from gitshadow.query import params as read
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
from gitshadow.undo.port import ResolvedUndo
from gitshadow.undo.targets import Target, undoes_of

_SHOWN = 100
_MOST = 1000
_TOLD = (
    *("seq", "ts", "path", "old_path", "kind", "session", "turn", "call", "tool"),
    *("confidence", "burst"),
)
_QUIET = (EventKind.BASELINE,)


def own_session(context: RecorderContext, params: Params) -> Document:
    """Return the session of whoever asks."""
    session = _own(context, params).session
    return {
        "session": session.id,
        "native_id": session.native_id,
        "agent": session.agent,
        "started": rfc3339(session.started_ns),
    }


def own_above(context: RecorderContext, params: Params) -> Document:
    """Return the ids of the sessions of the agent below which somebody asks; none without one."""
    found = sessions_above(context.workspace.db, _ancestors(params))
    return {"sessions": [one.id for one in found]}


def own_changes(context: RecorderContext, params: Params) -> Document:
    """Return what the session wrote, newest first, and which op took each back."""
    own = _own(context, params)
    context.observer.settle()
    ws = context.workspace
    limit = min(read.number(params, "limit") or _SHOWN, _MOST)
    wanted = EventFilter(
        limit=limit,
        sessions=own.whose,
        paths=tuple(read.repo_paths(ws.layout, params, "paths")) or None,
        kinds=tuple(kind for kind in EventKind if kind not in _QUIET),
        worktree=ws.layout.worktree,
    )
    undone = Undone(ws.db, ws.layout.worktree)
    rows: list[Document] = []
    for event in events.rows(ws.db, wanted):
        op = undone.by(event) if isinstance(event, PathChange) else None
        full = encode(event_row(event))
        told = {name: full[name] for name in _TOLD if name in full}
        rows.append({**told, "undone_by": op.id if op is not None else None})
    return {"session": own.session.id, "rows": rows, "limit": limit}


def own_undone(context: RecorderContext, params: Params) -> Document:
    """Return the undos in effect that took work of the session back, newest first."""
    own = _own(context, params)
    db = context.workspace.db
    rows: list[Document] = []
    for op in standing(db).ops:
        paths = [] if op.kind is OpKind.REDO else paths_of(db, op, own.whose)
        if paths:
            rows.append(
                {
                    "op_id": op.id,
                    "kind": op.kind.value,
                    "ts": rfc3339(op.ts_ns),
                    "by": "you" if op.session in own.whose else who_ran(db, op),
                    "paths": list(dict.fromkeys(paths)),
                }
            )
    return {"session": own.session.id, "rows": rows}


def own_undo(context: RecorderContext, params: Params) -> Document:
    """Plan to take own work back, or do it where the token of a plan is given."""
    own = _own(context, params)
    context.observer.settle()
    ws = context.workspace
    thing = own_thing(ws.db, own, read.needed(params, "target"))
    token = read.text(params, "token")
    request = ResolvedUndo(
        FileUndoRequest(yes=token is not None, token=token),
        targets=(Target(undoes_of(thing)),),
        paths=PathFilter(tuple(read.repo_paths(ws.layout, params, "paths"))),
        whose=own.whose,
    )
    report = undo_run.run(UndoEngine(context, own.session.id), request)
    return encode(report.answer())


def _own(context: RecorderContext, params: Params) -> Own:
    return own_of(context.workspace.db, _ancestors(params))


def _ancestors(params: Params) -> list[ProcessId]:
    """Return the processes of whoever asks, nearest first."""
    found = params.get("ancestors")
    if not isinstance(found, list):
        raise UsageError("cannot identify the caller")
    made: list[ProcessId] = []
    for pair in found:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise UsageError("cannot identify the caller")
        pid, started = pair
        if not isinstance(pid, int) or not isinstance(started, int):
            raise UsageError("cannot identify the caller")
        made.append(ProcessId(pid, started))
    return made
