"""log, sessions, turns, ops: rows of the journal, newest first, after a barrier; and pins.

Pins are named snapshots, kept whatever retention does.
"""

import re
from collections.abc import Iterator, Sequence

from gitshadow.errors import UsageError
from gitshadow.messages.codec import Nothing
from gitshadow.messages.lists import (
    LogAnswer,
    LogRequest,
    OpsAnswer,
    OpsRequest,
    PinAnswer,
    PinRequest,
    PinRow,
    PinsAnswer,
    SessionsAnswer,
    TurnsAnswer,
    TurnsRequest,
    UnpinAnswer,
    UnpinRequest,
)
from gitshadow.messages.rows import EventRow, OpRow, SessionRow, TurnRow
from gitshadow.model import Chain, Event, EventKind, Gap, Op, Turn, micro
from gitshadow.query.params import typed_paths
from gitshadow.query.resolve import find, session_of
from gitshadow.query.rows import (
    about_row,
    event_rows,
    local_ref,
    op_row,
    program_turn_row,
    rfc3339,
    session_row,
    turn_row,
)
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.reporting.patches import sum_of_lines
from gitshadow.store import refs
from gitshadow.store.journal import events, short_ids
from gitshadow.store.journal import ops as ops_journal
from gitshadow.store.journal import pins as pin_journal
from gitshadow.store.journal import sessions as session_journal
from gitshadow.store.journal import turns as turn_journal
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.pins import Pin
from gitshadow.store.journal.saga import SagaTables
from gitshadow.undo.about import about
from gitshadow.undo.effective import standing
from gitshadow.undo.sdk_turns import recorded_turn
from gitshadow.undo.targets import Unit, events_of, short_name, unit_of_ids

# The root of a chain is no change: one per session would only be noise.
_QUIET = (EventKind.BASELINE,)
_PROMPT_SHOWN = 200
# Only the newest rows have counts of lines: each costs a diff of its files.
_COUNTED_ROWS = 200
_PIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,35}")


def log(context: RecorderContext, request: LogRequest) -> LogAnswer:
    """Return journal rows, newest first; the roots of chains only with `all`."""
    context.observer.settle()
    ws = context.workspace
    wanted = request.session
    whose = (session_of(ws.db, wanted).id,) if wanted else None
    turn = None if request.turn is None else _turn_named(ws, request.turn)
    chosen = EventFilter(
        limit=request.limit,
        sessions=whose if turn is None else (turn.session,),
        turn=None if turn is None else turn.id,
        agent=request.agent,
        since_ns=request.since,
        until_ns=request.until,
        paths=typed_paths(ws.layout, request.cwd, request.paths) or None,
        kinds=_kinds(request),
        worktree=None if wanted or request.all else ws.layout.worktree,
        before_seq=request.below,
        after_seq=request.above,
        text=request.text,
    )
    found = events.rows(ws.db, chosen)
    rows = event_rows(ws.db, found)
    return LogAnswer(_with_prompts(ws.db, found, rows) if request.prompts else rows)


def _turn_named(ws: Workspace, typed: str) -> Turn:
    thing = find(ws, typed).thing
    if not isinstance(thing, Turn):
        raise UsageError(
            f"cannot use {typed} as a turn", hint="to list turns: git agent-undo turns"
        )
    return thing


def _with_prompts(
    db: Db, found: Sequence[Event], rows: Sequence[EventRow]
) -> tuple[EventRow, ...]:
    """Return the rows with the start of their turn's prompt; the whole one is in `show`."""
    # Many events belong to one turn: its prompt is read once.
    known: dict[tuple[str, str], str | None] = {}

    def prompt_of(event: Event) -> str | None:
        if isinstance(event, Gap) or event.attribution.turn is None:
            return None
        key = (event.attribution.session, event.attribution.turn)
        if key not in known:
            turn = turn_journal.get_turn(db, *key)
            known[key] = _beginning(turn.prompt) if turn and turn.prompt else None
        return known[key]

    pairs = zip(found, rows, strict=True)
    return tuple(row._replace(prompt=prompt_of(event)) for event, row in pairs)


def _beginning(prompt: str) -> str:
    first = next((line for line in prompt.splitlines() if line.strip()), "")
    return first.strip()[:_PROMPT_SHOWN]


def event_kinds(names: Sequence[str]) -> tuple[EventKind, ...]:
    """Return the kinds of events that some names mean.

    Raises:
        UsageError: there is no such kind.
    """
    known = {kind.value: kind for kind in EventKind}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"no such kind: {unknown[0]}", hint="kinds: " + ", ".join(known)
        )
    return tuple(known[name] for name in names)


def _kinds(request: LogRequest) -> tuple[EventKind, ...] | None:
    if request.kinds:
        return event_kinds(request.kinds)
    if request.all:
        return None
    return tuple(kind for kind in EventKind if kind not in _QUIET)


def sessions(context: RecorderContext, request: Nothing) -> SessionsAnswer:
    """Return one row for each session and worktree, newest first."""
    context.observer.settle()
    rows = list(_session_rows(context))
    for machine, other in context.others.contexts():
        other.observer.settle()
        rows += [
            row._replace(machine=machine, ref=row.ref and local_ref(row.ref))
            for row in _session_rows(other)
        ]
    return SessionsAnswer(tuple(rows))


