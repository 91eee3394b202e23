"""Claims: what others say of the lines of commits, apart from everything that we recorded.

Invariant: a claim is never evidence for an event; importing one source again replaces its claims of
a commit.
"""

from collections.abc import Iterable
from typing import NamedTuple

from gitshadow.model import Actor, Oid, RepoPath
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.table import Table

WHOLE_COMMIT = RepoPath(b"")
"""The path of a claim that is about a commit and not about certain lines."""


class ClaimRow(NamedTuple):
    """Hold one claim; the empty path stands for the commit as a whole."""

    source: str
    commit: Oid
    path: RepoPath
    first: int
    last: int
    actor: Actor
    agent: str | None
    model: str | None
    session: str | None


_CLAIMS = Table("claims", ClaimRow, renamed={"commit": "commit_oid"})


def replace(db: Db, source: str, commit: Oid, rows: Iterable[ClaimRow]) -> int:
    """Put what a source says of a commit in place of what it said; inside `db.write()`.

    Returns:
        How many claims stand now.
    """
    claimed = list(rows)
    db.run("DELETE FROM claims WHERE source = ? AND commit_oid = ?", (source, commit))
    _CLAIMS.put(db, *claimed)
    return len(claimed)


def commits(db: Db) -> set[Oid]:
    """Return every commit of which somebody claims something."""
    return {Oid(row[0]) for row in db.rows("SELECT DISTINCT commit_oid FROM claims")}


def of_commit(db: Db, commit: Oid) -> list[ClaimRow]:
    """Return what is claimed of a commit, by path and line."""
    return _CLAIMS.rows(db, "WHERE commit_oid = ? ORDER BY path, first", commit)
