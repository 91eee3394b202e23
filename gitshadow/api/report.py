"""report: one session as a document of facts, for a page and for other programs."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gitshadow import __version__
from gitshadow.api.status import excluded_rows
from gitshadow.errors import UsageError
from gitshadow.messages.codec import JsonObject
from gitshadow.messages.report import (
    NotCovered,
    Omission,
    ReportAnswer,
    ReportedOp,
    ReportedSession,
    ReportRequest,
    RepositoryRow,
    TouchedRow,
    UnsureRow,
)
from gitshadow.model import (
    Actor,
    Confidence,
    Event,
    Gap,
    HeadChange,
    Op,
    PathChange,
    RepoPath,
    Session,
)
from gitshadow.query.resolve import session_of
from gitshadow.query.rows import event_row, op_row, rfc3339, session_row
from gitshadow.recording.context import RecorderContext
from gitshadow.reporting.patches import Patchwork
from gitshadow.reporting.session_report import (
    EVENTS,
    FILES,
    STEPS,
    Lanes,
    Story,
    is_write,
)
from gitshadow.store.journal import events, ops, sessions, state
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.refs import display_path
from gitshadow.undo.effective import standing
from gitshadow.undo.targets import unit_of_ids

LISTED = 200
_AROUND = 10_000
_UNSURE = frozenset({Confidence.LOW, Confidence.AMBIGUOUS})


def report(context: RecorderContext, request: ReportRequest) -> ReportAnswer:
    """Return what one session did: its turns, files, undos, and what is not covered."""
    ws, typed = context.workspace, request.session
    context.observer.settle()
    story = Story(context, session_of(ws.db, typed) if typed else _newest(context))
    lanes = Lanes(context, story)
    around = _around(context, story, lanes)
    others = [e for e in around if is_write(e) and not _is_of(story, e)]
    taken = _ops(context, story)
    in_steps, in_files = Patchwork(ws.repo), Patchwork(ws.repo)
    rare = [e for e in around if isinstance(e, Gap | HeadChange)]
    undone_by = standing(ws.db).undone_by
    answer = ReportAnswer(
        version=1,
        generated=rfc3339(ws.clock.now_ns()),
        program=__version__,
        repository=_repository(context, story),
        session=_session(context, story),
        steps=story.step_rows(in_steps),
        files=story.file_rows(in_files, others),
        confidence=story.confidence_rows(),
        unsure=_unsure(story, others),
        timeline=lanes.timeline(taken, rare, others),
        ops=tuple(
            _op_row(op, undone_by.get(op.id), _steps(context, story, op))
            for op in taken[-LISTED:]
        ),
        not_covered=_not_covered(context, story, lanes, rare),
        left_out=(),
    )
    # Only now both Patchworks know what they cut.
    return answer._replace(left_out=_left_out(story, (in_steps, in_files), len(taken)))


def _newest(context: RecorderContext) -> Session:
    """Return the newest session of an agent, here rather than in another worktree.

    Raises:
        UsageError: there is none.
    """
    ws = context.workspace
    here = {chain.session for chain in sessions.chains(ws.db, ws.layout.worktree)}
    agents = [
        one
        for one in sessions.all_sessions(ws.db)
        if one.actor is Actor.AGENT and one.parent is None
    ]
    for one in [*(a for a in agents if a.id in here), *agents]:
        return one
    raise UsageError(
        "cannot report: no agent session is recorded here",
        hint="choose one with: git agent-undo sessions; then: git agent-undo report ID",
    )


def _repository(context: RecorderContext, story: Story) -> RepositoryRow:
    """Return the repository's name and branch."""
    # No path outside the repository: people pass the page on, and a home directory names them.
    ws = context.workspace
    ref, head = ws.repo.head()
    name = os.path.basename(ws.layout.root)
    return RepositoryRow(
        name=display_path(RepoPath(os.fsencode(name or "repository"))),
        worktree=story.worktree,
        branch=ref.removeprefix("refs/heads/") if ref else None,
        head=head,
        object_format=ws.repo.format.name,
    )


def _session(context: RecorderContext, story: Story) -> ReportedSession:
    db, session = context.workspace.db, story.session
    chain = sessions.get_chain(db, session.id, story.worktree)
    files = {event.path for event in story.events}
    counts = len(story.events), len(files)
    turns = sum(step.turn is not None for step in story.steps)
    names = [name for _, name in sessions.models_of(db, session.id)]
    return ReportedSession(
        row=session_row(session, chain, counts, turns, story.worktree),
        models=tuple(dict.fromkeys(names)),
        subagents=len(story.members) - 1,
        calls=sum(sum(step.tools.values()) for step in story.steps),
        last=rfc3339(story.ended_ns),
        seconds=(story.ended_ns - story.began_ns) // 1_000_000_000,
        undone=story.undone(story.events),
        elsewhere=tuple(story.elsewhere),
    )


