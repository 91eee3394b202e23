"""show: one event, call, turn, burst, session, op or commit, with what it changed."""

import json
from collections.abc import Sequence
from dataclasses import replace

from gitshadow.api import Document, Params
from gitshadow.model import Burst, Call, Event, Op, Session, Turn
from gitshadow.query import params as read
from gitshadow.query.commit_ids import Recorded, events_of_commit, recorded_commit
from gitshadow.query.resolve import Found, find
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
from gitshadow.recording.context import Desk
from gitshadow.reporting.patches import deltas_between, format_delta, patch_of
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.events import EventFilter
from gitshadow.undo.effective import standing

_EVENTS_SHOWN = 1000


def show(desk: Desk, params: Params) -> Document:
    """Return what an id names: its own fields, its events, and a patch of them.

    With `paths` only what it did there; with `patch` false no patch. Of more events than
    `limit` the newest are there, and `cut` says so.
    """
    desk.observer.settle()
    typed = read.needed(params, "id")
    commit = recorded_commit(desk.workspace, typed)
    if commit is not None:
        return _show_commit(desk, commit)
    found = find(desk.workspace.db, typed)
    kind, row, wanted = _describe(desk, found)
    paths = tuple(read.repo_paths(desk.workspace.layout, params, "paths")) or None
    rows, limit = [], read.number(params, "limit") or _EVENTS_SHOWN
    if wanted is not None:
        chosen = replace(wanted, paths=paths, limit=limit + 1)
        rows = events.rows(desk.workspace.db, chosen)
    is_cut, rows = len(rows) > limit, rows[:limit]
    if isinstance(found.thing, Event):
        rows = [found.thing]
    rows.reverse()
    document: Document = {"type": kind, **row}
    if isinstance(found.thing, Event):
        document["prompt"] = _prompt(desk, found.thing)
    else:
        document["events"] = [event_row(event) for event in rows]
    if is_cut:
        document["cut"] = True
    if isinstance(found.thing, Op) and found.thing.report is not None:
        document["report"] = json.loads(found.thing.report)
    if params.get("patch") is not False:
        document["diff"] = _patch(desk, rows)
    return document


def _show_commit(desk: Desk, commit: Recorded) -> Document:
    """Return what one of our commits holds: what wrote it, and as the prompt of whom."""
    ws, said = desk.workspace, commit.said
    rows = events_of_commit(ws, commit)
    prompts = {_prompt(desk, row) for row in rows} - {None}
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
        "events": [event_row(row) for row in rows],
    }
    if said.kind != "baseline":
        deltas = deltas_between(ws.repo, parent, commit.info.tree)
        document["diff"] = "".join(format_delta(ws.repo, delta) for delta in deltas)
    return document


def _prompt(desk: Desk, event: Event) -> str | None:
    """Return what the agent had been told when it wrote, where that is known."""
    who = event.attribution
    if who is None or who.turn is None:
        return None
    turn = turns.get_turn(desk.workspace.db, who.session, who.turn)
    return None if turn is None else turn.prompt


def _describe(desk: Desk, found: Found) -> tuple[str, Row, EventFilter | None]:
    thing = found.thing
    if isinstance(thing, Event):
        return "event", event_row(thing), None
    if isinstance(thing, Call):
        chosen = EventFilter(sessions=(thing.session,), call=thing.id)
        return "call", call_row(thing), chosen
    if isinstance(thing, Turn):
        counts = events.counts_of_turn(desk.workspace.db, thing.session, thing.id)
        chosen = EventFilter(sessions=(thing.session,), turn=thing.id)
        return "turn", turn_row(thing, *counts), chosen
    if isinstance(thing, Burst):
        return "burst", burst_row(thing), EventFilter(burst=thing.id)
    if isinstance(thing, Op):
        undone_by = standing(desk.workspace.db).undone_by.get(thing.id)
        return "op", op_row(thing, undone_by), EventFilter(op=thing.id)
    return _describe_session(desk, thing)


def _describe_session(
    desk: Desk, session: Session
) -> tuple[str, Row, EventFilter | None]:
    db, worktree = desk.workspace.db, desk.workspace.layout.worktree
    chain = sessions.get_chain(db, session.id, worktree)
    counts = events.counts_of_session(db, session.id)
    counts["turns"] = len(turns.list_turns(db, session.id))
    row = session_row(session, chain, counts, worktree)
    return "session", row, EventFilter(sessions=(session.id,))


def _patch(desk: Desk, rows: Sequence[Event]) -> str | None:
    changed = [row for row in rows if row.path is not None and row.commit is not None]
    return patch_of(desk.workspace.repo, changed) if changed else None
