"""review, reviews, unreview: what a person has looked at, bound to the lines it names.

Invariant: a mark is made for a person only; what an agent runs is refused, as far as it is seen.
"""

from collections.abc import Iterable, Iterator, Sequence

from gitshadow.api.check import change_named
from gitshadow.blame.classification import Credit
from gitshadow.blame.line_owners import FileOwners, Owning
from gitshadow.blame.owners import split_lines
from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.check import (
    MarkRow,
    NothingToReview,
    ReviewRequest,
    ReviewsAnswer,
    ReviewsRequest,
    UnreviewRequest,
)
from gitshadow.model import Actor, RepoPath, ToolClass, micro
from gitshadow.query.params import typed_path
from gitshadow.query.resolve import session_anywhere
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.review.changes import Additions
from gitshadow.review.check import line_key, own_sessions
from gitshadow.store import machine, marks
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.marks import Reviewed, ReviewMark
from gitshadow.store.paths import display_path

_SHELLS = (ToolClass.SHELL, ToolClass.OTHER)
_Lines = Iterable[tuple[bytes, Credit]]


def review(
    context: RecorderContext, request: ReviewRequest
) -> MarkRow | NothingToReview:
    """Mark lines of agents, and of nobody known, as reviewed by the user.

    Of `targets` what stands on disk counts, else what the change that is named adds.

    Raises:
        RefusedError: an agent asks for it.
        UsageError: a target names neither a session nor a file.
    """
    ws = context.workspace
    _refuse_agents(context, request)
    if not request.borrowed:
        context.observer.settle()
    targets, cwd = request.targets, request.cwd
    if targets:
        items = [one for typed in targets for one in _standing(context, cwd, typed)]
    else:
        items = list(_changed(context, request))
    named = " ".join(targets) or _change_name(request)
    if not items:
        return NothingToReview(None, named, lines=0, files=0, sessions=())
    now_ns = micro(ws.clock.now_ns())
    here = machine.current(ws.db)
    head = ws.repo.head()[1]
    mark = marks.publish(ws.repo, named, items, now_ns, head, machine=here)
    return _row(mark)


def reviews(context: RecorderContext, request: ReviewsRequest) -> ReviewsAnswer:
    """Return the review marks, newest first."""
    found = marks.list_marks(context.workspace.repo)
    return ReviewsAnswer(tuple(_row(mark) for mark in found))


def unreview(context: RecorderContext, request: UnreviewRequest) -> MarkRow:
    """Delete a review mark.

    Raises:
        UsageError: no mark has that id, or several begin so.
    """
    typed = request.id
    repo = context.workspace.repo
    known = marks.list_marks(repo)
    found = [one for one in known if one.id == typed] or [
        one for one in known if one.id.startswith(typed)
    ]
    if len(found) != 1:
        raise UsageError(
            f"cannot find review {typed}"
            if not found
            else f"ambiguous id '{typed}': matches {len(found)} reviews",
            hint="git agent-undo review --list",
        )
    repo.delete_ref(found[0].ref)
    return _row(found[0])._replace(deleted=True)


def _refuse_agents(context: RecorderContext, request: ReviewRequest) -> None:
    """Refuse what comes out of an agent's shell: by its variables, or by an open call."""
    agent = request.agent
    db = context.workspace.db
    for session_id in own_sessions(context, request.pid):
        calls = turns.open_calls(db, session_id)
        session = sessions.get(db, session_id)
        if session is not None and any(one.tool_class in _SHELLS for one in calls):
            agent = agent or session.agent or "an agent"
    if agent is not None:
        raise RefusedError(
            f"cannot record a review for {agent}: a person must review",
            hint="run it in your own terminal",
        )


def _standing(
    context: RecorderContext, cwd: str | None, typed: str
) -> Iterator[Reviewed]:
    """Yield what stands on disk of a session, or in a file or directory."""
    ws, owning = context.workspace, Owning(context)
    known = sessions.get(ws.db, typed) is not None
    paths = () if known else _files_at(context, cwd, typed)
    for path in paths:
        found = owning.on_disk(path)
        yield from _lines(path, _rows(found))
        yield Reviewed(marks.file_digest(path, found.data), path, line=False)
    if not paths:
        whose, session = session_anywhere(context, typed)
        for path in _written_by(context, whose, session.id):
            rows = _rows(owning.on_disk(path))
            own = [(text, who) for text, who in rows if who.session == session.id]
            yield from _lines(path, own)


def _written_by(
    context: RecorderContext, whose: RecorderContext, session: str
) -> list[RepoPath]:
    """Return the files that a session wrote, of ours or of another machine, and that stand here."""
    ws = context.workspace
    worktree = ws.layout.worktree if whose is context else None
    wanted = EventFilter(sessions=(session,), worktree=worktree)
    rows = events.changes(whose.workspace.db, wanted)
    named = {row.path for row in rows}
    return sorted(path for path in named if ws.states.get(path) is not None)


def _rows(owners: FileOwners) -> _Lines:
    return zip(split_lines(owners.data), owners.credits, strict=False)


def _files_at(
    context: RecorderContext, cwd: str | None, typed: str
) -> Sequence[RepoPath]:
    ws = context.workspace
    try:
        path = typed_path(ws.layout, cwd, typed)
    except UsageError:
        return ()
    if ws.states.get(path) is not None:
        return (path,)
    return sorted(ws.states.below(path)) if path else sorted(ws.states.all())


def _changed(context: RecorderContext, request: ReviewRequest) -> Iterator[Reviewed]:
    """Yield what a change adds."""
    change = change_named(context, request)
    additions = Additions(context, change)
    for one in change.files:
        added = additions.to(one)
        if added is None:
            continue
        rows = [(added.lines[at - 1], added.credits[at - 1]) for at in added.numbers]
        yield from _lines(one.path, rows)
        yield Reviewed(marks.file_digest(one.path, added.data), one.path, line=False)


def _lines(path: RepoPath, rows: _Lines) -> Iterator[Reviewed]:
    for text, credit in rows:
        if credit.actor is not Actor.HUMAN:
            yield Reviewed(line_key(credit, path, text), path, credit.session)


def _change_name(request: ReviewRequest) -> str:
    for typed in (request.range, request.rev):
        if typed is not None:
            return typed
    return "--staged"


def _row(mark: ReviewMark) -> MarkRow:
    lines = [one for one in mark.items if one.line]
    return MarkRow(
        id=mark.id,
        ref=mark.ref,
        commit=mark.commit,
        ts=rfc3339(mark.ts_ns),
        who=mark.who,
        target=mark.target,
        lines=len(lines),
        files=len({one.path for one in mark.items}),
        paths=tuple(sorted({display_path(one.path) for one in mark.items})),
        sessions=tuple(sorted(mark.sessions)),
    )
