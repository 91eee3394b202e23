"""check: what speaks against a change, as findings, each with what settles it.

Invariant: nothing is written but what every barrier records.
"""

import os
import shlex

from gitshadow.api import Document, Params
from gitshadow.api.git_hook import git_hook
from gitshadow.model import Level, RepoPath
from gitshadow.query import params as read
from gitshadow.query.rows import Row
from gitshadow.recording.context import Desk
from gitshadow.review.changes import Change, Kind, of_commit, of_range, staged
from gitshadow.review.check import Inspection, own_sessions
from gitshadow.review.facts import FileFacts, line_count
from gitshadow.review.policies import policies_for
from gitshadow.review.rules import Finding, Rule, judge, strictest
from gitshadow.store.marks import list_marks
from gitshadow.store.quoting import display_path, parse_path

FROM_REFS = (
    "there is no journal here, so only the refs were used: they contain no prompts,"
    " gaps or open turns"
)
_STATUS = {Level.OFF: "passed", Level.WARN: "warned", Level.REFUSE: "refused"}


def check(desk: Desk, params: Params) -> Document:
    """Judge a change by the policies it is held to."""
    borrowed = read.flag(params, "borrowed")
    ws = desk.workspace
    if read.flag(params, "managed") and not borrowed:
        # What the manager has taken away by now, and will bring back, is nobody's writing.
        manager = read.number(params, "parent")
        git_hook(desk, {"event": "pre-commit", "managed": True, "pid": manager})
    elif not borrowed:
        desk.observer.settle()
    change = change_named(desk, params)
    own = own_sessions(desk, read.number(params, "pid"))
    facts = Inspection(desk, change, own, list_marks(ws.repo)).files()
    held = policies_for(ws, change, _variables(params))
    found = [*held.findings, *judge(facts, held.sources)]
    speller = _Speller(params, change, ws.layout.root)
    return {
        "status": _STATUS[strictest(found)],
        "change": _change_row(change, facts),
        "findings": [speller.row(one) for one in found],
        "warnings": held.warnings,
        "notes": [FROM_REFS] if borrowed else [],
        "policies": [source.name for source in held.sources],
        "own": sorted(own),
    }


def _variables(params: Params) -> dict[str, str]:
    """Return the settings in the environment of whoever asks; a daemon has another one."""
    given = params.get("environ")
    rows = given.items() if isinstance(given, dict) else ()
    return {name: value for name, value in rows if isinstance(value, str)}


def change_named(desk: Desk, params: Params) -> Change:
    """Return the change that is asked for: a range, a commit, else what is staged.

    Raises:
        UsageError: it names no commits.
    """
    ws = desk.workspace
    typed, rev = read.text(params, "range"), read.text(params, "rev")
    if typed is not None:
        return of_range(ws, typed)
    if rev is not None:
        return of_commit(ws, rev)
    return staged(ws, read.text(params, "index"))


def _change_row(change: Change, facts: list[FileFacts]) -> Row:
    runs = [run for file in facts for run in file.runs]
    return {
        "kind": change.kind.value,
        "base": change.base,
        "tip": change.tip,
        "files": len(facts),
        "lines": sum(line_count(run.span) for run in runs if run.span[0]),
    }


class _Speller:
    """Spell findings as rows, each with the command that settles it, from where the user is."""

    def __init__(self, params: Params, change: Change, root: str) -> None:
        self._cwd = read.text(params, "cwd")
        self._root = root
        self._change = change
        self._asked = read.text(params, "range") or read.text(params, "rev")

    def row(self, one: Finding) -> Row:
        """Return a finding as a row."""
        who = one.writer
        return {
            "rule": one.rule.value,
            "level": one.level.value,
            "path": None if one.path is None else display_path(one.path),
            "lines": [list(span) for span in one.spans if span[0]],
            "reason": one.reason,
            "agent": who.agent if who else None,
            "session": who.session if who else None,
            "turn": who.turn if who else None,
            "prompt": who.prompt if who else None,
            "candidates": list(who.candidates) if who else [],
            "about": one.about,
            "source": one.source,
            "remedy": self._remedy(one),
        }

    def _remedy(self, one: Finding) -> str:
        path = shlex.quote(self._typed(one.path)) if one.path is not None else "."
        session = one.writer.session if one.writer else None
        match one.rule:
            case Rule.POLICY:
                return f"fix the file, then: git add {path}"
            case Rule.OPEN_TURN:
                return f"let it end, or: git agent-undo session end {session}"
            case Rule.PROTECTED:
                return (
                    f"git agent-undo undo {session} --only {path}, then: git add {path}"
                )
            case Rule.UNDONE if self._change.kind is Kind.STAGED:
                return f"git add {path}, or: git agent-undo redo {one.about}"
            case Rule.UNDONE:
                return f"git agent-undo show {one.about}"
            case Rule.GAPS:
                return f"git agent-undo show {one.about}, then: {self._review()}"
            case _:
                return self._review()

    def _review(self) -> str:
        words = {
            Kind.STAGED: "--staged",
            Kind.RANGE: f"--range {shlex.quote(self._asked or '')}",
            Kind.COMMIT: f"--commit {shlex.quote(self._asked or '')}",
        }
        return f"review it, then: git agent-undo review {words[self._change.kind]}"

    def _typed(self, path: RepoPath) -> str:
        """Return a path as it is typed where the user stands."""
        if self._cwd is None:
            return display_path(path)
        full = os.path.join(os.fsencode(self._root), path)
        here = os.path.realpath(parse_path(self._cwd))
        return display_path(RepoPath(os.path.relpath(full, here)))
