"""check: what speaks against a change, as findings, each with what settles it.

Invariant: nothing is written but what every barrier records.
"""

import os
import shlex

from gitshadow.api.git_hook import git_hook
from gitshadow.messages.check import (
    CheckAnswer,
    CheckedChange,
    CheckRequest,
    FindingRow,
    ReviewRequest,
)
from gitshadow.messages.record import GitHookRequest
from gitshadow.model import Level, RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.review.changes import (
    ChangeKind,
    ReviewedChange,
    of_commit,
    of_range,
    staged,
)
from gitshadow.review.check import Inspection, own_sessions
from gitshadow.review.policy import policies_for
from gitshadow.review.rules import (
    CheckRule,
    FileFacts,
    PolicyFinding,
    judge,
    line_count,
    strictest,
)
from gitshadow.store.marks import list_marks
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
        # What the manager has taken away by now, and will bring back, is nobody's writing.
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
        """Return a path as it is typed where the user stands."""
        if self._cwd is None:
            return display_path(path)
        full = os.path.join(os.fsencode(self._root), path)
        here = os.path.realpath(parse_path(self._cwd))
        return display_path(RepoPath(os.path.relpath(full, here)))
