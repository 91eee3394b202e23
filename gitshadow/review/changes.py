"""Resolve which change is reviewed, and read the lines that it adds with their owners.

A change is what is staged, what one commit makes, or what a range brings.
Invariant: names are resolved to commits once, and the files are those that differ. Only added lines
are reported, by their numbers in the new content. Nothing is written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import groupby

from gitshadow.blame.classification import Credit
from gitshadow.blame.line_owners import FileOwners, Owning
from gitshadow.blame.owners import split_lines, whole
from gitshadow.blame.rewrites import is_telling
from gitshadow.errors import StoreError, UsageError
from gitshadow.model import (
    GITLINK_MODE,
    EventKind,
    FileVersion,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.store import line_diff
from gitshadow.store.content_diff import line_hunks
from gitshadow.store.git import TreeDelta
from gitshadow.undo.effective import BACKWARD, effective_ops

_SECOND_NS = 1_000_000_000
_DEEPEN = "in a shallow clone: git fetch --unshallow"


class ChangeKind(StrEnum):
    """Store what a change is."""

    STAGED = "staged"
    COMMIT = "commit"
    RANGE = "range"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedChange:
    """Store a change: what its files are compared with, and what they become.

    `base` is the commit it is built on, `before` the one whose policy it is held to besides its
    own: of a range its left side, which may have gone on since. `tip` is None for the index.
    `base_ns` is when the base was made, 0 where there is none.
    """

    kind: ChangeKind
    base: Oid | None
    before: Oid | None
    tip: Oid | None
    files: tuple[TreeDelta, ...]
    base_ns: int


def staged(ws: Workspace, index: str | None) -> ReviewedChange:
    """Return what the index has other than HEAD.

    Args:
        ws: The worktree.
        index: Another index file, as Git gives it to hooks of `git commit -a`; None: its own.
    """
    head = ws.repo.head()[1]
    files = ws.git.staged_changes(head or ws.repo.format.empty_tree, index)
    return _change(ws, ChangeKind.STAGED, (head, head, None), files)


def of_commit(ws: Workspace, typed: str) -> ReviewedChange:
    """Return what a commit has other than its first parent.

    Raises:
        UsageError: it names no commit.
    """
    tip = _commit(ws, typed)
    parents = ws.repo.commit(tip).parents
    base = parents[0] if parents else None
    # In a shallow clone the parent is named but absent, and all lines would count as new.
    if base is not None and not ws.repo.has(base):
        raise UsageError(
            f"cannot find commit {base}, the parent of {typed}", hint=_DEEPEN
        )
    files = ws.git.changes(base, tip)
    return _change(ws, ChangeKind.COMMIT, (base, base, tip), files)


def of_range(ws: Workspace, typed: str) -> ReviewedChange:
    """Return what `A..B` brings: what B has other than its common ancestor with A.

    Raises:
        UsageError: it is no range, or a side names no commit.
    """
    left, dots, right = typed.partition("..")
    if not dots:
        raise UsageError(
            f"cannot use {typed} as a range", hint="for example: --range main..HEAD"
        )
    before = _commit(ws, left or "HEAD")
    tip = _commit(ws, right.removeprefix(".") or "HEAD")
    # As `git diff A...B` does: what A got since is not part of the change.
    base = ws.git.merge_base(before, tip) or before
    return _change(ws, ChangeKind.RANGE, (base, before, tip), ws.git.changes(base, tip))


def _change(
    ws: Workspace,
    kind: ChangeKind,
    ends: tuple[Oid | None, Oid | None, Oid | None],
    files: list[TreeDelta],
) -> ReviewedChange:
    base, before, tip = ends
    base_ns = 0 if base is None else ws.repo.commit(base).committer_time * _SECOND_NS
    return ReviewedChange(
        kind=kind,
        base=base,
        before=before,
        tip=tip,
        files=tuple(files),
        base_ns=base_ns,
    )


def _commit(ws: Workspace, typed: str) -> Oid:
    found = ws.repo.resolve(typed)
    if found is None:
        raise UsageError(
            f"cannot find commit {typed}",
            hint=f"git log; {_DEEPEN}",
        )
    return found


@dataclass(frozen=True, slots=True)
class Added:
    """Store a new content, the credit of each of its lines, and the numbers of the new ones."""

    data: bytes
    lines: Sequence[bytes]
    credits: Sequence[Credit]
    numbers: Sequence[int]

    @property
    def is_binary(self) -> bool:
        """Return whether Git takes the content for one without lines."""
        return line_diff.is_binary(self.data)

    def stretches(self, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Yield neighbouring numbers together."""
        for _, rows in groupby(enumerate(numbers), key=lambda row: row[1] - row[0]):
            yield [number for _, number in rows]


