"""The paths that Git switched when HEAD moved, read from trees when somebody asks for them.

The diff of a commit that records a move is exactly what Git switched, so a move is one row however
many files it changed. Each change has the number, time and author of the move's row.
Invariant: a path that has a row of its own, because no tree has its exact mode, comes from that row
alone. A commit that cannot be read any more has switched nothing, as far as is known.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from gitshadow.errors import StoreError
from gitshadow.model import (
    GITLINK_MODE,
    TREE_MODE,
    EventKind,
    FileVersion,
    HeadChange,
    Oid,
    PathChange,
    RepoPath,
    paths_of,
)
from gitshadow.store.journal.db import Db, Value
from gitshadow.store.journal.event_rows import RARE, SELECT, event_of
from gitshadow.store.objects import CommitInfo
from gitshadow.store.refs import exact_mode
from gitshadow.store.trees import Ends, Entry, TreeChange, Trees

SWITCHES = f"{RARE} AND kind = 'head' AND switched > 0"
_KNOWN_COMMITS = 20_000
_LATER = f"{SELECT} WHERE seq > ? ORDER BY seq"
_NOTHING: Ends = (None, None)


class Commits(Protocol):
    """A store of commits and trees."""

    trees: Trees

    def commit(self, oid: Oid) -> CommitInfo:
        """Read a commit; raise StoreError where it is missing or broken."""
        ...


class SwitchedTrees:
    """Read the trees of the commits that record moves of HEAD."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._pairs: dict[Oid, tuple[Oid | None, Oid]] = {}

    def ends(self, commit: Oid, path: RepoPath) -> Ends:
        """Return what was at a path before a move and after it, directories too."""
        try:
            return self._commits.trees.ends(*self._pair(commit), path)
        except StoreError:
            return _NOTHING

    def changes(self, commit: Oid) -> Sequence[TreeChange]:
        """Return all that a move changed, by path bytes."""
        try:
            return self._commits.trees.diff(*self._pair(commit))
        except StoreError:
            return ()

    def _pair(self, commit: Oid) -> tuple[Oid | None, Oid]:
        # The history of one file asks about every move: each commit is read once.
        pair = self._pairs.get(commit)
        if pair is None:
            if len(self._pairs) >= _KNOWN_COMMITS:
                self._pairs.clear()
            info = self._commits.commit(commit)
            above = self._commits.commit(info.parents[0]).tree if info.parents else None
            pair = self._pairs[commit] = above, info.tree
        return pair


def kind_of(before: FileVersion | None, after: FileVersion | None) -> EventKind:
    """Return what happened to a path that kept its name."""
    if before is None:
        return EventKind.CREATE
    if after is None:
        return EventKind.DELETE
    if before.is_link != after.is_link:
        return EventKind.TYPE
    return EventKind.MODE if before.oid == after.oid else EventKind.MODIFY


def heads(db: Db, where: str, values: Sequence[Value]) -> Iterator[HeadChange]:
    """Yield the moves of HEAD by which Git switched anything, in the order of the clause."""
    order = "" if "ORDER BY" in where else " ORDER BY seq"
    for row in db.each(f"{SELECT} WHERE {SWITCHES} AND {where}{order}", values):
        event = event_of(row)
        if isinstance(event, HeadChange):
            yield event


def touches(db: Db, head: HeadChange, paths: Collection[RepoPath]) -> bool:
    """Return whether a move changed anything at some paths, or below them."""
    if db.switched is None or not head.files:
        return False
    ends = (db.switched.ends(head.commit, path) for path in paths)
    return any(recorded(old) != recorded(new) for old, new in ends)


def all_of(db: Db, head: HeadChange) -> list[PathChange]:
    """Return all that Git switched by a move, with the rows of their own, by path bytes."""
    found = [*_own_rows(db, head), *changes_of(db, head)]
    return sorted(found, key=lambda one: one.path)


def changes_of(db: Db, head: HeadChange) -> list[PathChange]:
    """Return what Git switched by a move, by path bytes, but for paths with rows of their own."""
    if db.switched is None or not head.files:
        return []
    return list(_changes(db, head, db.switched.changes(head.commit)))


def changes_at(
    db: Db, head: HeadChange, paths: Collection[RepoPath]
) -> list[PathChange]:
    """Return what Git switched by a move at exactly these paths, as `changes_of`."""
    if db.switched is None or not head.files:
        return []
    if len(paths) > head.files:
        wanted = frozenset(paths)
        return [one for one in changes_of(db, head) if one.path in wanted]
    changes = (
        TreeChange(path, *db.switched.ends(head.commit, path)) for path in sorted(paths)
    )
    return list(_changes(db, head, changes))


def switched_to(
    db: Db, found: Iterable[HeadChange], path: RepoPath, after: Oid | None
) -> PathChange | None:
    """Return the first switch that left a content (None: nothing) at a path."""
    for head in found:
        for one in changes_at(db, head, (path,)):
            if (one.after.oid if one.after is not None else None) == after:
                return one
    return None


def _changes(
    db: Db, head: HeadChange, found: Iterator[TreeChange] | Sequence[TreeChange]
) -> Iterator[PathChange]:
    own: frozenset[RepoPath] | None = None
    for path, *ends in found:
        old, new = map(_leaf, ends)
        if old == new:
            continue
        if own is None:
            own = paths_of(_own_rows(db, head))
        if path not in own:
            before, after = _version(old, head), _version(new, head)
            yield PathChange(
                head.seq,
                head.ts_ns,
                head.worktree,
                kind_of(before, after),
                path,
                head.attribution,
                head.commit,
                None,
                before,
                after,
                switched=True,
            )


def _own_rows(db: Db, head: HeadChange) -> Iterator[PathChange]:
    """Yield the rows of paths whose exact modes no tree has; they follow the row of the move."""
    for row in db.each(_LATER, (head.seq,)):
        event = event_of(row)
        if not isinstance(event, PathChange) or event.commit != head.commit:
            break
        yield event


def recorded(entry: Entry | None) -> Entry | None:
    """Return an entry; a submodule counts as absent, because it is only carried."""
    return None if entry is None or entry[0] == GITLINK_MODE else entry


def _leaf(entry: Entry | None) -> Entry | None:
    return None if entry is None or entry[0] in (GITLINK_MODE, TREE_MODE) else entry


def _version(entry: Entry | None, head: HeadChange) -> FileVersion | None:
    if entry is None:
        return None
    return FileVersion(entry[1], exact_mode(entry[0], head.modes))
