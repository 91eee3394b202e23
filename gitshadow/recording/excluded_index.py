"""What stood uncovered at the last walk: nobody created it since, whatever it looks like now.

Invariant: a path that stood in, or was, something uncovered never counts as created, so no undo
deletes it.
"""

from collections.abc import Mapping

from gitshadow.model import RepoPath, StatKey
from gitshadow.store.journal import excluded
from gitshadow.store.journal.db import Db


class ExcludedIndex:
    """Remember the topmost uncovered paths of one worktree with their stat."""

    def __init__(self, db: Db, worktree: str) -> None:
        self._db = db
        self._worktree = worktree
        self._known: dict[RepoPath, StatKey] | None = None
        self._added: set[RepoPath] = set()

    def known(self) -> Mapping[RepoPath, StatKey]:
        """Return the paths as of the last walk."""
        if self._known is None:
            self._known = excluded.load(self._db, self._worktree)
        return self._known

    def holds(self, path: RepoPath) -> bool:
        """Tell whether a path stood in, or was, something uncovered."""
        known = self.known()
        while path:
            if path in known or path in self._added:
                return True
            path = RepoPath(path.rpartition(b"/")[0])
        return False

    def add(self, path: RepoPath) -> None:
        """Remember one more path until the next walk."""
        self._added.add(path)

    def replace(self, now: Mapping[RepoPath, StatKey]) -> None:
        """Remember what a walk found."""
        self._added.clear()
        self.update(now)

    def update(self, now: Mapping[RepoPath, StatKey]) -> None:
        """Remember how the uncovered paths look now."""
        if now == self.known():
            return
        with self._db.write():
            excluded.replace(self._db, self._worktree, now)
        self._known = dict(now)
