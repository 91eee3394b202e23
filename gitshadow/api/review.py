"""check, review, reviews, unreview: findings about a change, and review marks."""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence

from gitshadow.api.record import git_hook
from gitshadow.blame.classification import Credit
from gitshadow.blame.line_owners import FileOwners, Owning
from gitshadow.blame.owners import split_lines
from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.check import (
    CheckAnswer,
    CheckedChange,
    CheckRequest,
    FindingRow,
    MarkRow,
    NothingToReview,
    ReviewRequest,
    ReviewsAnswer,
    UnreviewRequest,
)
from gitshadow.messages.codec import Nothing
from gitshadow.messages.record import GitHookRequest
from gitshadow.model import Actor, Level, RepoPath, ToolClass, micro
from gitshadow.query.params import typed_path
from gitshadow.query.resolve import session_anywhere
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.review.changes import (
    Additions,
    ChangeKind,
    ReviewedChange,
    of_commit,
    of_range,
    staged,
)
from gitshadow.review.check import Inspection, line_key, own_sessions
from gitshadow.review.policy import policies_for
from gitshadow.review.rules import (
    CheckRule,
    FileFacts,
    PolicyFinding,
    judge,
    line_count,
    strictest,
)
from gitshadow.store import machine, marks
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.marks import Reviewed, ReviewMark, list_marks
from gitshadow.store.paths import display_path, parse_path

FROM_REFS = (
    "there is no journal here, so only the refs were used: they contain no prompts,"
    " gaps or open turns"
)
_STATUS = {Level.OFF: "passed", Level.WARN: "warned", Level.REFUSE: "refused"}


def check(context: RecorderContext, request: CheckRequest) -> CheckAnswer:
    """Judge a change by the policies it is held to."""
    ws = context.workspace
    if request.managed and not request.borrowed:
        # The manager has stashed unstaged changes and will restore them; nobody wrote these.
        call = GitHookRequest("pre-commit", request.parent, managed=True)
        git_hook(context, call)
    elif not request.borrowed:
        context.observer.settle()
    change = change_named(context, request)
    own = own_sessions(context, request.pid)
    facts = Inspection(context, change, own, list_marks(ws.repo)).files()
    held = policies_for(ws, change, request.environ or {})
    found = [*held.findings, *judge(facts, held.sources)]
    speller = _Speller(request, change, ws.layout.root)
    return CheckAnswer(
        status=_STATUS[strictest(found)],
        change=_change_row(change, facts),
        findings=tuple(speller.row(one) for one in found),
        warnings=tuple(held.warnings),
        notes=(FROM_REFS,) if request.borrowed else (),
        policies=tuple(source.name for source in held.sources),
        own=tuple(sorted(own)),
    )


def change_named(
    context: RecorderContext, request: CheckRequest | ReviewRequest
) -> ReviewedChange:
    """Return the change that is asked for: a range, a commit, else what is staged.

    Raises:
        UsageError: it names no commits.
    """
    ws = context.workspace
    if request.range is not None:
        return of_range(ws, request.range)
    if request.rev is not None:
        return of_commit(ws, request.rev)
    return staged(ws, request.index_)


def _change_row(change: ReviewedChange, facts: list[FileFacts]) -> CheckedChange:
    runs = [run for file in facts for run in file.runs]
    return CheckedChange(
        kind=change.kind.value,
        base=change.base,
        tip=change.tip,
        files=len(facts),
        lines=sum(line_count(run.span) for run in runs if run.span[0]),
    )


class _Speller:
    """Spell findings as rows, each with the command that settles it, from where the user is."""

    def __init__(
        self, request: CheckRequest, change: ReviewedChange, root: str
    ) -> None:
        self._cwd = request.cwd
        self._root = root
        self._change = change
        self._asked = request.range or request.rev

    def row(self, one: PolicyFinding) -> FindingRow:
        """Return a finding as a row."""
        who = one.writer
        return FindingRow(
            rule=one.rule.value,
            level=one.level.value,
            path=None if one.path is None else display_path(one.path),
            lines=tuple(span for span in one.spans if span[0]),
            reason=one.reason,
            agent=who.agent if who else None,
            session=who.session if who else None,
            turn=who.turn if who else None,
            prompt=who.prompt if who else None,
            candidates=tuple(who.candidates) if who else (),
            about=one.about,
            source=one.source,
            remedy=self._remedy(one),
        )

    def _remedy(self, one: PolicyFinding) -> str:
        path = shlex.quote(self._typed(one.path)) if one.path is not None else "."
        session = one.writer.session if one.writer else None
        match one.rule:
            case CheckRule.POLICY:
                return f"fix the file, then: git add {path}"
            case CheckRule.OPEN_TURN:
                return f"let it end, or: git agent-undo session end {session}"
            case CheckRule.PROTECTED:
                return (
                    f"git agent-undo undo {session} --only {path}, then: git add {path}"
                )
            case CheckRule.UNDONE if self._change.kind is ChangeKind.STAGED:
                return f"git add {path}, or: git agent-undo redo {one.about}"
            case CheckRule.UNDONE:
                return f"git agent-undo show {one.about}"
            case CheckRule.GAPS:
                return f"git agent-undo show {one.about}, then: {self._review()}"
            case _:
                return self._review()

    def _review(self) -> str:
        words = {
            ChangeKind.STAGED: "--staged",
            ChangeKind.RANGE: f"--range {shlex.quote(self._asked or '')}",
            ChangeKind.COMMIT: f"--commit {shlex.quote(self._asked or '')}",
        }
        return f"review it, then: git agent-undo review {words[self._change.kind]}"

    def _typed(self, path: RepoPath) -> str:
        """Return a path as the user would type it in the current directory."""
        if self._cwd is None:
            return display_path(path)
        full = os.path.join(os.fsencode(self._root), path)
        top = os.fsencode(self._root)
        here = os.path.realpath(os.path.join(top, parse_path(self._cwd)))
        return display_path(RepoPath(os.path.relpath(full, here)))


_SHELLS = (ToolClass.SHELL, ToolClass.OTHER)
_Lines = Iterable[tuple[bytes, Credit]]


def review(
    context: RecorderContext, request: ReviewRequest
) -> MarkRow | NothingToReview:
    """Mark lines of agents, and of nobody known, as reviewed by the user.

    Of `targets` the content on disk counts, else what the named change adds.

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


def reviews(context: RecorderContext, request: Nothing) -> ReviewsAnswer:
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
    """Yield the lines on disk of a session, or of a file or directory."""
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
    """Return the files that a session of this or another machine wrote and that exist here."""
    ws = context.workspace
    worktree = ws.layout.worktree if whose is context else None
    wanted = EventFilter(sessions=(session,), worktree=worktree)
    rows = events.writes(whose.workspace.db, wanted)
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
