"""File states, worktrees, touches, and the excluded paths of the last walk.

`file_state` has one row per covered path of one worktree, written in the transaction of its event.
In memory a state takes 100 bytes packed instead of 450 as objects; there is one for every file of
the repository. Excluded paths are replaced as a whole; to lose them costs one round of unnoticed
touches.
"""

import gc
import os
import struct
from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self, TypeVar

from gitshadow.model import (
    LINK_MODE,
    FileState,
    FileVersion,
    Oid,
    RepoPath,
    StatKey,
    Touch,
    git_mode,
)
from gitshadow.platform.stamps import racy_ns
from gitshadow.store.files import Look, look_of
from gitshadow.store.git_index import IndexRow, cut
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Computed, Db, Table, Value

Held = TypeVar("Held")
# What a walk compares comes first, so `startswith` answers without unpacking. A packed look ends
# with the byte for "not racy", so a racy row never begins with it.
_LOOK = struct.Struct("<I4q?")
"""Mode, size, mtime, ctime, inode; whether it is racy."""
_SEEN_NS = struct.Struct("<q")
"""When it was seen; the oid is behind it, as long as the repository's are."""
_MODE = struct.Struct("<I")
_STAT, _TIME = struct.Struct("<4q"), struct.Struct("<q")
_CTIME_AT = 20
_OID_AT = _LOOK.size + _SEEN_NS.size
_MANY = 1000


@contextmanager
def uncollected() -> Iterator[None]:
    """Suspend the collector of cycles while many values are made."""
    # It finds nothing in half a million new values, and doubles the time that they take.
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class PackedState(NamedTuple):
    """A state field by field, as the journal has it."""

    oid: str
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    seen_ns: int
    racy: int
    digest: bytes | None = None

    def state(self) -> FileState:
        """Return it as a value."""
        stat = StatKey(self.size, self.mtime_ns, self.ctime_ns, self.inode)
        version = FileVersion(Oid(self.oid), self.mode)
        racy = self.racy != 0
        return FileState(version, stat, self.seen_ns, racy, self.digest)


class _Rows(MutableMapping[RepoPath, Held]):
    """Values by path, packed as bytes; one that does not fit into the form stays an object."""

    def __init__(self) -> None:
        self._rows: dict[RepoPath, bytes | Held] = {}

    def __delitem__(self, path: RepoPath) -> None:
        del self._rows[path]

    def __contains__(self, path: object) -> bool:
        return path in self._rows

    def __iter__(self) -> Iterator[RepoPath]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> KeysView[RepoPath]:
        """Return the paths, as a view of the dictionary below: the quick one."""
        return self._rows.keys()


class Looks(_Rows[Look]):
    """The results of lstat of many files, in the form in which states begin."""

    def pop_packed(self, path: RepoPath) -> bytes | Look:
        """Remove a file and return how it looks, packed if `agreeing` took it."""
        return self._rows.pop(path)

    def packed(self) -> Iterable[tuple[RepoPath, bytes | Look]]:
        """Return paths and looks, as `States.stands` takes them."""
        return self._rows.items()

    def note(self, path: RepoPath, found: os.stat_result) -> None:
        """Store what lstat said of a regular file, without making a value of it."""
        stat = found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
        try:
            self._rows[path] = _LOOK.pack(found.st_mode, *stat, False)
        except struct.error:  # as below
            self._rows[path] = look_of(found)

    def agreeing(
        self, rows: Iterable[IndexRow], index_ns: int
    ) -> tuple[list[IndexRow], list[RepoPath]]:
        """Return the entries of Git's index that files look like, and the paths without a file.

        Left out is what may have changed since without another stat (racy-git.txt).

        Args:
            rows: Entries.
            index_ns: The mtime of the index.
        """
        same: list[IndexRow] = []
        absent: list[RepoPath] = []
        look_at, pack, begin = self._rows.get, _STAT.pack, _MODE.size
        for row in rows:
            mode, _, path, size, mtime_ns, ctime_ns, inode = row
            look = look_at(path)
            if look is None:
                absent.append(path)
            elif (
                isinstance(look, bytes)
                and mtime_ns < index_ns
                and _has_mode(look[:begin], mode)
                and (
                    look[begin:-1] == pack(int(size), mtime_ns, ctime_ns, inode)
                    or _is_cut(look, (int(size), mtime_ns, ctime_ns, inode))
                )
            ):
                same.append(row)
        return same, absent

    def __getitem__(self, path: RepoPath) -> Look:
        return _looked(self._rows[path])

    def __setitem__(self, path: RepoPath, look: Look) -> None:
        try:
            self._rows[path] = _LOOK.pack(look.mode, *look.stat, False)
        except struct.error:  # no journal holds such a stat
            self._rows[path] = look


