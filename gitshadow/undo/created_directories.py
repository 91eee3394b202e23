"""Which directories are a unit's own, so that they go when it is taken back and they are empty.

Invariant: a directory that held anything recorded before the unit, or that anybody else ever
wrote in, is never the unit's. What a sparse checkout leaves out is in no directory.
"""

from collections.abc import Callable
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import TREE_MODE, Event, Oid, RepoPath
from gitshadow.store.journal import events, state
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.repo import Repo


class DirectoryOwner(NamedTuple):
    """Tell for directories whether they came with a unit.

    `tree` is the working tree before it, None where that is not known: then none is. `since`
    is its first event, `mine` tells its events from those of others.
    """

    repo: Repo
    db: Db
    worktree: str
    tree: Oid | None
    since: int
    mine: Callable[[Event], bool]

    def owns(self, directory: RepoPath) -> bool:
        """Return whether a directory came with the unit and only the unit wrote in it."""
        inside = EventFilter(worktree=self.worktree, paths=(directory,))
        rows = [row for row in events.rows(self.db, inside) if row.seq >= self.since]
        if any(row.op is None and not self.mine(row) for row in rows):
            return False
        try:
            before = self._before(directory)
        except StoreError:
            return False
        if not before:
            return before is not None
        # What was recorded there, nobody wrote and is not there, a sparse checkout leaves out:
        # Git made no directory for it.
        known = set(state.below(self.db, self.worktree, directory))
        known |= {end for row in rows for end in (row.path, row.old_path) if end}
        return known.isdisjoint(before)

    def _before(self, directory: RepoPath) -> list[RepoPath] | None:
        """Return what was recorded in a directory before the unit, None where it is unknown."""
        if self.tree is None:
            return None
        entry = self.repo.entry(self.tree, directory)
        if entry is None:
            return []
        if entry[0] != TREE_MODE:
            return None
        inside = self.repo.flat(entry[1])
        return [RepoPath(directory + b"/" + name) for name in inside]


def tree_before(repo: Repo, event: Event) -> Oid | None:
    """Return the working tree's tree just before an event, None where it cannot be read."""
    if event.commit is None:
        return None
    try:
        above = repo.commit(event.commit).parents
        return repo.commit(above[0]).tree if above else None
    except StoreError:
        return None


def tree_at(repo: Repo, db: Db, worktree: str, moment_ns: int) -> Oid | None:
    """Return the working tree's tree at a moment, None where it was not recorded."""
    wanted = EventFilter(worktree=worktree, until_ns=moment_ns, limit=1)
    for row in events.rows(db, wanted):
        if row.commit is not None:
            try:
                return repo.commit(row.commit).tree
            except StoreError:
                return None
    return None
