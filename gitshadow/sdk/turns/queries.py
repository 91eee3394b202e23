"""The journal's rows about agent programs, for the command line and other readers.

Nothing is written and no lock is taken; all sessions of the repository are visible.
"""

import fnmatch
from collections.abc import Iterator

from gitshadow.errors import JournalError, UsageError
from gitshadow.messages.programs import (
    ArtifactRow,
    Attention,
    AttentionRow,
    ClosingWindow,
    ProgramCallRow,
    ProgramEventRow,
    ProgramState,
    ProgramTurnRow,
    StepRow,
    ToolRow,
)
from gitshadow.platform import current
from gitshadow.query.rows import closing_row, rfc3339
from gitshadow.sdk.turns import (
    call_outcome,
    events,
    evidence,
    json_values,
    reversibility,
    rewind,
    state_rollback,
    undo_request,
)
from gitshadow.sdk.turns.call_outcome import CallKnowledge
from gitshadow.sdk.turns.report import UndoKind
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import Release
from gitshadow.store.journal import alerts
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.journal.saga_rows import Held, SagaCall, SagaTurn
from gitshadow.undo.report import copied


def session_named(db: Db, session: str | None, turn: str | None = None) -> str:
    """Return the session that is meant: the one named, else the only one (with such a turn).

    Raises:
        UsageError: there is none, or several.
    """
    if session is not None:
        return session
    turns = [one for one in SagaTables(db).turns() if turn is None or one.id == turn]
    found = list(dict.fromkeys(one.session for one in turns))
    if len(found) == 1:
        return found[0]
    wanted = "a session of an agent program" if turn is None else f"turn {turn}"
    if not found:
        raise UsageError(
            f"cannot find {wanted}",
            hint="to list turns: git agent-undo program saga turns;"
            " of agents: git agent-undo turns",
        )
    raise UsageError(
        f"ambiguous session: {', '.join(found)}",
        hint="choose one: --session ID",
    )


def log_rows(
    db: Db, session: str | None, turn: str | None, tool: str | None
) -> Iterator[StepRow]:
    """Return the steps of the log, those of tools that a pattern names if one is given."""
    tools: dict[tuple[str, str], str] = {}
    for turn_row in SagaTables(db).turns(session):
        for call in SagaTables(db).calls(turn_row.session, turn_row.id):
            tools[turn_row.session, call.id] = call.tool
    for step in SagaTables(db).log(session, turn):
        name = tools.get((step.session, step.call or ""))
        if tool is None or (name is not None and fnmatch.fnmatchcase(name, tool)):
            ts, body = rfc3339(step.ts_ns), _shown(step.body)
            yield copied(step, StepRow, ts=ts, tool=name, body=body)


def turn_rows(db: Db, session: str | None) -> Iterator[ProgramTurnRow]:
    """Return the turns of agent programs, newest first."""
    for turn in reversed(SagaTables(db).turns(session)):
        calls = SagaTables(db).calls(turn.session, turn.id)
        yield copied(
            turn,
            ProgramTurnRow,
            standing=_standing(turn),
            started=rfc3339(turn.started_ns),
            ended=rfc3339(turn.ended_ns),
            calls=len(calls),
            entries=sum(call.outcome == "success" for call in calls),
        )


def _standing(turn: SagaTurn) -> str:
    """Return the state of a turn: its status, unless its process is gone."""
    return "interrupted" if _is_lost(turn) else turn.status


def call_rows(db: Db, session: str, turn: str) -> Iterator[ProgramCallRow]:
    """Return the calls of a turn in the order in which they started."""
    for call in SagaTables(db).calls(session, turn):
        yield copied(
            call,
            ProgramCallRow,
            class_=call.klass,
            intent=_shown(call.intent),
            content=None if call.content is None else _content(call.content),
            inverse=_shown(call.inverse) if call.inverse else None,
        )


def event_rows(db: Db, session: str, *, live: bool) -> Iterator[ProgramEventRow]:
    """Return the events of a session, all or those that count, each with what hid it."""
    out = events.hidden(SagaTables(db).markers(session))
    for event in SagaTables(db).events(session):
        gap = next((one for one in out if one.first <= event.seq <= one.last), None)
        if live and gap is not None:
            continue
        yield copied(
            event,
            ProgramEventRow,
            ts=rfc3339(event.ts_ns),
            live=gap is None,
            hidden_by=gap.by if gap is not None else None,
            body=_shown(event.body),
        )


def state_document(db: Db, session: str, before: str | None) -> ProgramState:
    """Return a session's state, as it is or as it was before an invocation.

    Raises:
        SessionNotFound, InvocationNotFound: there is none.
    """
    saga = SagaTables(db)
    seq = saga.last_seq(session) + 1
    if before is not None or seq == 0:
        seq = rewind.find(saga, session, before or "")
    values = state_rollback.values(saga.state_before(session, seq))
    return ProgramState(session, before, dict(values))


def attention_rows(
    db: Db, session: str | None, now_ns: int | None = None
) -> Iterator[Attention]:
    """Return what a person should look at: what was cut short, what is in doubt, what failed.

    With a time also the effect that will be the next to be past undoing.
    """
    turns = SagaTables(db).turns(session)
    for turn in turns:
        if _is_cut(db, turn) or _is_kept(db, turn):
            yield AttentionRow(
                what="turn",
                session=turn.session,
                turn=turn.id,
                state=_standing(turn),
                text=turn.label,
            )
    for name in dict.fromkeys(turn.session for turn in turns):
        for op in SagaTables(db).ops(name):
            if op.status != "done":
                yield AttentionRow(
                    what=op.kind,
                    session=name,
                    turn=op.target,
                    op=op.id,
                    state="unfinished",
                    text=f"{op.id}: git agent-undo program recover",
                )
    for call in SagaTables(db).unsettled(session):
        yield _call_row(call)
    for held in SagaTables(db).waiting(session):
        # A call in doubt has a row of its own above.
        if held.state != "in_doubt":
            yield held_row(db, held, now_ns)
    closing = None if now_ns is None else SagaTables(db).next_to_close(now_ns, session)
    if closing is not None:
        row = closing_row(closing)
        said = f"can be undone until {row.closes}"
        yield ClosingWindow("window", "closes", said, row)