class States(_Rows[FileState]):
    """States by path."""

    @classmethod
    def of(cls, states: Mapping[RepoPath, FileState]) -> Self:
        """Return these states, packed."""
        made = cls()
        made.update(states)
        return made

    def put(self, path: RepoPath, flat: PackedState) -> None:
        """Store a row of the journal without making a value of it."""
        # Half a million rows are loaded at a start, and a `FileState` for each would only be packed
        # again.
        self._rows[path] = _packed(flat) or flat.state()

    def take(self, looks: Looks, oids: Mapping[RepoPath, Oid], seen_ns: int) -> None:
        """Move files here from a walk that began at a moment, with what is known of them."""
        seen = _SEEN_NS.pack(seen_ns)
        for path, oid in oids.items():
            row = looks.pop_packed(path)
            if not isinstance(row, bytes):
                continue
            (ctime_ns,) = _TIME.unpack_from(row, _CTIME_AT)
            if seen_ns - ctime_ns < racy_ns(ctime_ns):
                row = row[:-1] + b"\1"
            self._rows[path] = row + seen + bytes.fromhex(oid)

    def cells(self, *first: Value) -> Iterator[tuple[Value, ...]]:
        """Yield every path and state field by field, as the journal has it, after some cells."""
        for path, row in self._rows.items():
            if isinstance(row, bytes):
                (seen_ns,) = _SEEN_NS.unpack_from(row, _LOOK.size)
                mode, *stat, racy = _LOOK.unpack_from(row)
                oid = row[_OID_AT:].hex()
                yield *first, path, oid, mode, *stat, seen_ns, racy, None
            else:
                yield *first, path, *_flat(row)

    def stands(self, path: RepoPath, look: Look | bytes) -> bool:
        """Return whether a path is known, was read safely and still looks the same."""
        row = self._rows.get(path)
        if isinstance(row, bytes):
            return isinstance(look, bytes) and row.startswith(look)
        if row is None or row.racy:
            return False
        seen = _looked(look)
        return (row.version.mode, row.stat) == (seen.mode, seen.stat)

    def modes(self) -> Iterator[tuple[RepoPath, int]]:
        """Yield every path with its exact mode."""
        for path, row in self._rows.items():
            if isinstance(row, bytes):
                yield path, _MODE.unpack_from(row)[0]
            else:
                yield path, row.version.mode

    def __getitem__(self, path: RepoPath) -> FileState:
        row = self._rows[path]
        return _unpacked(row) if isinstance(row, bytes) else row

    def __setitem__(self, path: RepoPath, state: FileState) -> None:
        self._rows[path] = _packed(_flat(state)) or state


def _flat(state: FileState) -> PackedState:
    version = state.version
    rest = (*state.stat, state.seen_ns, state.racy, state.digest)
    return PackedState(version.oid, version.mode, *rest)


def _packed(flat: PackedState) -> bytes | None:
    """Return a state as bytes, None for one that does not fit."""
    if flat.digest is not None:
        return None
    stat = (flat.size, flat.mtime_ns, flat.ctime_ns, flat.inode)
    try:
        look = _LOOK.pack(flat.mode, *stat, flat.racy != 0)
        return look + _SEEN_NS.pack(flat.seen_ns) + bytes.fromhex(flat.oid)
    except (struct.error, ValueError):
        return None


def _looked(row: bytes | Look) -> Look:
    if not isinstance(row, bytes):
        return row
    mode, size, mtime_ns, ctime_ns, inode, _ = _LOOK.unpack(row)
    return Look(mode, StatKey(size, mtime_ns, ctime_ns, inode))


def _is_cut(look: bytes, stat: tuple[int, int, int, int]) -> bool:
    """Return whether a look has a stat whose size and inode were cut to 32 bits."""
    return cut(StatKey(*_STAT.unpack_from(look, _MODE.size))) == stat


@lru_cache
def _has_mode(packed: bytes, mode: bytes) -> bool:
    """Return whether a packed mode is this one in Git; there are few different ones."""
    return git_mode(_MODE.unpack(packed)[0]) == int(mode, 8)


