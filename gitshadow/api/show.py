"""show: one event, call, turn, burst, session, op or commit, with what it changed."""

import json
from collections.abc import Sequence
from dataclasses import replace

from gitshadow.api.lists import named_op_row
from gitshadow.messages.states import (
    CommitRow,
    ShowAnswer,
    ShowRequest,
    Thing,
    TranscriptPlace,
)
from gitshadow.model import (
    Actor,
    Burst,
    Call,
    Event,
    Gap,
    HeadChange,
    Op,
    Session,
    Turn,
)
from gitshadow.query.params import typed_paths
from gitshadow.query.resolve import (
    Recorded,
    ResolvedId,
    events_of_commit,
    find,
    recorded_commit,
)
from gitshadow.query.rows import (
    burst_row,
    call_row,
    event_rows,
    rfc3339,
    session_row,
    turn_row,
)
from gitshadow.recording.context import RecorderContext
from gitshadow.reporting.patches import (
    Delta,
    deltas_between,
    net_deltas,
    patch_of,
    stat_rows,
)
from gitshadow.store.journal import events, sessions, switches, turns
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.paths import any_within
from gitshadow.undo.effective import standing
from gitshadow.undo.targets import addressed_files, events_of, unit_of

_EVENTS_SHOWN = 1000


def show(context: RecorderContext, request: ShowRequest) -> ShowAnswer:
    """Return what an id names: its own fields, its events, and a patch of them."""
    context.observer.settle()
    ws = context.workspace
    # Commits first: only they can be named by hexadecimal digits alone.
    commit = recorded_commit(ws, request.id)
    if commit is not None:
        return _show_commit(context, commit, request)
    found = find(ws, request.id)
    kind, row, wanted = _describe(context, found)
    typed = typed_paths(ws.layout, request.cwd, request.paths)
    paths = typed or addressed_files([request.id]) or None
    rows, limit = [], request.limit or _EVENTS_SHOWN
    if wanted is not None:
        # One more than is shown, to know whether there are more without counting them.
        chosen = replace(wanted, paths=paths, limit=limit + 1)
        rows = events.rows(ws.db, chosen)
    is_cut, rows = len(rows) > limit, rows[:limit]
    if isinstance(found.thing, HeadChange) and found.thing.files:
        return _show_switch(context, row, found.thing, request)
    if isinstance(found.thing, Event):
        rows = [found.thing]
    rows.reverse()
    shown = None if wanted is None else event_rows(ws.db, rows)
    answer = ShowAnswer(kind, row, events=shown, cut=is_cut)
    if isinstance(found.thing, Op) and found.thing.report is not None:
        answer = answer._replace(report=json.loads(found.thing.report))
    if isinstance(found.thing, Turn):
        answer = answer._replace(transcript=_transcript(context, found.thing))
    if isinstance(found.thing, Turn | Burst):
        whole = events_of(ws.db, ws.layout.worktree, unit_of(ws.db, found.thing))
        # As an undo of it, with the parts of subagents; what other worktrees have is only listed.
        mine = [
            one
            for one in whole
            if paths is None or any_within((one.path, one.old_path), paths)
        ]
        return _with_patch(context, mine or rows, answer, request)
    return _with_patch(context, rows, answer, request)


def _show_switch(
    context: RecorderContext, row: Thing, head: HeadChange, request: ShowRequest
) -> ShowAnswer:
    """Return a move of HEAD with the files that Git switched, and a patch of those asked for."""
    ws = context.workspace
    paths = typed_paths(ws.layout, request.cwd, request.paths)
    switched = switches.all_of(ws.db, head)
    if paths:
        switched = [one for one in switched if any_within((one.path,), paths)]
    limit = request.limit or _EVENTS_SHOWN
    shown, is_cut = switched[:limit], len(switched) > limit
    answer = ShowAnswer("event", row, event_rows(ws.db, shown), is_cut)
    # Of all files it would be as long as the branches are different.
    return _with_patch(context, shown, answer, request) if paths else answer