def _session_rows(context: RecorderContext) -> Iterator[SessionRow]:
    db, worktree = context.workspace.db, context.workspace.layout.worktree
    for session in session_journal.all_sessions(db):
        owned: Sequence[Chain | None] = session_journal.chains_of(db, session.id)
        counts = events.counts(db, session.id)
        number = turn_journal.count(db, session.id)
        for chain in owned or (None,):
            yield session_row(session, chain, counts, number, worktree)


def turns(context: RecorderContext, request: TurnsRequest) -> TurnsAnswer:
    """Return the turns of one session, or of all and of agent programs too, newest first."""
    context.observer.settle()
    db = context.workspace.db
    session = session_of(db, request.session).id if request.session else None
    agents = {one.id: one.agent for one in session_journal.all_sessions(db)}
    rows = {
        (turn.session, turn.id): turn_row(
            turn, *events.counts(db, turn.session, turn.id)
        )._replace(short=turn.short_id, agent=agents.get(turn.session))
        for turn in reversed(turn_journal.list_turns(db, session))
    }
    programs: list[TurnRow] = []
    for turn in reversed(SagaTables(db).turns()):
        known = recorded_turn(db, turn.session, turn.agent, turn.id, turn.started_ns)
        if known is None and session is None:
            programs.append(program_turn_row(turn))
        elif known is not None and (known.session, known.id) in rows:
            key = known.session, known.id
            rows[key] = rows[key]._replace(status=turn.status)
    found = [*rows.values(), *programs]
    found.sort(key=lambda row: str(row.started), reverse=True)
    if request.lines:
        newest = (_with_lines(context, row) for row in found[:_COUNTED_ROWS])
        found[:_COUNTED_ROWS] = newest
    return TurnsAnswer(tuple(found))


def _with_lines(context: RecorderContext, row: TurnRow) -> TurnRow:
    ws = context.workspace
    own = Unit(turns=frozenset({(row.session, row.id)}))
    written = events_of(ws.db, ws.layout.worktree, own)
    sure = [one for one in written if not one.attribution.is_maybe]
    added, removed = sum_of_lines(ws.repo, sure)
    return row._replace(added=added, removed=removed)


def ops(context: RecorderContext, request: OpsRequest) -> OpsAnswer:
    """Return the recorded restores, newest first, each with the op that undid it."""
    db = context.workspace.db
    undone_by = standing(db).undone_by
    rows: list[OpRow] = []
    for op in ops_journal.list_ops(db)[: request.limit]:
        undone = events_of(db, op.worktree, unit_of_ids(db, op.undoes))
        row = named_op_row(db, op, undone_by.get(op.id))._replace(
            about=tuple(about_row(one) for one in about(db, op.worktree, undone))
        )
        if request.lines and len(rows) < _COUNTED_ROWS:
            changed = events_of(db, op.worktree, Unit(ops=frozenset({op.id})))
            added, removed = sum_of_lines(context.workspace.repo, changed)
            paths = {one.path for one in changed}
            row = row._replace(files=len(paths), added=added, removed=removed)
        rows.append(row)
    return OpsAnswer(tuple(rows))


def named_op_row(db: Db, op: Op, undone_by: Op | None) -> OpRow:
    """Return the row of a recorded restore, with the short ids that people use."""
    session = session_journal.get(db, op.session) if op.session else None
    by = short_ids.of(db, short_ids.OP, undone_by.id) if undone_by else ""
    return op_row(op, undone_by)._replace(
        short=short_ids.of(db, short_ids.OP, op.id),
        agent=session.agent if session else None,
        undid=tuple(dict.fromkeys(short_name(db, one) for one in op.undoes)),
        undone_short=by,
    )


def pin(context: RecorderContext, request: PinRequest) -> PinAnswer:
    """Name the present state of the working tree."""
    name = request.name
    if _PIN_NAME.fullmatch(name) is None:
        raise UsageError(
            f"cannot use {name!r} as a pin name",
            hint="use letters, digits, dots, dashes and underscores, at most 36",
        )
    ws = context.workspace
    context.observer.settle()
    ref = refs.pin_ref(name)
    taken = {one.ref for one in pin_journal.list_pins(ws.db)}
    if pin_journal.get(ws.db, name) is not None or ref in taken:
        raise UsageError(
            f"cannot pin {name}: a pin with that name exists",
            hint=f"git agent-undo pin -d {name}",
        )
    now_ns = micro(ws.clock.now_ns())
    commit = ws.recorder.publish_pin(name, ref, now_ns)
    row = Pin(
        name=name, ref=ref, commit=commit, worktree=ws.layout.worktree, ts_ns=now_ns
    )
    # The ref is there first: after a crash here, `reindex` finds the pin in the refs.
    with ws.db.write():
        pin_journal.put(ws.db, row)
    return PinAnswer(name, commit, ref, rfc3339(now_ns))


def pins(context: RecorderContext, request: Nothing) -> PinsAnswer:
    """Return the pins, newest first."""
    found = pin_journal.list_pins(context.workspace.db)
    return PinsAnswer(
        tuple(
            PinRow(one.name, one.commit, one.ref, one.worktree, rfc3339(one.ts_ns))
            for one in found
        )
    )


def unpin(context: RecorderContext, request: UnpinRequest) -> UnpinAnswer:
    """Delete a pin; no file changes."""
    ws = context.workspace
    name = request.name
    known = pin_journal.get(ws.db, name)
    if known is None:
        raise UsageError(f"cannot find pin {name}", hint="git agent-undo pin --list")
    with ws.db.write():
        pin_journal.drop(ws.db, name)
    ws.repo.delete_ref(known.ref)
    return UnpinAnswer(name, deleted=True)