def _unpacked(row: bytes) -> FileState:
    mode, size, mtime_ns, ctime_ns, inode, racy = _LOOK.unpack_from(row)
    (seen_ns,) = _SEEN_NS.unpack_from(row, _LOOK.size)
    stat = StatKey(size, mtime_ns, ctime_ns, inode)
    version = FileVersion(Oid(row[_OID_AT:].hex()), mode)
    return FileState(version, stat, seen_ns, racy)


_COLUMNS = "path, oid, mode, size, mtime_ns, ctime_ns, inode, seen_ns, racy, digest"
_LOAD = f"SELECT {_COLUMNS} FROM file_state WHERE worktree = ?"
_COUNT = "SELECT count(*) FROM file_state WHERE worktree = ?"
_GET = f"{_LOAD} AND path = ?"
_GET_MANY = f"{_LOAD} AND path IN (%s)"
_NEXT = (
    "SELECT path FROM file_state WHERE worktree = ? AND path >= ? ORDER BY path LIMIT 1"
)
# SQLite takes so many values of a statement in every version (SQLITE_MAX_VARIABLE_NUMBER).
_AT_ONCE = 900
# The sign keeps SQLite from taking the primary key, which begins with the worktree.
_NAMED = f"SELECT {_COLUMNS} FROM file_state WHERE +worktree = ? AND inode IN (%s)"
_ODD = "SELECT path, mode FROM file_state WHERE worktree = ? AND mode NOT IN (?, ?, ?)"
_SEEN = "SELECT path FROM file_state WHERE worktree = ? AND (seen_ns >= ? OR racy)"
_PUT = "INSERT OR REPLACE INTO file_state VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INODE_INDEX = "CREATE INDEX file_state_inode ON file_state (inode)"
_ANY = "SELECT 1 FROM file_state LIMIT 1"
_DROP = "DELETE FROM file_state WHERE worktree = ? AND path = ?"
_LOAD_EXCLUDED = (
    "SELECT path, size, mtime_ns, ctime_ns, inode FROM excluded WHERE worktree = ?"
)
_DROP_EXCLUDED = "DELETE FROM excluded WHERE worktree = ? AND path = ?"
_PUT_EXCLUDED = "INSERT OR REPLACE INTO excluded VALUES (?, ?, ?, ?, ?, ?)"
_HEAD_MARK = "head mark of "
LAST_WALK = "last_walk:"
"""The key, with a worktree after it, of what its states were compared with."""
_TOUCHES = Table("touches", Touch)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeRow:
    """The last recorded state of one worktree as a whole.

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


_MARK_OF = f"(SELECT value FROM meta WHERE key = '{_HEAD_MARK}' || id)"
_WORKTREES = Table(
    "worktrees",
    WorktreeRow,
    computed={"head_mark": Computed(f"COALESCE({_MARK_OF}, '')")},
)
get_worktree = _WORKTREES.finder("id")


def load(db: Db, worktree: str) -> States:
    """Return the states of all paths of a worktree."""
    found = States()
    with uncollected():
        for path, *row in db.each(_LOAD, (worktree,)):
            found.put(path, PackedState(*row))
    return found


def count(db: Db, worktree: str) -> int:
    """Return how many paths of a worktree have a state."""
    return db.number(_COUNT, (worktree,))


def odd_modes(db: Db, worktree: str, plain: tuple[int, int]) -> dict[RepoPath, int]:
    """Return the exact mode of each file whose permissions are none of the plain two."""
    values = (worktree, LINK_MODE, 0o100000 | plain[0], 0o100000 | plain[1])
    return {RepoPath(path): mode for path, mode in db.rows(_ODD, values)}


def get(db: Db, worktree: str, path: RepoPath) -> FileState | None:
    """Return the state of one path, or None."""
    row = db.row(_GET, (worktree, path))
    return None if row is None else PackedState(*row[1:]).state()


def get_many(
    db: Db, worktree: str, paths: Sequence[RepoPath]
) -> dict[RepoPath, FileState]:
    """Return the states of those of some paths that have one."""
    return _those(db, worktree, _GET_MANY, paths)


def _those(
    db: Db, worktree: str, query: str, keys: Sequence[Value]
) -> dict[RepoPath, FileState]:
    found: dict[RepoPath, FileState] = {}
    for start in range(0, len(keys), _AT_ONCE):
        part = keys[start : start + _AT_ONCE]
        asked = query % ", ".join("?" * len(part))
        for path, *row in db.rows(asked, (worktree, *part)):
            found[RepoPath(path)] = PackedState(*row).state()
    return found


def seen_since(db: Db, worktree: str, since_ns: int) -> set[RepoPath]:
    """Return the paths whose state was read since a moment, or may not be what is there."""
    return {RepoPath(row[0]) for row in db.rows(_SEEN, (worktree, since_ns))}


def children(db: Db, worktree: str, directory: RepoPath) -> set[RepoPath]:
    """Return the known files directly in a directory, and the directories that hold others."""
    found: set[RepoPath] = set()
    prefix = at = directory + b"/" if directory else b""
    # Each query skips what is below the child before.
    while (row := db.row(_NEXT, (worktree, at))) and row[0].startswith(prefix):
        name, slash, _ = row[0][len(prefix) :].partition(b"/")
        child = RepoPath(prefix + name)
        found.add(child)
        # `0` is the byte after `/`.
        at = child + (b"0" if slash else b"\0")
    return found


def below(db: Db, worktree: str, directory: RepoPath) -> list[RepoPath]:
    """Return the known paths below a directory (`b""`: all), sorted."""
    if not directory:
        query = "SELECT path FROM file_state WHERE worktree = ? ORDER BY path"
        return [RepoPath(row[0]) for row in db.rows(query, (worktree,))]
    rows = db.rows(
        "SELECT path FROM file_state WHERE worktree = ? AND path > ? AND path < ?"
        " ORDER BY path",
        # `0` is the byte after `/`, so the bounds are exactly the paths below it.
        (worktree, directory + b"/", directory + b"0"),
    )
    return [RepoPath(row[0]) for row in rows]


def named(db: Db, worktree: str, inodes: Collection[int]) -> dict[RepoPath, FileState]:
    """Return the known paths whose file had one of some inodes."""
    return _those(db, worktree, _NAMED, [*inodes])


def put_many(db: Db, worktree: str, states: Mapping[RepoPath, FileState]) -> None:
    """Store states; call it inside `db.write()`."""
    # The index of a table that is empty is made once at the end: that takes half the time.
    empty = len(states) > _MANY and db.row(_ANY) is None
    if empty:
        db.run("DROP INDEX file_state_inode")
    if isinstance(states, States):
        db.run_many(_PUT, states.cells(worktree))
    else:
        rows = ((worktree, path, *_flat(one)) for path, one in states.items())
        db.run_many(_PUT, rows)
    if empty:
        db.run(_INODE_INDEX)


def drop_many(db: Db, worktree: str, paths: Iterable[RepoPath]) -> None:
    """Forget paths; call it inside `db.write()`."""
    rows = [(worktree, path) for path in paths]
    if rows:
        db.run_many(_DROP, rows)


def clear(db: Db, worktree: str) -> None:
    """Forget a worktree's states and row; call it inside `db.write()`."""
    drop_states(db, worktree)
    db.run("DELETE FROM excluded WHERE worktree = ?", (worktree,))