def _around(context: RecorderContext, story: Story, lanes: Lanes) -> list[Event]:
    """Return what was recorded in the worktree at the same time, oldest first."""
    chosen = EventFilter(
        worktree=story.worktree,
        since_ns=lanes.begin_ns,
        until_ns=lanes.end_ns,
        limit=_AROUND,
    )
    return events.rows(context.workspace.db, chosen)[::-1]


def _is_of(story: Story, event: PathChange) -> bool:
    return event.attribution.session in story.members


def _ops(context: RecorderContext, story: Story) -> list[Op]:
    """Return the ops that changed what this session wrote, or that it ran, oldest first."""
    found: dict[str, Op] = {}
    for op in reversed(ops.list_ops(context.workspace.db)):
        touched = {item.get("session") for item in _items(op)} | {op.session}
        if touched & set(story.members) or found.keys() & set(op.undoes):
            found[op.id] = op
    return list(found.values())


def _items(op: Op) -> list[JsonObject]:
    items = _stored(op).get("items", [])
    return [item for item in items if isinstance(item, dict)]


def _stored(op: Op) -> Any:
    """Return the stored report of an op; an older program may have written it."""
    report = json.loads(op.report) if op.report else {}
    return report if isinstance(report, dict) else {}


def _op_row(op: Op, undone_by: Op | None, steps: tuple[int, ...]) -> ReportedOp:
    items = tuple(
        {key: value for key, value in item.items() if key != "hunks"}
        for item in _items(op)
    )
    return ReportedOp(
        row=op_row(op, undone_by),
        outcome=_stored(op).get("status"),
        items=items[:LISTED],
        items_left_out=max(0, len(items) - LISTED),
        steps=steps,
    )


def _steps(context: RecorderContext, story: Story, op: Op) -> tuple[int, ...]:
    """Return the indexes of the steps that an op undid or redid."""
    db = context.workspace.db
    # A redo names the op that it reversed: its steps are those of that op.
    above = [found for name in op.undoes if (found := ops.get(db, name))]
    if above:
        places = {step for one in above for step in _steps(context, story, one)}
        return tuple(sorted(places))
    unit = unit_of_ids(db, op.undoes)
    return story.places(event for event in story.events if unit.holds(event))


def _unsure(story: Story, others: Sequence[PathChange]) -> tuple[UnsureRow, ...]:
    """Return writes that may be somebody else's, and those of others that may be its own."""
    mine = [
        UnsureRow(event_row(event), "recorded as its own")
        for event in story.events
        if event.attribution.confidence in _UNSURE
    ]
    theirs = [
        UnsureRow(event_row(event), "recorded as another author's")
        for event in others
        if set(event.attribution.candidates) & set(story.members)
    ]
    return (*mine, *theirs)[:LISTED]


def _not_covered(
    context: RecorderContext,
    story: Story,
    lanes: Lanes,
    rare: Sequence[Gap | HeadChange],
) -> NotCovered:
    ws = context.workspace
    touched = Counter(
        (display_path(touch.path) or ".", touch.why)
        for touch in state.touches_between(
            ws.db, story.worktree, lanes.begin_ns, lanes.end_ns
        )
        if touch.session is None or touch.session in story.members
    )
    excluded = excluded_rows(context)
    gaps = [event_row(event) for event in rare if isinstance(event, Gap)]
    return NotCovered(
        gaps=tuple(gaps[:LISTED]),
        touched=tuple(
            TouchedRow(path, why, count)
            for (path, why), count in sorted(touched.items())[:LISTED]
        ),
        excluded=excluded[:LISTED],
        excluded_count=len(excluded),
    )


def _left_out(
    story: Story, patches: Sequence[Patchwork], ops_count: int
) -> tuple[Omission, ...]:
    """Return what the limits left out, each with the command that shows it."""
    session = story.session.id
    rows: list[Omission] = []
    if story.is_cut:
        what = f"changes before the newest {EVENTS}"
        rows.append(Omission(what, f"git agent-undo log --session {session}"))
    for name, most, count in (
        ("turns", STEPS, len(story.steps)),
        ("files", FILES, len({event.path for event in story.events})),
        ("undos", LISTED, ops_count),
    ):
        if count > most:
            see = f"git agent-undo {'ops' if name == 'undos' else f'show {session}'}"
            rows.append(Omission(f"{count - most} {name}", see))
    cut = sum(one.cut for one in patches)
    if cut:
        see = f"git agent-undo diff --session {session}"
        rows.append(Omission(f"parts of {cut} patches", see))
    return tuple(rows)
