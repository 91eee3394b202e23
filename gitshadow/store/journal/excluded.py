"""What the topmost uncovered paths looked like at the last walk; only to notice touches.

Invariant: replaced whole; losing it costs one round of unnoticed touches, nothing else.
"""

from collections.abc import Mapping

from gitshadow.model import RepoPath, StatKey
from gitshadow.store.journal.db import Db

_LOAD = "SELECT path, size, mtime_ns, ctime_ns, inode FROM excluded WHERE worktree = ?"
_CLEAR = "DELETE FROM excluded WHERE worktree = ?"
_PUT = "INSERT INTO excluded VALUES (?, ?, ?, ?, ?, ?)"


def load(db: Db, worktree: str) -> dict[RepoPath, StatKey]:
    """Return the stat of each uncovered path as of the last walk."""
    rows = db.rows(_LOAD, (worktree,))
    return {RepoPath(row[0]): StatKey(*row[1:]) for row in rows}


def replace(db: Db, worktree: str, found: Mapping[RepoPath, StatKey]) -> None:
    """Remember the stat of each uncovered path; call it inside `db.write()`."""
    db.run(_CLEAR, (worktree,))
    rows = [
        (worktree, path, key.size, key.mtime_ns, key.ctime_ns, key.inode)
        for path, key in found.items()
    ]
    db.run_many(_PUT, rows)