def drop_states(db: Db, worktree: str) -> None:
    """Forget a worktree's states, so that it is scanned again; call it inside `db.write()`."""
    db.run("DELETE FROM file_state WHERE worktree = ?", (worktree,))
    db.run("DELETE FROM worktrees WHERE id = ?", (worktree,))
    meta.put(db, LAST_WALK + worktree, "")


def worktrees(db: Db) -> list[WorktreeRow]:
    """Return the rows of all worktrees, by name."""
    return _WORKTREES.rows(db, "ORDER BY id")


def put_worktree(db: Db, row: WorktreeRow, known: WorktreeRow | None = None) -> None:
    """Store a worktree's row; call it inside `db.write()`.

    `known` is what the journal has of it.
    """
    _WORKTREES.put(db, row)
    if known is None or known.head_mark != row.head_mark:
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


def load_excluded(db: Db, worktree: str) -> dict[RepoPath, StatKey]:
    """Return the stat of each excluded path as of the last walk."""
    rows = db.rows(_LOAD_EXCLUDED, (worktree,))
    return {RepoPath(row[0]): StatKey(*row[1:]) for row in rows}


def replace_excluded(
    db: Db,
    worktree: str,
    found: Mapping[RepoPath, StatKey],
    known: Mapping[RepoPath, StatKey],
) -> None:
    """Replace the stats of the excluded paths; call it inside `db.write()`.

    Only what differs from the `known` ones is written: a build makes thousands, one after another.
    """
    gone = [(worktree, path) for path in known.keys() - found.keys()]
    if gone:
        db.run_many(_DROP_EXCLUDED, gone)
    rows = [
        (worktree, path, key.size, key.mtime_ns, key.ctime_ns, key.inode)
        for path, key in found.items()
        if known.get(path) != key
    ]
    db.run_many(_PUT_EXCLUDED, rows)
