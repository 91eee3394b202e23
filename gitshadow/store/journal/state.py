"""File states, worktrees, touches, and the excluded paths of the last walk.

Invariant: one row per covered path of one worktree, written in the transaction of its event.
Excluded paths are replaced as a whole; losing them costs one round of unnoticed touches.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from gitshadow.model import (
    LINK_MODE,
    FileState,
    Oid,
    RepoPath,
    StatKey,
    Touch,
)
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.table import Table
from gitshadow.store.states import Flat, States, uncollected

_COLUMNS = "path, oid, mode, digest, size, mtime_ns, ctime_ns, inode, seen_ns, racy"
_LOAD = f"SELECT {_COLUMNS} FROM file_state WHERE worktree = ?"
_GET = f"{_LOAD} AND path = ?"
# The sign keeps SQLite from taking the primary key, which begins with the worktree.
_NAMED = f"SELECT {_COLUMNS} FROM file_state WHERE inode = ? AND +worktree = ?"
_ODD = "SELECT path, mode FROM file_state WHERE worktree = ? AND mode NOT IN (?, ?, ?)"
_PUT = "INSERT OR REPLACE INTO file_state VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DROP = "DELETE FROM file_state WHERE worktree = ? AND path = ?"
_LOAD_EXCLUDED = (
    "SELECT path, size, mtime_ns, ctime_ns, inode FROM excluded WHERE worktree = ?"
)
_CLEAR_EXCLUDED = "DELETE FROM excluded WHERE worktree = ?"
_PUT_EXCLUDED = "INSERT INTO excluded VALUES (?, ?, ?, ?, ?, ?)"
_HEAD_MARK = "head mark of "
_TOUCHES = Table("touches", Touch)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeRow:
    """Hold what was last recorded of one worktree as a whole.

    `tree` is the working tree as a Git tree, None before the first walk; `walked_ns` the
    moment before which everything written had been recorded. `head_mark` says how far HEAD's
    reflog was read with `head`.
    """

    id: str
    path: bytes
    tree: Oid | None = None
    head: Oid | None = None
    head_ref: str | None = None
    walked_ns: int = 0
    head_mark: str = ""


_WORKTREES = Table("worktrees", WorktreeRow, without=("head_mark",))


def load(db: Db, worktree: str) -> States:
    """Return the states of all paths of a worktree."""
    found = States()
    # The collector finds nothing in half a million new values and doubles the time it takes.
    with uncollected():
        for path, *row in db.each(_LOAD, (worktree,)):
            found.put(path, Flat(*row))
    return found


def odd_modes(db: Db, worktree: str, plain: tuple[int, int]) -> dict[RepoPath, int]:
    """Return the exact mode of each file whose permissions are none of the plain two."""
    values = (worktree, LINK_MODE, 0o100000 | plain[0], 0o100000 | plain[1])
    return {RepoPath(path): mode for path, mode in db.rows(_ODD, values)}


def get(db: Db, worktree: str, path: RepoPath) -> FileState | None:
    """Return the state of one path, or None."""
    row = db.row(_GET, (worktree, path))
    return None if row is None else Flat(*row[1:]).state()


def below(db: Db, worktree: str, directory: RepoPath) -> list[RepoPath]:
    """Return the known paths below a directory, sorted."""
    rows = db.rows(
        "SELECT path FROM file_state WHERE worktree = ? AND path > ? AND path < ?"
        " ORDER BY path",
        (worktree, directory + b"/", directory + b"0"),
    )
    return [RepoPath(row[0]) for row in rows]


def named(db: Db, worktree: str, inodes: Collection[int]) -> dict[RepoPath, FileState]:
    """Return the known paths whose file had one of some inodes."""
    return {
        RepoPath(path): Flat(*row).state()
        for inode in inodes
        for path, *row in db.rows(_NAMED, (inode, worktree))
    }


def put_many(db: Db, worktree: str, states: Mapping[RepoPath, FileState]) -> None:
    """Store states; call it inside `db.write()`."""
    rows = (
        (
            worktree,
            path,
            state.version.oid,
            state.version.mode,
            state.digest,
            state.stat.size,
            state.stat.mtime_ns,
            state.stat.ctime_ns,
            state.stat.inode,
            state.seen_ns,
            int(state.racy),
        )
        for path, state in states.items()
    )
    db.run_many(_PUT, rows)


def drop_many(db: Db, worktree: str, paths: Iterable[RepoPath]) -> None:
    """Forget paths; call it inside `db.write()`."""
    db.run_many(_DROP, [(worktree, path) for path in paths])


def clear(db: Db, worktree: str) -> None:
    """Forget a worktree's states and row; call it inside `db.write()`."""
    for table in ("file_state", "excluded"):
        db.run(f"DELETE FROM {table} WHERE worktree = ?", (worktree,))
    db.run("DELETE FROM worktrees WHERE id = ?", (worktree,))


def drop_states(db: Db, worktree: str) -> None:
    """Forget what a worktree held, so that it is looked at anew; inside `db.write()`."""
    db.run("DELETE FROM file_state WHERE worktree = ?", (worktree,))
    db.run("DELETE FROM worktrees WHERE id = ?", (worktree,))


def worktrees(db: Db) -> list[WorktreeRow]:
    """Return the rows of all worktrees, by name."""
    return [_with_mark(db, row) for row in _WORKTREES.rows(db, "ORDER BY id")]


def get_worktree(db: Db, worktree: str) -> WorktreeRow | None:
    """Return a worktree's row, or None."""
    row = _WORKTREES.get(db, "WHERE id = ?", worktree)
    return None if row is None else _with_mark(db, row)


def put_worktree(db: Db, row: WorktreeRow) -> None:
    """Store a worktree's row; call it inside `db.write()`."""
    _WORKTREES.put(db, row)
    meta.put(db, _HEAD_MARK + row.id, row.head_mark)


def put_touches(db: Db, touches: Iterable[Touch]) -> None:
    """Note writes to uncovered paths; call it inside `db.write()`."""
    _TOUCHES.put(db, *touches)


def touches_between(db: Db, worktree: str, begin_ns: int, end_ns: int) -> list[Touch]:
    """Return the touches of a closed interval, oldest first."""
    return _TOUCHES.rows(
        db,
        "WHERE worktree = ? AND ts_ns >= ? AND ts_ns <= ? ORDER BY ts_ns",
        worktree,
        begin_ns,
        end_ns,
    )


def _with_mark(db: Db, row: WorktreeRow) -> WorktreeRow:
    return replace(row, head_mark=meta.get(db, _HEAD_MARK + row.id) or "")


def load_excluded(db: Db, worktree: str) -> dict[RepoPath, StatKey]:
    """Return the stat of each excluded path as of the last walk."""
    rows = db.rows(_LOAD_EXCLUDED, (worktree,))
    return {RepoPath(row[0]): StatKey(*row[1:]) for row in rows}


def replace_excluded(db: Db, worktree: str, found: Mapping[RepoPath, StatKey]) -> None:
    """Replace the stats of the excluded paths; call it inside `db.write()`."""
    db.run(_CLEAR_EXCLUDED, (worktree,))
    rows = [
        (worktree, path, key.size, key.mtime_ns, key.ctime_ns, key.inode)
        for path, key in found.items()
    ]
    db.run_many(_PUT_EXCLUDED, rows)
