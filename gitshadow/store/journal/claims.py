"""Claims: what others say of the lines of commits, apart from everything that we recorded.

Invariant: a claim is never evidence for an event; importing one source again replaces its claims of
a commit.
"""

from collections.abc import Iterable
from typing import NamedTuple

from gitshadow.model import Actor, Oid, RepoPath
from gitshadow.store.journal.db import Db, Row

_COLUMNS = "source, commit_oid, path, first, last, actor, agent, model, session"
_INSERT = f"INSERT OR REPLACE INTO claims ({_COLUMNS}) VALUES ({', '.join('?' * 9)})"

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


def replace(db: Db, source: str, commit: Oid, rows: Iterable[ClaimRow]) -> int:
    """Put what a source says of a commit in place of what it said; inside `db.write()`.

    Returns:
        How many claims stand now.
    """
    values = [(*row[:5], row.actor.value, *row[6:]) for row in rows]
    db.run("DELETE FROM claims WHERE source = ? AND commit_oid = ?", (source, commit))
    db.run_many(_INSERT, values)
    return len(values)


def commits(db: Db) -> set[Oid]:
    """Return every commit of which somebody claims something."""
    return {Oid(row[0]) for row in db.rows("SELECT DISTINCT commit_oid FROM claims")}


def of_commit(db: Db, commit: Oid) -> list[ClaimRow]:
    """Return what is claimed of a commit, by path and line."""
    sql = f"SELECT {_COLUMNS} FROM claims WHERE commit_oid = ? ORDER BY path, first"
    return [_claim(row) for row in db.rows(sql, (commit,))]


def _claim(row: Row) -> ClaimRow:
    return ClaimRow(
        row[0],
        Oid(row[1]),
        RepoPath(row[2]),
        row[3],
        row[4],
        Actor(row[5]),
        row[6],
        row[7],
        row[8],
    )
