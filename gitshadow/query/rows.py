"""Journal values as the rows that verbs answer with."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from gitshadow.messages.codec import UNSET
from gitshadow.messages.history import HistoryAnswer
from gitshadow.messages.lists import LogAnswer, TurnsAnswer
from gitshadow.messages.rows import (
    AboutRow,
    BurstRow,
    CallRow,
    EventRow,
    OpRow,
    SessionRow,
    TurnRow,
    VersionRow,
)
from gitshadow.messages.states import ShowAnswer
from gitshadow.messages.status import ClosingRow
from gitshadow.model import (
    Actor,
    Attribution,
    Burst,
    Call,
    Chain,
    Event,
    FileVersion,
    Gap,
    HeadChange,
    Op,
    PathChange,
    Session,
    Turn,
    format_mode,
)
from gitshadow.store import refs
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db
from gitshadow.store.refs import display_path

# These take 10 ms, and only their types are needed.
if TYPE_CHECKING:
    from gitshadow.store.journal.saga_rows import SagaCall, SagaTurn
    from gitshadow.undo.about import About


def rfc3339(time_ns: int | None) -> str | None:
    """Format nanoseconds since the epoch, to the microsecond."""
    if time_ns is None:
        return None
    seconds, rest = divmod(time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z"


def version_row(version: FileVersion | None) -> VersionRow | None:
    """Return the row of a path's content."""
    if version is None:
        return None
    return VersionRow(version.oid, format_mode(version.mode))


def event_row(event: Event) -> EventRow:
    """Return the row of one event."""
    who = None if isinstance(event, Gap) else event.attribution
    shown = None if who is None else credited(who)
    path = event.path if isinstance(event, PathChange | Gap) else None
    note = event.note if isinstance(event, HeadChange | Gap) else None
    row = EventRow(
        seq=event.seq,
        ts=rfc3339(event.ts_ns),
        path=None if path is None else display_path(path),
        kind=event.kind.value,
        actor=shown.actor.value if shown else None,
        agent=shown.agent if shown else None,
        session=who.session if who else None,
        turn=who.turn if who else None,
        call=who.call if who else None,
        tool=who.tool if who else None,
        confidence=who.confidence.value if who else None,
        reason=who.reason if who else note,
        burst=None,
        commit=None if isinstance(event, Gap) else event.commit,
        before=None,
        after=None,
        op=None,
        worktree=event.worktree,
        candidates=tuple(shown.candidates) if shown is not None else (),
        note=note,
        files=event.files if isinstance(event, HeadChange) else UNSET,
    )
    if not isinstance(event, PathChange):
        return row
    return row._replace(
        burst=event.burst,
        before=version_row(event.before),
        after=version_row(event.after),
        op=event.op,
        old_path=None if event.old_path is None else display_path(event.old_path),
        offline=event.offline,
        switched=event.switched,
        moved_in=event.moved_in,
        inexact=event.inexact,
    )


def event_rows(db: Db, found: Iterable[Event]) -> tuple[EventRow, ...]:
    """Return the rows of events, each with the short id of its turn."""
    # Many events belong to one turn, so its id is looked up once.
    known: dict[tuple[str, str], str] = {}

    def row_of(event: Event) -> EventRow:
        row = event_row(event)
        if row.session is None or row.turn is None:
            return row
        key = row.session, row.turn
        if key not in known:
            turn = turns.get_turn(db, *key)
            known[key] = turn.short_id if turn is not None else ""
        return row._replace(turn_short=known[key])

    return tuple(map(row_of, found))


def credited(who: Attribution) -> Attribution:
    """Return who is shown as the writer; `crediting.by_event` decides the same for lines.

    A write that may as well be a person's has no author, and the agent's session as candidate.
    """
    if not who.is_maybe:
        return who
    return replace(who, actor=Actor.UNKNOWN, agent=None, candidates=(who.session,))


def session_row(
    session: Session,
    chain: Chain | None,
    counts: tuple[int, int],
    turns: int,
    worktree: str,
) -> SessionRow:
    """Return the row of a session in one worktree; `counts` are those of events and files."""
    return SessionRow(
        id=session.id,
        native_id=session.native_id,
        actor=session.actor.value,
        agent=session.agent,
        parent=session.parent,
        worktree=chain.worktree if chain else worktree,
        ref=chain.ref if chain else None,
        tip=chain.tip if chain else None,
        started=rfc3339(session.started_ns),
        ended=rfc3339(session.ended_ns),
        end_reason=session.end_reason,
        events=counts[0],
        files=counts[1],
        turns=turns,
    )


