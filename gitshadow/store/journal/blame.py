"""What blame reads besides events: claims that others make, and snapshots of its own replays.

A claim says who wrote lines of a commit. It is never evidence for an event; importing one source
again replaces its claims of a commit.
A snapshot is the result of the replay of a file after some of its events. It is derived, so any row
may be deleted at any time. Its row has everything that must still be true for it to be used.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from gitshadow.model import Actor, Oid, RepoPath
from gitshadow.store.journal.db import Db, Table

WHOLE_COMMIT = RepoPath(b"")
"""The path of a claim that is about a commit and not about certain lines."""


class ClaimRow(NamedTuple):
    """One claim; the empty path means the commit as a whole."""

    source: str
    commit: Oid
    path: RepoPath
    first: int
    last: int
    actor: Actor
    agent: str | None = None
    model: str | None = None
    session: str | None = None


class BlameState(NamedTuple):
    """One snapshot and what it depends on.

    `fed` events were replayed, `seq` is the last one; up to it rows have the `names` of the file
    `named` times. `heads` and `committed` are digests of the reflog's answers.
    """

    worktree: str
    path: RepoPath
    seq: int
    made_by: str
    heads: str
    fed: int
    named: int
    names: tuple[RepoPath, ...]
    committed: str
    data: bytes


_CLAIMS = Table("claims", ClaimRow, renamed={"commit": "commit_oid"})
_STATES = Table("blame_states", BlameState)
put_state = _STATES.put
_NEWEST = "WHERE worktree = ? AND path = ? AND seq < ? ORDER BY seq DESC LIMIT 1"
_STANDING = (
    "SELECT seq, made_by, heads FROM blame_states WHERE worktree = ? AND path = ?"
)
_FED = "SELECT seq, fed FROM blame_states WHERE worktree = ? AND path = ?"
_DROP = "DELETE FROM blame_states WHERE worktree = ? AND path = ? AND seq = ?"
# A table with rowids: they show which snapshots were stored first.
_SIZES = "SELECT rowid, length(data) FROM blame_states ORDER BY rowid DESC"
_TRIM = "DELETE FROM blame_states WHERE rowid <= ?"
_LAST = 1 << 62


def replace_claims(db: Db, source: str, commit: Oid, rows: Iterable[ClaimRow]) -> int:
    """Replace the claims of a source about a commit; call it inside `db.write()`.

    Returns:
        How many claims there are now.
    """
    claimed = list(rows)
    # A note can be rewritten, so lines that it no longer claims must go.
    db.run("DELETE FROM claims WHERE source = ? AND commit_oid = ?", (source, commit))
    _CLAIMS.put(db, *claimed)
    return len(claimed)


def claimed_commits(db: Db) -> set[Oid]:
    """Return every commit with a claim."""
    return {Oid(row[0]) for row in db.rows("SELECT DISTINCT commit_oid FROM claims")}


def claims_of(db: Db, commit: Oid) -> list[ClaimRow]:
    """Return the claims about a commit, by path and line."""
    return _CLAIMS.rows(db, "WHERE commit_oid = ? ORDER BY path, first", commit)


def newest_states(
    db: Db, worktree: str, path: RepoPath, until: int | None = None
) -> Iterator[BlameState]:
    """Yield the snapshots of a file, none after the event `until`, each read when asked for."""
    below = _LAST if until is None else until + 1
    # One at a time, because a snapshot of a large file is large and the newest one usually fits.
    while (state := _STATES.get(db, _NEWEST, worktree, path, below)) is not None:
        yield state
        below = state.seq


def states_at(db: Db, worktree: str, path: RepoPath) -> list[tuple[int, str, str]]:
    """Return after which event each snapshot of a file was taken, by what, on which heads."""
    return [(row[0], row[1], row[2]) for row in db.rows(_STANDING, (worktree, path))]


def drop_state(db: Db, state: BlameState) -> None:
    """Drop one snapshot; call it inside `db.write()`."""
    db.run(_DROP, (state.worktree, state.path, state.seq))


def keep_states(db: Db, worktree: str, path: RepoPath, fed: Collection[int]) -> None:
    """Drop the snapshots of a file but for those after so many events, and the newest."""
    rows = sorted(db.rows(_FED, (worktree, path)))
    for seq, count in rows[:-1]:
        if count not in fed:
            db.run(_DROP, (worktree, path, seq))


def trim_states(db: Db, most_bytes: int) -> None:
    """Drop the snapshots that were stored first, until the others take so many bytes at most."""
    total = 0
    # Only sizes are read, newest first, until the limit is reached; the data of a snapshot can be
    # large.
    for rowid, size in db.rows(_SIZES):
        total += size
        if total > most_bytes:
            db.run(_TRIM, (rowid,))
            return
