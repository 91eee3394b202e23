"""Moves of HEAD: what Git switched is Git's, what it overwrote is somebody's.

Invariant: a draft counts as switched only when its path equalled the old HEAD before and equals
the new HEAD after; everything else stays an ordinary write.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gitshadow.attribution.identities import agent_named
from gitshadow.capture.drafts import Draft
from gitshadow.engine.reflog import only_commits
from gitshadow.errors import StoreError
from gitshadow.model import (
    GITLINK_MODE,
    TREE_MODE,
    FileVersion,
    Oid,
    RepoPath,
    git_mode,
)
from gitshadow.store.repo import Repo
from gitshadow.store.safe_paths import parents
from gitshadow.store.trees import Entry

_SHORT = 10
_MOST_NEW = 64
"""How many commits are looked at for the agent they name; a pull brings many at once."""


class HeadMove(NamedTuple):
    """Hold where HEAD was and is: branch (None: detached) and commit (None: unborn).

    `names` is the agent that a commit names which was made since on top of the old one.
    """

    old_ref: str | None
    old: Oid | None
    new_ref: str | None
    new: Oid | None
    names: str | None = None

    @property
    def is_checkout(self) -> bool:
        """Tell whether HEAD names another branch now."""
        return self.old_ref != self.new_ref

    def describe(self) -> str:
        """Say in a sentence what moved; short ids only, since old commits may go away."""
        moved = (
            f"HEAD moved from {_place(self.old_ref, self.old)}"
            f" to {_place(self.new_ref, self.new)}"
        )
        return (
            moved
            if self.names is None
            else f"{moved}, with a commit that names {self.names}"
        )


def _place(ref: str | None, oid: Oid | None) -> str:
    name = (ref or "detached").removeprefix("refs/heads/")
    return f"{name} ({oid[:_SHORT] if oid else 'unborn'})"


def read_move(repo: Repo, known_ref: str | None, known: Oid | None) -> HeadMove | None:
    """Return how HEAD differs from what was known, None where it does not.

    A HEAD that cannot be read (its branch's file was lost to a crash) has not moved: writes go on
    being recorded, and Git itself says what is wrong.
    """
    try:
        ref, oid = repo.head()
    except StoreError:
        return None
    if (ref, oid) == (known_ref, known):
        return None
    return HeadMove(known_ref, known, ref, oid, _named(repo, known, oid))


def _named(repo: Repo, old: Oid | None, new: Oid | None) -> str | None:
    """Return the agent that a new commit names, of several the newest that names one.

    New are the commits up to the old one, along first parents; none where HEAD went elsewhere.
    """
    found: str | None = None
    at = new
    for _ in range(_MOST_NEW):
        if at == old:
            return found
        if at is None:
            return None
        try:
            made = repo.commit(at)
        except StoreError:  # whoever records the move says so
            return None
        found = found or agent_named(made.author, made.message)
        at = made.parents[0] if made.parents else None
    return None


def split_move(
    repo: Repo,
    git_dir: str,
    move: HeadMove,
    drafts: Sequence[Draft],
) -> tuple[list[Draft], list[Draft]]:
    """Split drafts into those that Git switched, which a commit never does, and the others."""
    if only_commits(git_dir, move.old, move.new):
        return [], list(drafts)
    return split_switched(repo, move, drafts, repo.read_blob)


def split_switched(
    repo: Repo,
    move: HeadMove,
    drafts: Sequence[Draft],
    data_of: Callable[[Oid], bytes],
) -> tuple[list[Draft], list[Draft]]:
    """Split drafts into those that Git switched and the others."""
    ends = trees_of(repo, move)
    if ends is None:
        return [], list(drafts)
    known = _Pair(repo, *ends, data_of)
    gits = {at for at, draft in enumerate(drafts) if known.switched(draft)}
    while barred := _barred(drafts, gits):
        gits -= barred
    switched = [draft for at, draft in enumerate(drafts) if at in gits]
    return switched, [draft for at, draft in enumerate(drafts) if at not in gits]


def _barred(drafts: Sequence[Draft], gits: set[int]) -> set[int]:
    """Return which of Git's drafts need room that one of the others makes.

    A move is recorded before the others: a file there first, where the tree still has a directory
    or the other way round, would take along what is not in the same commit.
    """
    left = {
        draft.old_path or draft.path
        for at, draft in enumerate(drafts)
        if at not in gits and (draft.after is None or draft.old_path is not None)
    }
    above = {up for path in left for up in parents(path)}
    return {
        at
        for at in gits
        if left
        and drafts[at].after is not None
        and (drafts[at].path in above or not left.isdisjoint(parents(drafts[at].path)))
    }


def trees_of(repo: Repo, move: HeadMove) -> tuple[Oid | None, Oid | None] | None:
    """Return the trees of both ends of a move (None: unborn).

    Returns:
        None where Git has dropped the old commit (amended, expired, collected): nobody can tell
        any more what was switched.

    Raises:
        StoreError: the new commit cannot be read.
    """
    new = repo.commit(move.new).tree if move.new is not None else None
    if move.old is None:
        return None, new
    try:
        return repo.commit(move.old).tree, new
    except StoreError:
        return None


def candidates(
    repo: Repo, move: HeadMove, known: Callable[[RepoPath], FileVersion | None]
) -> set[RepoPath]:
    """Return the paths that a move may have switched: what it changed and is not recorded yet.

    Args:
        repo: The object store.
        move: How HEAD moved.
        known: What was recorded last of a path.
    """
    ends = trees_of(repo, move)
    if ends is None:
        return set()
    found: set[RepoPath] = set()
    for change in repo.diff(*ends):
        version = known(change.path)
        entry = None if version is None else (git_mode(version.mode), version.oid)
        leaf = change.old or change.new
        if entry != change.new and leaf is not None and leaf[0] != GITLINK_MODE:
            found.add(change.path)
    return found


class _Pair(NamedTuple):
    """Compare drafts with the trees of the old and the new HEAD."""

    repo: Repo
    old: Oid | None
    new: Oid | None
    data_of: Callable[[Oid], bytes]

    def switched(self, draft: Draft) -> bool:
        before, after = draft.versions
        if draft.old_path is not None:
            return self._was(draft.old_path, before, None) and self._was(
                draft.path, None, after
            )
        return self._was(draft.path, before, after)

    def _was(
        self, path: RepoPath, before: FileVersion | None, after: FileVersion | None
    ) -> bool:
        old, new = self._entry(self.old, path), self._entry(self.new, path)
        return old != new and self._is(old, before) and self._is(new, after)

    def _entry(self, tree: Oid | None, path: RepoPath) -> Entry | None:
        """Return what a commit has at a path; a directory is no file there."""
        entry = self.repo.entry(tree, path) if tree else None
        return None if entry is None or entry[0] == TREE_MODE else entry

    def _is(self, entry: Entry | None, version: FileVersion | None) -> bool:
        if entry is None or version is None:
            return entry is None and version is None
        if entry[0] != git_mode(version.mode):
            return False
        return entry[1] == version.oid or self._same_text(entry[1], version.oid)

    def _same_text(self, committed: Oid, disk: Oid) -> bool:
        """Compare but for line endings: checkout may convert them (gitattributes(5), eol)."""
        if not self.repo.has(committed):
            return False
        return self.data_of(disk).replace(b"\r\n", b"\n") == self.data_of(committed)
