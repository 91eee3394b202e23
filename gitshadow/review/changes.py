"""Which change is looked at: what is staged, what one commit makes, what a range brings.

Invariant: names are resolved to commits once; the files are those that differ, nothing is read.
"""

from dataclasses import dataclass
from enum import StrEnum

from gitshadow.errors import UsageError
from gitshadow.model import Oid
from gitshadow.recording.workspace import Workspace
from gitshadow.store.git import TreeDelta

_SECOND_NS = 1_000_000_000
_DEEPEN = "in a shallow clone: git fetch --unshallow"


class ChangeKind(StrEnum):
    """Say what a change is."""

    STAGED = "staged"
    COMMIT = "commit"
    RANGE = "range"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedChange:
    """Hold a change: what its files are compared with, and what they become.

    `base` is the commit it stands on, `before` the one whose policy it is held to besides its
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
    files = ws.git.staged_changes(head, index)
    return _change(ws, ChangeKind.STAGED, (head, head, None), files)


def of_commit(ws: Workspace, typed: str) -> ReviewedChange:
    """Return what a commit has other than its first parent.

    Raises:
        UsageError: it names no commit.
    """
    tip = _commit(ws, typed)
    parents = ws.repo.commit(tip).parents
    base = parents[0] if parents else None
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
