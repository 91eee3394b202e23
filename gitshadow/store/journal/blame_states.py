"""Snapshots of blame: what the replay of a file came to after some of its events.

Derived: a row may go at any time, and no row is ever needed. When a row of `events` goes or
changes, a trigger drops them all.
Invariant: a row tells everything that must still hold for it to be used.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from gitshadow.model import RepoPath
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.table import Table

_STANDING = (
    "SELECT seq, made_by, heads FROM blame_states WHERE worktree = ? AND path = ?"
)
_FED = "SELECT seq, fed FROM blame_states WHERE worktree = ? AND path = ?"
_DROP = "DELETE FROM blame_states WHERE worktree = ? AND path = ? AND seq = ?"
_SIZES = "SELECT rowid, length(data) FROM blame_states ORDER BY rowid DESC"
_TRIM = "DELETE FROM blame_states WHERE rowid <= ?"
_LAST = 1 << 62


class BlameState(NamedTuple):
    """Hold one snapshot and what it rests on.

    `fed` events were replayed, `seq` is the last one; up to it the `names` of the file stand
    `named` times in rows. `heads` and `committed` are digests of what the reflog told.
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


_STATES = Table("blame_states", BlameState)
_NEWEST = "WHERE worktree = ? AND path = ? AND seq < ? ORDER BY seq DESC LIMIT 1"


def newest_first(
    db: Db, worktree: str, path: RepoPath, until: int | None = None
) -> Iterator[BlameState]:
    """Yield the snapshots of a file, none after the event `until`, each read when asked for."""
    below = _LAST if until is None else until + 1
    while (state := _STATES.get(db, _NEWEST, worktree, path, below)) is not None:
        yield state
        below = state.seq


def standing(db: Db, worktree: str, path: RepoPath) -> list[tuple[int, str, str]]:
    """Return after which event each snapshot of a file was taken, by what, on which heads."""
    return [(row[0], row[1], row[2]) for row in db.rows(_STANDING, (worktree, path))]


def put(db: Db, state: BlameState) -> None:
    """Store a snapshot; call it inside `db.write()`."""
    _STATES.put(db, state)


def drop(db: Db, state: BlameState) -> None:
    """Drop one snapshot; call it inside `db.write()`."""
    db.run(_DROP, (state.worktree, state.path, state.seq))


def keep(db: Db, worktree: str, path: RepoPath, fed: Collection[int]) -> None:
    """Drop the snapshots of a file but for those after so many events, and the newest."""
    rows = sorted(db.rows(_FED, (worktree, path)))
    for seq, count in rows[:-1]:
        if count not in fed:
            db.run(_DROP, (worktree, path, seq))


def trim(db: Db, most_bytes: int) -> None:
    """Drop the snapshots that were stored first, until the others take so many bytes at most."""
    total = 0
    for rowid, size in db.rows(_SIZES):
        total += size
        if total > most_bytes:
            db.run(_TRIM, (rowid,))
            return