def alert_rows(db: Db, session: str | None) -> Iterator[AttentionRow]:
    """Return what was alarming in turns of agents, newest first."""
    for one in alerts.all_alerts(db):
        if session in (None, one.session):
            yield AttentionRow(
                what=one.agent,
                session=one.session,
                turn=one.turn,
                state="alert",
                text=one.text,
                turn_short=alerts.turn_of(db, one),
            )


def held_row(db: Db, held: Held, now_ns: int | None = None) -> AttentionRow:
    """Return a call that waits to be sent, or could not be; with a time, whether it waits yet."""
    calls = SagaTables(db).calls(held.session, held.turn)
    tool = next((call.tool for call in calls if call.id == held.call), "")
    return AttentionRow(
        what="held",
        session=held.session,
        turn=held.turn,
        call=held.call,
        tool=tool,
        state=held.state,
        due=rfc3339(held.due_ns),
        waits=None if now_ns is None else (held.due_ns or 0) > now_ns,
        attempts=held.attempts,
        text=held.error or "",
    )


def release_row(session: str, release: Release) -> AttentionRow:
    """Return what became of a held call whose time had come."""
    return AttentionRow(
        what="release",
        session=session,
        turn=release.turn,
        call=release.call_id,
        tool=release.tool,
        state=release.state,
        text=release.error or "",
    )


def _is_cut(db: Db, turn: SagaTurn) -> bool:
    """Return whether a turn never ended, and no undo of all of it is in effect."""
    if turn.status == "rolling_back" or _is_lost(turn):
        return True
    return turn.status == "interrupted" and not _is_undone(db, turn)


def _is_undone(db: Db, turn: SagaTurn) -> bool:
    """Return whether all of a turn was to be undone, and no part is left that could be."""
    ops = SagaTables(db).ops(turn.session)
    redone = {op.target for op in ops if op.kind == UndoKind.REDO}
    found = [
        undo_request.from_text(op.request)
        for op in ops
        if (op.kind, op.target, op.status) == (UndoKind.UNDO, turn.id, "done")
        and op.id not in redone
    ]
    is_whole = any(one.is_whole for one in found)
    return is_whole and not _has_planned(db, turn)


def _is_kept(db: Db, turn: SagaTurn) -> bool:
    """Return whether a rollback left calls that could be undone: before a pivot, or drifted."""
    return turn.status == "partially_rolled_back" and _has_planned(db, turn)


def _has_planned(db: Db, turn: SagaTurn) -> bool:
    calls = SagaTables(db).calls(turn.session, turn.id)
    return any(call.undo == "planned" for call in calls)


def _is_lost(turn: SagaTurn) -> bool:
    """Return whether an open turn has surely lost its process; nobody has said so yet."""
    # A reader takes no lock, so the owner's process id is all that shows whether it still runs.
    # The processes of a turn with a lease come and go, so only the lease counts there.
    pid = turn.owner.partition("-")[0]
    if turn.status != "open" or turn.lease_ns is not None or not pid.isdigit():
        return False
    return current().process_facts().stat(int(pid)) is None


def tool_row(tool: Tool) -> ToolRow:
    """Return how a tool is declared."""
    return ToolRow(
        name=tool.name,
        class_=tool.reversibility.value if tool.reversibility else "undeclared",
        inverse="inverse" in tool.options,
        observe="fingerprint" in tool.options,
        repeatable=tool.repeatable,
        undo_for_s=tool.window_s,
    )


def _call_row(call: SagaCall) -> AttentionRow:
    is_open = call_outcome.from_row(call) is CallKnowledge.UNKNOWN
    said = evidence.unreadable(call) or call.error
    return AttentionRow(
        what="call",
        session=call.session,
        turn=call.turn,
        call=call.id,
        tool=call.tool,
        state="in_doubt" if is_open else call.undo,
        attempts=call.attempts,
        text=said or (reversibility.doubt(call) if is_open else ""),
    )


def _shown(text: str) -> dict[str, object]:
    """Return the object in a text; of one that is damaged the reason."""
    try:
        return dict(json_values.parse(text))
    except JournalError as error:
        return {"damaged": str(error)}


def _content(text: str) -> object:
    try:
        return json_values.loads(text)
    except JournalError as error:
        return {"damaged": str(error)}


def artifact_rows(
    db: Db, session: str, name: str | None = None, *, every: bool = False
) -> list[ArtifactRow]:
    """Return the artifacts of a session by name: the version that counts, or every one.

    A version without an `oid` says that the artifact is absent from then on. Of an artifact that
    is absent nothing is listed, unless every version is asked for.
    """
    current = SagaTables(db).artifacts(session)
    names = SagaTables(db).artifact_names(session) if every else sorted(current)
    rows: list[ArtifactRow] = []
    for one in names if name is None else [n for n in names if n == name]:
        found = SagaTables(db).versions(session, one) if every else [current[one]]
        newest = current.get(one)
        rows += [
            ArtifactRow(
                session=session,
                name=one,
                version=version.number,
                oid=version.oid,
                current=newest is not None and newest.number == version.number,
            )
            for version in found
        ]
    return rows
