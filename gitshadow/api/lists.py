"""log, sessions, turns, ops: rows of the journal, newest first, after a barrier."""

from collections.abc import Sequence

from gitshadow.api import Document, Params
from gitshadow.errors import UsageError
from gitshadow.model import Chain, Event, EventKind
from gitshadow.query import params as read
from gitshadow.query.resolve import session_of
from gitshadow.query.rows import (
    Row,
    about_row,
    event_row,
    op_row,
    program_turn_row,
    session_row,
    turn_row,
)
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.peers import marked
from gitshadow.store.journal import events, saga
from gitshadow.store.journal import ops as ops_journal
from gitshadow.store.journal import sessions as session_journal
from gitshadow.store.journal import turns as turn_journal
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.undo.about import about
from gitshadow.undo.effective import standing
from gitshadow.undo.sdk_turns import recorded_turn
from gitshadow.undo.targets import events_of, unit_of_ids

_QUIET = (EventKind.BASELINE,)
_PROMPT_SHOWN = 200


def log(context: RecorderContext, params: Params) -> Document:
    """Return journal rows, newest first; the roots of chains only with `all`."""
    context.observer.settle()
    ws = context.workspace
    wanted = read.text(params, "session")
    chosen = EventFilter(
        limit=read.number(params, "limit"),
        sessions=(session_of(ws.db, wanted).id,) if wanted else None,
        agent=read.text(params, "agent"),
        since_ns=read.number(params, "since"),
        until_ns=read.number(params, "until"),
        paths=tuple(read.repo_paths(ws.layout, params, "paths")) or None,
        kinds=_kinds(params),
        worktree=None if wanted or read.flag(params, "all") else ws.layout.worktree,
        before_seq=read.number(params, "below"),
        after_seq=read.number(params, "above"),
        text=read.text(params, "text"),
    )
    found = events.rows(ws.db, chosen)
    rows = [event_row(event) for event in found]
    if read.flag(params, "prompts"):
        _add_prompts(ws.db, found, rows)
    return {"rows": rows}


def _add_prompts(db: Db, found: Sequence[Event], rows: Sequence[Row]) -> None:
    """Add the beginning of its turn's prompt to each row; the whole one is in `show`."""
    known: dict[tuple[str, str], str | None] = {}
    for event, row in zip(found, rows, strict=True):
        who = event.attribution
        if who is None or who.turn is None:
            row["prompt"] = None
            continue
        key = (who.session, who.turn)
        if key not in known:
            turn = turn_journal.get_turn(db, *key)
            known[key] = _beginning(turn.prompt) if turn and turn.prompt else None
        row["prompt"] = known[key]


def _beginning(prompt: str) -> str:
    first = next((line for line in prompt.splitlines() if line.strip()), "")
    return first.strip()[:_PROMPT_SHOWN]


def _kinds(params: Params) -> tuple[EventKind, ...] | None:
    names = read.strings(params, "kinds")
    known = {kind.value: kind for kind in EventKind}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"no such kind: {unknown[0]}", hint="kinds: " + ", ".join(known)
        )
    if names:
        return tuple(known[name] for name in names)
    if read.flag(params, "all"):
        return None
    return tuple(kind for kind in EventKind if kind not in _QUIET)


def sessions(context: RecorderContext, params: Params) -> Document:
    """Return one row for each session and worktree, newest first."""
    context.observer.settle()
    db, worktree = context.workspace.db, context.workspace.layout.worktree
    rows: list[Row] = []
    for session in session_journal.all_sessions(db):
        owned: list[Chain | None] = [*session_journal.chains_of(db, session.id)]
        owned = owned or [None]
        counts = events.counts_of_session(db, session.id)
        counts["turns"] = len(turn_journal.list_turns(db, session.id))
        rows += [session_row(session, chain, counts, worktree) for chain in owned]
    for machine, other in context.others.contexts():
        found = marked(sessions(other, params), machine)["rows"]
        rows += found if isinstance(found, list) else []
    return {"rows": rows}


def turns(context: RecorderContext, params: Params) -> Document:
    """Return the turns of one session, or of all and of agent programs too, newest first."""
    context.observer.settle()
    db = context.workspace.db
    wanted = read.text(params, "session")
    session = session_of(db, wanted).id if wanted else None
    rows = [
        turn_row(turn, *events.counts_of_turn(db, turn.session, turn.id))
        for turn in reversed(turn_journal.list_turns(db, session))
    ]
    by_id = {(str(row["session"]), str(row["id"])): row for row in rows}
    for turn in reversed(saga.turns(db)):
        known = recorded_turn(db, turn.session, turn.agent, turn.id, turn.started_ns)
        if known is None and session is None:
            rows.append(program_turn_row(turn))
        elif known is not None and (known.session, known.id) in by_id:
            by_id[known.session, known.id]["status"] = turn.status
    rows.sort(key=lambda row: str(row["started"]), reverse=True)
    return {"rows": rows}


def ops(context: RecorderContext, params: Params) -> Document:
    """Return the recorded restores, newest first, each with the op that took it back."""
    db = context.workspace.db
    found = ops_journal.list_ops(db)[: read.number(params, "limit")]
    undone_by = standing(db).undone_by
    rows: list[Row] = []
    for op in found:
        undone = events_of(db, op.worktree, unit_of_ids(db, op.undoes))
        abouts = [about_row(one) for one in about(db, op.worktree, undone)]
        rows.append(op_row(op, undone_by.get(op.id)) | {"about": abouts})
    return {"rows": rows}
