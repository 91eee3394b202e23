"""show: one event, call, turn, burst, session, op or commit, with what it changed."""

import json
from collections.abc import Sequence
from dataclasses import replace

from gitshadow.api import Document, Params
from gitshadow.messages.codec import encode
from gitshadow.model import Burst, Call, Event, Op, Session, Turn
from gitshadow.query import params as read
from gitshadow.query.resolve import (
    Recorded,
    ResolvedId,
    events_of_commit,
    find,
    recorded_commit,
)
from gitshadow.query.rows import (
    Row,
    burst_row,
    call_row,
    event_row,
    op_row,
    rfc3339,
    session_row,
    turn_row,
)
from gitshadow.recording.context import RecorderContext
from gitshadow.reporting.patches import deltas_between, net_deltas, patch_fields
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.events import EventFilter
from gitshadow.undo.effective import standing

_EVENTS_SHOWN = 1000


def show(context: RecorderContext, params: Params) -> Document:
    """Return what an id names: its own fields, its events, and a patch of them.

    With `paths` only what it did there; with `patch` false no patch, with `hunks` its files as
    data. Of more events than `limit` the newest are there, and `cut` says so.
    """
    context.observer.settle()
    typed = read.needed(params, "id")
    commit = recorded_commit(context.workspace, typed)
    if commit is not None:
        return _show_commit(context, commit)
    found = find(context.workspace.db, typed)
    kind, row, wanted = _describe(context, found)
    paths = tuple(read.repo_paths(context.workspace.layout, params, "paths")) or None
    rows, limit = [], read.number(params, "limit") or _EVENTS_SHOWN
    if wanted is not None:
        chosen = replace(wanted, paths=paths, limit=limit + 1)
        rows = events.rows(context.workspace.db, chosen)
    is_cut, rows = len(rows) > limit, rows[:limit]
    if isinstance(found.thing, Event):
        rows = [found.thing]
    rows.reverse()
    document: Document = {"type": kind, **row}
    if isinstance(found.thing, Event):
        document["prompt"] = _prompt(context, found.thing)
    else:
        document["events"] = [encode(event_row(event)) for event in rows]
    if is_cut:
        document["cut"] = True
    if isinstance(found.thing, Op) and found.thing.report is not None:
        document["report"] = json.loads(found.thing.report)
    if params.get("patch") is not False:
        document |= _patch(context, rows, as_data=params.get("hunks") is True)
    return document


def _show_commit(context: RecorderContext, commit: Recorded) -> Document:
    """Return what one of our commits holds: what wrote it, and as the prompt of whom."""
    ws, said = context.workspace, commit.said
    rows = events_of_commit(ws, commit)
    prompts = {_prompt(context, row) for row in rows} - {None}
    parent = (
        ws.repo.commit(commit.info.parents[0]).tree if commit.info.parents else None
    )
    document: Document = {
        "type": "commit",
        "id": commit.oid,
        "subject": said.subject,
        "kind": said.kind,
        "ts": rfc3339(said.time_ns),
        "session": said.session,
        "agent": said.agent,
        "turn": said.turn,
        "call": said.call,
        "op": said.op,
        "prompt": prompts.pop() if len(prompts) == 1 else None,
        "events": [encode(event_row(row)) for row in rows],
    }
    if said.kind != "baseline":
        deltas = deltas_between(ws.repo, parent, commit.info.tree)
        document |= patch_fields(ws.repo, deltas, "diff", as_data=False)
    return document


def _prompt(context: RecorderContext, event: Event) -> str | None:
    """Return what the agent had been told when it wrote, where that is known."""
    who = event.attribution
    if who is None or who.turn is None:
        return None
    turn = turns.get_turn(context.workspace.db, who.session, who.turn)
    return None if turn is None else turn.prompt


def _describe(
    context: RecorderContext, found: ResolvedId
) -> tuple[str, Row, EventFilter | None]:
    thing = found.thing
    if isinstance(thing, Event):
        return "event", encode(event_row(thing)), None
    if isinstance(thing, Call):
        chosen = EventFilter(sessions=(thing.session,), call=thing.id)
        return "call", encode(call_row(thing)), chosen
    if isinstance(thing, Turn):
        counts = events.counts_of_turn(context.workspace.db, thing.session, thing.id)
        chosen = EventFilter(sessions=(thing.session,), turn=thing.id)
        return "turn", encode(turn_row(thing, *counts)), chosen
    if isinstance(thing, Burst):
        return "burst", encode(burst_row(thing)), EventFilter(burst=thing.id)
    if isinstance(thing, Op):
        undone_by = standing(context.workspace.db).undone_by.get(thing.id)
        return "op", encode(op_row(thing, undone_by)), EventFilter(op=thing.id)
    return _describe_session(context, thing)


def _describe_session(
    context: RecorderContext, session: Session
) -> tuple[str, Row, EventFilter | None]:
    db, worktree = context.workspace.db, context.workspace.layout.worktree
    chain = sessions.get_chain(db, session.id, worktree)
    counts = events.counts_of_session(db, session.id)
    counts["turns"] = len(turns.list_turns(db, session.id))
    row = encode(session_row(session, chain, counts, worktree))
    return "session", row, EventFilter(sessions=(session.id,))


def _patch(context: RecorderContext, rows: Sequence[Event], *, as_data: bool) -> Row:
    changed = [row for row in rows if row.path is not None and row.commit is not None]
    if not changed:
        return {"diff": None}
    deltas = net_deltas(changed)
    return patch_fields(context.workspace.repo, deltas, "diff", as_data=as_data)
