"""Which lines are meant: what stands in the working tree, in a commit, or what a change brought.

Invariant: a word that could be a revision and a path is asked about, never guessed.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from gitshadow.blame.line_sets import Part, Portions
from gitshadow.errors import UsageError
from gitshadow.model import Oid, RepoPath
from gitshadow.query import params as read
from gitshadow.query.rows import Row
from gitshadow.recording.context import RecorderContext


class ScopeKind(StrEnum):
    """Name what can be meant."""

    WORKTREE = "worktree"
    """Every line of the working tree."""
    COMMIT = "commit"
    """Every line of a commit's tree."""
    ADDED = "added"
    """What one commit brought."""
    RANGE = "range"
    """What a commit has that another has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineScope:
    """Say which lines are meant, below some paths (none: everywhere)."""

    kind: ScopeKind
    commit: Oid | None = None
    base: Oid | None = None
    paths: tuple[RepoPath, ...] = ()

    def parts(self, portions: Portions) -> Iterator[Part]:
        """Yield the files with the lines that are meant."""
        if self.commit is None:
            return portions.on_disk(self.paths)
        if self.kind is ScopeKind.COMMIT:
            return portions.at(self.commit, self.paths)
        if self.kind is ScopeKind.ADDED:
            return portions.added_by(self.commit, self.paths)
        return portions.between(self.base, self.commit, self.paths)

    def row(self) -> Row:
        """Return the scope as a document has it."""
        return {"kind": self.kind.value, "commit": self.commit, "base": self.base}


def scope_of(context: RecorderContext, params: read.Params) -> LineScope:
    """Return what a person named.

    Args:
        context: The worktree, settled.
        params: `words` are revisions, ranges or paths, in the order of Git: at most one
            revision, first. `paths` are paths alone; `commit` asks for the whole of a commit.

    Raises:
        UsageError: a word is neither, or could be both.
    """
    layout = context.workspace.layout
    words, rev = read.strings(params, "words"), read.text(params, "commit")
    paths = read.repo_paths(layout, params, "paths")
    scope = LineScope(kind=ScopeKind.WORKTREE)
    if rev is not None:
        scope = LineScope(kind=ScopeKind.COMMIT, commit=needed_commit(context, rev))
    elif words:
        named = named_range(context, words[0])
        path = _existing(context, params, words[0])
        if named is not None and path:
            raise UsageError(
                f"ambiguous argument {words[0]}: both a revision and a file",
                hint="put -- before paths, or after revisions",
            )
        if named is not None:
            scope, words = named, words[1:]
    lost = [word for word in words if not _existing(context, params, word)]
    if lost:
        raise UsageError(
            f"cannot find {lost[0]}: neither a revision nor a file",
            hint="put deleted paths after --",
        )
    paths += [read.repo_path(layout, params, word) for word in words]
    return replace(scope, paths=tuple(paths))


def named_range(context: RecorderContext, word: str) -> LineScope | None:
    """Return what `REV`, `A..B` or `A...B` names, None where it names no commits."""
    repo = context.workspace.repo
    for dots in ("...", ".."):
        left, found, right = word.partition(dots)
        if found:
            ends = repo.resolve(left or "HEAD"), repo.resolve(right or "HEAD")
            return _between(context, dots, *ends)
    commit = repo.resolve(word)
    return None if commit is None else LineScope(kind=ScopeKind.ADDED, commit=commit)


def _between(
    context: RecorderContext, dots: str, base: Oid | None, tip: Oid | None
) -> LineScope | None:
    if base is None or tip is None:
        return None
    if dots == "...":
        base = context.workspace.git.merge_base(base, tip)
    return LineScope(kind=ScopeKind.RANGE, commit=tip, base=base)


def needed_commit(context: RecorderContext, rev: str) -> Oid:
    """Return the commit that a revision names.

    Raises:
        UsageError: it names none.
    """
    commit = context.workspace.repo.resolve(rev)
    if commit is None:
        raise UsageError(f"cannot find commit {rev}", hint="git log")
    return commit


def _existing(context: RecorderContext, params: read.Params, word: str) -> bool:
    """Tell whether a word names something in the working tree, or in the recorded state."""
    ws = context.workspace
    try:
        path = read.repo_path(ws.layout, params, word)
    except UsageError:
        return False
    on_disk = os.path.lexists(os.path.join(os.fsencode(ws.layout.root), path))
    return on_disk or ws.states.get(path) is not None
