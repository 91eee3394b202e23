"""export and import of our own events: what happened, as lines that another clone can take in."""

from gitshadow.api import Document, Params
from gitshadow.interchange import export
from gitshadow.interchange.event_lines import HEADER
from gitshadow.interchange.export import Exporting
from gitshadow.messages.codec import encode
from gitshadow.model import Call, Event, Session, Turn
from gitshadow.query import params as read
from gitshadow.query.rows import Row, call_row, event_row, rfc3339, turn_row
from gitshadow.recording.context import RecorderContext
from gitshadow.store import machine
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.replay import REBUILT

_PAGE = 20_000


def export_events(context: RecorderContext, params: Params) -> Document:
    """Return lines of our own format, `lines`, and `next`: the number to go on `after`.

    The first page (`after` is 0) begins with header, sessions, models, turns and calls.
    """
    after = read.number(params, "after") or 0
    if not after:
        context.observer.settle()
    wanted = export.chosen(context, params)
    db = context.workspace.db
    seqs = None if wanted.commits is None else Exporting(context, wanted).seqs()
    page = events.page(db, after, _PAGE)
    lines: list[Row] = []
    if not after:
        header = {**HEADER, "machine": machine.current(db)}
        lines = [header, *_context(db, _sessions(db, wanted.sessions, seqs))]
    for event in page:
        who = event.attribution
        mine = not wanted.sessions or (who and who.session in wanted.sessions)
        if mine and (seqs is None or event.seq in seqs):
            lines.append(_event_line(event))
    return {"lines": lines, "next": page[-1].seq if len(page) == _PAGE else None}


def _sessions(
    db: Db, wanted: frozenset[str], seqs: export.Seqs | None
) -> list[Session]:
    found = sessions.all_sessions(db)[::-1]
    if seqs is not None:
        rows = (events.get(db, seq) for seq in seqs)
        wrote = {row.attribution.session for row in rows if row and row.attribution}
        found = [one for one in found if one.id in wrote]
    return [one for one in found if not wanted or one.id in wanted]


def _context(db: Db, found: list[Session]) -> list[Row]:
    lines = [_session_line(one) for one in found]
    for one in found:
        for since_ns, model in sessions.models_of(db, one.id):
            since = rfc3339(since_ns)
            lines.append(
                {"type": "model", "session": one.id, "since": since, "model": model}
            )
    for one in found:
        lines += [_turn_line(turn) for turn in turns.list_turns(db, one.id)]
    for one in found:
        lines += [_call_line(call) for call in turns.list_calls(db, one.id)]
    return lines


def _session_line(session: Session) -> Row:
    """Format a session; one that is open elsewhere has no end, whatever is assumed here."""
    assumed = session.end_reason == REBUILT
    return {
        "type": "session",
        "id": session.id,
        "native_id": session.native_id,
        "actor": session.actor.value,
        "agent": session.agent,
        "parent": session.parent,
        "started": rfc3339(session.started_ns),
        "ended": None if assumed else rfc3339(session.ended_ns),
        "end_reason": None if assumed else session.end_reason,
    }


def _turn_line(turn: Turn) -> Row:
    row = encode(turn_row(turn, 0, 0))
    return {"type": "turn"} | {
        key: row[key]
        for key in ("id", "session", "ordinal", "started", "ended", "prompt")
    }


def _call_line(call: Call) -> Row:
    row = encode(call_row(call))
    del row["call"]
    return {"type": "call", **row, "worktree": call.worktree}


def _event_line(event: Event) -> Row:
    return {"type": "event", **encode(event_row(event))}
