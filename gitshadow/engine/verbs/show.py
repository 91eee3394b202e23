"""show: one event, call, turn, burst, session or op, with what it changed."""

import json
from collections.abc import Sequence

from gitshadow.engine import params as read
from gitshadow.engine.desk import Desk
from gitshadow.engine.patches import patch_of
from gitshadow.engine.resolve import Found, find
from gitshadow.engine.rows import (
    Row,
    burst_row,
    call_row,
    event_row,
    op_row,
    session_row,
    turn_row,
)
from gitshadow.engine.verbs import Document, Params
from gitshadow.model import Burst, Call, Event, Op, Session, Turn
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.events import EventFilter
from gitshadow.undo.effective import standing

_EVENTS_SHOWN = 1000


def show(desk: Desk, params: Params) -> Document:
    """Return what an id names: its own fields, its events, and a patch of them."""
    desk.observer.settle()
    found = find(desk.workspace.db, read.needed(params, "id"))
    kind, row, wanted = _describe(desk, found)
    rows = events.rows(desk.workspace.db, wanted) if wanted is not None else []
    if isinstance(found.thing, Event):
        rows = [found.thing]
    rows.reverse()
    document: Document = {"type": kind, **row}
    if not isinstance(found.thing, Event):
        document["events"] = [event_row(event) for event in rows]
    if isinstance(found.thing, Op) and found.thing.report is not None:
        document["report"] = json.loads(found.thing.report)
    document["diff"] = _patch(desk, rows)
    return document


def _describe(desk: Desk, found: Found) -> tuple[str, Row, EventFilter | None]:
    thing, limit = found.thing, _EVENTS_SHOWN
    if isinstance(thing, Event):
        return "event", event_row(thing), None
    if isinstance(thing, Call):
        chosen = EventFilter(limit=limit, sessions=(thing.session,), call=thing.id)
        return "call", call_row(thing), chosen
    if isinstance(thing, Turn):
        counts = events.counts_of_turn(desk.workspace.db, thing.session, thing.id)
        chosen = EventFilter(limit=limit, sessions=(thing.session,), turn=thing.id)
        return "turn", turn_row(thing, *counts), chosen
    if isinstance(thing, Burst):
        return "burst", burst_row(thing), EventFilter(limit=limit, burst=thing.id)
    if isinstance(thing, Op):
        undone_by = standing(desk.workspace.db).undone_by.get(thing.id)
        return "op", op_row(thing, undone_by), EventFilter(limit=limit, op=thing.id)
    return _describe_session(desk, thing)


def _describe_session(
    desk: Desk, session: Session
) -> tuple[str, Row, EventFilter | None]:
    db, worktree = desk.workspace.db, desk.workspace.layout.worktree
    chain = sessions.get_chain(db, session.id, worktree)
    counts = events.counts_of_session(db, session.id)
    counts["turns"] = len(turns.list_turns(db, session.id))
    row = session_row(session, chain, counts, worktree)
    return "session", row, EventFilter(limit=_EVENTS_SHOWN, sessions=(session.id,))


def _patch(desk: Desk, rows: Sequence[Event]) -> str | None:
    changed = [row for row in rows if row.path is not None and row.commit is not None]
    return patch_of(desk.workspace.repo, changed) if changed else None