def _show_commit(
    context: RecorderContext, commit: Recorded, request: ShowRequest
) -> ShowAnswer:
    """Return what one of our commits holds: what wrote it, and as the prompt of whom."""
    ws, said = context.workspace, commit.said
    rows = events_of_commit(ws, commit)
    prompts = {_prompt(context, row) for row in rows} - {None}
    row = CommitRow(
        id=commit.oid,
        subject=said.subject,
        kind=said.kind,
        ts=rfc3339(said.time_ns),
        session=said.session,
        agent=said.agent,
        turn=said.turn,
        call=said.call,
        op=said.op,
        prompt=prompts.pop() if len(prompts) == 1 else None,
    )
    answer = ShowAnswer("commit", row, event_rows(ws.db, rows))
    if said.kind == "baseline":
        return answer
    parents = commit.info.parents
    parent = ws.repo.commit(parents[0]).tree if parents else None
    deltas = deltas_between(ws.repo, parent, commit.info.tree)
    return _with_deltas(context, deltas, answer, request)


def _prompt(context: RecorderContext, event: Event) -> str | None:
    """Return the prompt that the agent had when it wrote, if it is known."""
    if isinstance(event, Gap) or event.attribution.turn is None:
        return None
    session, turn_id = event.attribution.session, event.attribution.turn
    turn = turns.get_turn(context.workspace.db, session, turn_id)
    return None if turn is None else turn.prompt


def _transcript(context: RecorderContext, turn: Turn) -> TranscriptPlace | None:
    """Return where the conversation of a turn is, as the hooks of its agent reported it."""
    db = context.workspace.db
    path, session = (
        sessions.transcript(db, turn.session),
        sessions.get(db, turn.session),
    )
    if path is None or session is None:
        return None
    # An id that comes twice in a session has a number; that of a nested agent has its caller's
    # turn before it.
    own = turn.id.rpartition("/")[2].partition("~")[0]
    return TranscriptPlace(path, session.agent, own)


def _describe(
    context: RecorderContext, found: ResolvedId
) -> tuple[str, Thing, EventFilter | None]:
    thing = found.thing
    if isinstance(thing, Event):
        (row,) = event_rows(context.workspace.db, [thing])
        return "event", row._replace(prompt=_prompt(context, thing)), None
    if isinstance(thing, Call):
        chosen = EventFilter(sessions=(thing.session,), call=thing.id)
        return "call", call_row(thing), chosen
    whose = (
        sessions.get(context.workspace.db, thing.session)
        if isinstance(thing, Turn | Burst)
        else None
    )
    agent = whose.agent if whose is not None else None
    if isinstance(thing, Turn):
        counts = events.counts(context.workspace.db, thing.session, thing.id)
        chosen = EventFilter(sessions=(thing.session,), turn=thing.id)
        of_turn = turn_row(thing, *counts)
        return "turn", of_turn._replace(short=thing.short_id, agent=agent), chosen
    if isinstance(thing, Burst):
        actor = (whose.actor if whose is not None else Actor.UNKNOWN).value
        of_burst = burst_row(thing)._replace(actor=actor, agent=agent)
        return "burst", of_burst, EventFilter(burst=thing.id)
    if isinstance(thing, Op):
        db = context.workspace.db
        undone_by = standing(db).undone_by.get(thing.id)
        return "op", named_op_row(db, thing, undone_by), EventFilter(op=thing.id)
    return _describe_session(context, thing)


def _describe_session(
    context: RecorderContext, session: Session
) -> tuple[str, Thing, EventFilter | None]:
    db, worktree = context.workspace.db, context.workspace.layout.worktree
    chain = sessions.get_chain(db, session.id, worktree)
    counts, number = events.counts(db, session.id), turns.count(db, session.id)
    row = session_row(session, chain, counts, number, worktree)
    return "session", row, EventFilter(sessions=(session.id,))


def _with_patch(
    context: RecorderContext,
    found: Sequence[Event],
    answer: ShowAnswer,
    request: ShowRequest,
) -> ShowAnswer:
    changed = events.path_changes(found)
    if not changed:
        return answer._replace(diff=None) if request.patch else answer
    return _with_deltas(context, net_deltas(changed), answer, request)


def _with_deltas(
    context: RecorderContext,
    deltas: Sequence[Delta],
    answer: ShowAnswer,
    request: ShowRequest,
) -> ShowAnswer:
    repo = context.workspace.repo
    if request.stat:
        answer = answer._replace(stat=stat_rows(repo, deltas))
    if not request.patch:
        return answer
    patch = patch_of(repo, deltas, as_data=request.hunks)
    return answer._replace(diff=patch.text, file_diffs=patch.file_diffs)
