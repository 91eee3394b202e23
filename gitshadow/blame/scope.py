"""Read from a request which lines it means: of the working tree, a commit, a change, or `-L`.

Numbers in `-L` (git-blame(1): `3,7`, `3,+5`, `7,-5`, `,9`) are read here. A search (`/regex/`,
`:funcname`) is left to Git, on a commit that has the content, so that regular expressions and
functions (gitattributes(5), `diff`) are the user's own.
Invariant: a word that could be a revision and a path is a UsageError, and so is a range that
matches no line. No filter or converter of the repository is run.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gitshadow.blame.git_history import parse_lines
from gitshadow.blame.line_sets import Part, Portions
from gitshadow.blame.owners import count_lines
from gitshadow.errors import StoreError, UsageError
from gitshadow.messages.blame import StatsRequest
from gitshadow.model import Oid, RepoPath
from gitshadow.query.moments import newest_commit
from gitshadow.query.params import typed_path, typed_paths
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import events
from gitshadow.store.refs import display_path

_FORM = re.compile(r"([0-9]{1,9})?(?:,([+-]?[0-9]{1,9})?)?")


def has_search(specs: Sequence[str]) -> bool:
    """Return whether some part is named by its content, not by its number."""
    return any("/" in spec or spec.startswith((":", "^:")) for spec in specs)


def numbered_lines(specs: Sequence[str], count: int) -> list[int]:
    """Return the numbers, from 1 and ascending, of the lines that are asked for.

    Args:
        specs: Each as typed behind `-L`; none means the whole file.
        count: How many lines the file has.

    Raises:
        UsageError: one of them is no range, or not of this file.
    """
    if not specs:
        return list(range(1, count + 1))
    found: set[int] = set()
    for spec in specs:
        first, last = _range(spec, count)
        found.update(range(first, last + 1))
    return sorted(found)


def _range(spec: str, count: int) -> tuple[int, int]:
    match = _FORM.fullmatch(spec)
    if match is None or not spec:
        raise UsageError(
            f"invalid range: {spec!r}",
            hint="use 3,7 or 3,+5 or /regex/,/regex/ or :function",
        )
    first = 1 if match[1] is None else _positive(match[1])
    last = count if match[2] is None else _end(match[2], first)
    # git-blame(1) accepts the ends of a range in any order, too.
    if match[2] is not None and last < first:
        first, last = last, first
    if first > min(last, count):
        raise UsageError(f"file has only {count} lines, so not {spec}")
    return first, min(last, count)


def _end(word: str, first: int) -> int:
    number = _positive(word.lstrip("+-"))
    if word.startswith("+"):
        return first + number - 1
    if word.startswith("-"):
        return max(first - number + 1, 1)
    return number


def _positive(word: str) -> int:
    if int(word) == 0:
        raise UsageError("line numbers start at 1")
    return int(word)


def lines_named(
    context: RecorderContext,
    path: RepoPath,
    data: bytes,
    specs: Sequence[str],
    commit: Oid | None = None,
) -> list[int]:
    """Return the numbers, from 1 and ascending, of the lines that are asked for.

    Args:
        context: The worktree, settled.
        path: The file's name.
        data: What it holds, at the moment that is meant.
        specs: Each as typed behind `-L`; none means the whole file.
        commit: The commit that holds it, where it is known.

    Raises:
        UsageError: one of them is no range, or not of this file.
    """
    if not has_search(specs):
        return numbered_lines(specs, count_lines(data))
    # Git resolves /regex/ and :function itself, but only in a commit.
    blob = context.workspace.repo.format.blob(data)
    held = commit or _holding(context, path, blob)
    if held is None:
        raise UsageError(
            f"cannot search {display_path(path)}: its current content is not recorded",
            hint="use line numbers",
        )
    try:
        said = context.workspace.git.named_lines(held, path, specs)
    except StoreError as error:
        raise UsageError(f"cannot use lines {' '.join(specs)}: {error}") from error
    return sorted(set(parse_lines(said)))


def _holding(context: RecorderContext, path: RepoPath, blob: Oid) -> Oid | None:
    repo = context.workspace.repo
    for commit in _candidates(context, path, blob):
        try:
            entry = repo.trees.entry(repo.commit(commit).tree, path)
        except StoreError:
            continue
        if entry is not None and entry[1] == blob:
            return commit
    return None


def _candidates(context: RecorderContext, path: RepoPath, blob: Oid) -> Iterator[Oid]:
    ws = context.workspace
    for commit in (
        newest_commit(context),
        events.commit_with(ws.db, path, blob),
        ws.repo.head()[1],
    ):
        if commit is not None:
            yield commit


class ScopeKind(StrEnum):
    """The kinds of scopes."""

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
    """Store which lines are meant, below some paths (none: everywhere)."""

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


def scope_of(context: RecorderContext, request: StatsRequest) -> LineScope:
    """Return the lines that a request names, in a settled worktree.

    Raises:
        UsageError: a word is neither, or could be both.
    """
    words, cwd = request.words, request.cwd
    scope = LineScope(kind=ScopeKind.WORKTREE)
    if request.commit is not None:
        commit = needed_commit(context, request.commit)
        scope = LineScope(kind=ScopeKind.COMMIT, commit=commit)
    elif words:
        named = named_range(context, words[0])
        path = _existing(context, cwd, words[0])
        if named is not None and path:
            raise UsageError(
                f"ambiguous argument {words[0]}: both a revision and a file",
                hint="put -- before paths, or after revisions",
            )
        if named is not None:
            scope, words = named, words[1:]
    lost = [word for word in words if not _existing(context, cwd, word)]
    if lost:
        raise UsageError(
            f"cannot find {lost[0]}: neither a revision nor a file",
            hint="put deleted paths after --",
        )
    paths = typed_paths(context.workspace.layout, cwd, (*request.paths, *words))
    return replace(scope, paths=paths)


def named_range(context: RecorderContext, word: str) -> LineScope | None:
    """Return what `REV`, `A..B` or `A...B` names, None where it names no commits."""
    repo = context.workspace.repo
    # The longer form first, because the shorter one is in it.
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


def _existing(context: RecorderContext, cwd: str | None, word: str) -> bool:
    """Return whether a word names something in the working tree, or in the recorded state."""
    ws = context.workspace
    try:
        path = typed_path(ws.layout, cwd, word)
    except UsageError:
        return False
    on_disk = os.path.lexists(os.path.join(os.fsencode(ws.layout.root), path))
    return on_disk or ws.states.get(path) is not None