class Additions:
    """Store what one change adds, file by file."""

    def __init__(self, context: RecorderContext, change: ReviewedChange) -> None:
        self._ws = context.workspace
        self._change = change
        self._owning = Owning(context)

    def to(self, one: TreeDelta) -> Added | None:
        """Return what is added to a file; None for one that is gone or too large.

        Raises:
            StoreError: a content is missing.
        """
        if one.new is None or one.new[0] == GITLINK_MODE or self._is_large(one.new[1]):
            return None
        owners = self._owners(one.path, one.new[1])
        hunks = line_hunks(whole(self._old_data(one)), whole(owners.data))
        numbers = [at for _, _, start, n in hunks for at in range(start, start + n)]
        lines = split_lines(owners.data)
        return Added(owners.data, lines, owners.credits, numbers)

    def _owners(self, path: RepoPath, blob: Oid) -> FileOwners:
        if self._change.tip is None:
            return self._owning.staged(path, blob)
        return self._owning.committed(path, self._change.tip)

    def _old_data(self, one: TreeDelta) -> bytes:
        if one.old is None or one.old[0] == GITLINK_MODE or self._is_large(one.old[1]):
            return b""
        return self._ws.repo.read_blob(one.old[1])

    @cached_property
    def _sizes(self) -> dict[Oid, int]:
        ends = [end for one in self._change.files for end in (one.old, one.new)]
        # One git process gives all sizes; a large blob is then never read.
        blobs = [end[1] for end in ends if end is not None and end[0] != GITLINK_MODE]
        return self._ws.git.sizes(blobs)

    def _is_large(self, blob: Oid) -> bool:
        return self._sizes.get(blob, 0) > self._ws.config.max_file_size_bytes

    def taken_back(self, history: Sequence[PathChange], added: Added) -> dict[int, str]:
        """Return which new lines an undo in effect removed, with its op.

        Neighbouring lines count that say enough together to be known again.
        """
        gone = self._lines_taken(history)
        found: dict[int, str] = {}
        hits = [at for at in added.numbers if added.lines[at - 1] in gone]
        for numbers in added.stretches(hits):
            texts = [added.lines[at - 1] for at in numbers]
            # A brace or an empty line is equal by chance, and no sign that undone work was redone.
            if is_telling(b"\n".join(texts)):
                found |= {
                    at: gone[text] for at, text in zip(numbers, texts, strict=True)
                }
        return found

    def _lines_taken(self, history: Sequence[PathChange]) -> dict[bytes, str]:
        gone: dict[bytes, str] = {}
        for row in history:
            if row.op is None or row.op not in self._undoings:
                continue
            if row.kind is EventKind.RESTORE:
                gone |= dict.fromkeys(self._lines_lost(row), row.op)
        return gone

    def _lines_lost(self, row: PathChange) -> Iterator[bytes]:
        before, after = self._content(row.before), self._content(row.after)
        lines = split_lines(whole(before))
        for start, count, _, _ in line_hunks(whole(before), whole(after)):
            if count:
                yield from lines[start - 1 : start - 1 + count]

    @cached_property
    def _undoings(self) -> frozenset[str]:
        here = None if self._change.tip is not None else self._ws.layout.worktree
        found = effective_ops(self._ws.db, here)
        return frozenset(op.id for op in found if op.kind in BACKWARD)

    def _content(self, version: FileVersion | None) -> bytes:
        try:
            return b"" if version is None else self._ws.repo.read_blob(version.oid)
        except StoreError:  # Pruned: its content is gone.
            return b""