def turn_row(turn: Turn, events: int, files: int) -> TurnRow:
    """Return the row of one turn."""
    return _turn_row(turn, turn.prompt, events, files)


def program_turn_row(turn: "SagaTurn") -> TurnRow:
    """Return the row of an agent program's turn that the recorder of files does not know."""
    return _turn_row(turn, turn.label, 0, 0)._replace(status=turn.status)


def _turn_row(
    turn: "Turn | SagaTurn", prompt: str | None, events: int, files: int
) -> TurnRow:
    return TurnRow(
        id=turn.id,
        turn=turn.id,
        session=turn.session,
        ordinal=turn.ordinal,
        started=rfc3339(turn.started_ns),
        ended=rfc3339(turn.ended_ns),
        prompt=prompt,
        events=events,
        files=files,
    )


def closing_row(call: "SagaCall") -> ClosingRow:
    """Return the row of a call of an agent program that can be undone until some time."""
    return ClosingRow(
        closes=rfc3339(call.expires_ns),
        session=call.session,
        turn=call.turn,
        call=call.id,
        tool=call.tool,
    )


def call_row(call: Call) -> CallRow:
    """Return the row of one tool call."""
    return CallRow(
        id=call.id,
        call=call.id,
        session=call.session,
        turn=call.turn,
        tool=call.tool,
        class_=call.tool_class.value,
        opened=rfc3339(call.opened_ns),
        closed=rfc3339(call.closed_ns),
        outcome=call.outcome,
        paths=tuple(display_path(path) for path in call.paths),
    )


def burst_row(burst: Burst) -> BurstRow:
    """Return the row of one burst."""
    return BurstRow(
        id=burst.id,
        burst=burst.id,
        session=burst.session,
        worktree=burst.worktree,
        turn=burst.turn,
        started=rfc3339(burst.started_ns),
        ended=rfc3339(burst.ended_ns),
        first_seq=burst.first_seq,
        last_seq=burst.last_seq,
        open=burst.open,
    )


def about_row(about: "About") -> AboutRow:
    """Return the row of what one agent, or one person, did in one turn."""
    return AboutRow(
        actor=about.actor.value,
        agent=about.agent,
        session=about.session,
        turn=about.turn,
        ordinal=about.ordinal,
        turns=about.turns,
        prompt=about.prompt,
        ts=rfc3339(about.newest_ns),
        files=about.files,
        kind=about.kind.value if about.kind is not None else "",
        turn_short=about.turn_short,
    )


def op_row(op: Op, undone_by: Op | None) -> OpRow:
    """Return the row of one recorded restore, with the op in effect that undid it."""
    return OpRow(
        id=op.id,
        op_id=op.id,
        kind=op.kind.value,
        ts=rfc3339(op.ts_ns),
        worktree=op.worktree,
        session=op.session,
        target=op.target,
        undoes=tuple(op.undoes),
        status=op.status.value,
        undone_by=undone_by.id if undone_by else None,
        commit=op.commit,
    )


def with_machine(answer: NamedTuple, machine: str) -> NamedTuple:
    """Return an answer about another machine's history, with the machine in it and its rows."""
    if isinstance(answer, LogAnswer):
        events = tuple(row._replace(machine=machine) for row in answer.rows)
        return LogAnswer(events, machine)
    if isinstance(answer, HistoryAnswer):
        found = tuple(row._replace(machine=machine) for row in answer.rows)
        return answer._replace(rows=found, machine=machine)
    if isinstance(answer, TurnsAnswer):
        turns = tuple(row._replace(machine=machine) for row in answer.rows)
        return TurnsAnswer(turns, machine)
    if isinstance(answer, ShowAnswer) and isinstance(answer.thing, SessionRow):
        ref = answer.thing.ref
        thing = answer.thing._replace(ref=ref and local_ref(ref))
        return answer._replace(thing=thing, machine=machine)
    return answer._replace(machine=machine)


def local_ref(ref: str) -> str:
    """Return the name that another machine's ref has in this repository."""
    return refs.fetched_ref(ref) if refs.is_chain(ref) else ref
