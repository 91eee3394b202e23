"""The journal's connection, and its tables as values.

One SQLite file is opened, created and locked here. No `sqlite3.Error` leaves this package. A
journal from another version is never written to. SQLite WAL mode, https://sqlite.org/wal.html.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar, overload

from gitshadow.errors import JournalError
from gitshadow.model import FileVersion, Oid, RepoPath, micro
from gitshadow.store.journal import db_file, schema
from gitshadow.store.trees import Ends, TreeChange

Value = str | bytes | int | None
Row = tuple[Any, ...]
T = TypeVar("T")
_Convert = Callable[[Any], Any]

_LOOK_S = 0.1
_LONGEST_WAL_BYTES = 16 << 20
_IN_MEMORY = ":memory:"


class SwitchReader(Protocol):
    """Reads the trees of the commits that record moves of HEAD (`switches.SwitchedTrees`)."""

    def ends(self, commit: Oid, path: RepoPath) -> Ends:
        """Return what was at a path before a move and after it, directories too."""
        ...

    def changes(self, commit: Oid) -> Sequence[TreeChange]:
        """Return all that a move changed, by path bytes."""
        ...


class Db:
    """One open journal. Reads work anywhere, writes inside `write()`.

    `switched` reads what Git switched by moves of HEAD, which no row has; without it nothing was.
    """

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._depth = 0
        self.path = path
        self.switched: SwitchReader | None = None
        self._file = None if path == _IN_MEMORY else db_file.file_at(path)
        if self._file is not None:
            db_file.OPEN[self._file] += 1

    @classmethod
    def open(cls, path: str, *, create: bool, durable: bool = False) -> "Db":
        """Open a journal; a new file gets its tables.

        Args:
            path: The file.
            create: Whether a missing journal and its private directory are created.
            durable: Whether a transaction is on the disk when it ends, even if the power fails.

        Raises:
            JournalNewerError: it was written by a newer version; not a byte was changed.
            JournalBusyError: it is locked by another process.
            JournalError: it is missing, damaged or of an older version.
        """
        if create:
            db_file.create(path)
        elif not os.path.exists(path):
            raise JournalError("cannot find the journal", hint=db_file.REINDEX)
        with db_file.OPENING:
            db_file.check(path, empty_is_new=create)
            db = cls(db_file.connect(path), path)
        try:
            # In WAL mode readers never wait for the writer, so prompts and completion are answered
            # while the daemon records.
            db.run("PRAGMA journal_mode = WAL")
            # NORMAL can lose the last transactions in a power cut, but never damages the file, and
            # the refs have what was lost (https://sqlite.org/pragma.html#pragma_synchronous). The
            # intents of agent programs are in no ref, and must be on the disk before a tool runs:
            # they ask for FULL.
            db.run(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            db.run("PRAGMA temp_store = MEMORY")
            db._create()
        except JournalError as error:
            db.close()
            if db_file.is_on_read_only(path):
                raise JournalError(
                    "could not write the journal: its file system is read-only",
                    hint="make it writable; to inspect it: git agent-undo program saga log",
                ) from error
            raise
        except BaseException:
            db.close()
            raise
        return db

    @classmethod
    def in_memory(cls) -> Self:
        """Open a journal of this version that exists only in this process."""
        connection = sqlite3.connect(
            _IN_MEMORY, isolation_level=None, check_same_thread=False
        )
        db = cls(connection, _IN_MEMORY)
        db._create()
        return db

    @classmethod
    def look(cls, path: str) -> "Db":
        """Open a journal of this version for reading, and hardly wait for a lock.

        Raises:
            JournalError: it is missing, damaged, locked or of another version.
        """
        db_file.check(path, empty_is_new=False)
        db = cls(db_file.connect(path, read_only=True), path)
        try:
            db.be_patient(_LOOK_S)
        except BaseException:
            db.close()
            raise
        return db

    @classmethod
    def view(cls, path: str) -> "Db":
        """Open a journal for reading, also on a file system where nothing can be written.

        Raises:
            JournalError: as `open`.
        """
        if not db_file.is_on_read_only(path):
            return cls.open(path, create=False)
        db_file.check(path, empty_is_new=False)
        frozen = not db_file.has_log(path)
        return cls(db_file.connect(path, read_only=True, frozen=frozen), path)

    def be_patient(self, seconds: float) -> None:
        """Set how long a transaction waits for another process that writes."""
        self.run(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def close(self) -> None:
        """Close the file; WAL is folded in by SQLite where nobody else has it open."""
        self._connection.close()
        if self._file is not None:
            db_file.OPEN[self._file] -= 1
            self._file = None

    def fold(self) -> None:
        """Fold the write-ahead log into the file, so that the file alone is the journal."""
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def write(self) -> Iterator[None]:
        """Run a block as one transaction; an inner block joins the outer one.

        Raises:
            JournalBusyError: another process holds the write lock.
            JournalError: the transaction could not be committed; nothing of it was written.
        """
        if self._depth:
            yield
            return
        # A plain BEGIN takes the write lock at the first write. If another process wrote since our
        # first read, that fails at once with SQLITE_BUSY, whatever the timeout
        # (https://sqlite.org/lang_transaction.html). IMMEDIATE waits here, before any work is done.
        self.run("BEGIN IMMEDIATE")
        self._depth = 1
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            self._rollback()
            raise
        finally:
            self._depth = 0

    def version(self) -> tuple[int, int]:
        """Return a value that differs after each change of the journal, whoever made it."""
        # `data_version` counts only what other connections committed, `total_changes` only what
        # this one changed (https://sqlite.org/pragma.html#pragma_data_version).
        return self._connection.total_changes, self.number("PRAGMA data_version")

    def damage(self) -> str | None:
        """Return what is wrong with the file, None if nothing is; reads each page and row."""
        return db_file.damage(self._connection)

    def define(self, name: str, function: Callable[[Any], Value]) -> None:
        """Define an SQL function of one value for this connection."""
        self._connection.create_function(name, 1, function, deterministic=True)

    def cut_log(self) -> None:
        """Let SQLite's log be cut after a large transaction, whose size it would keep."""
        self.run(f"PRAGMA journal_size_limit = {_LONGEST_WAL_BYTES}")

    def run(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Run one statement; return the number of rows it changed."""
        try:
            return self._connection.execute(sql, values).rowcount
        except db_file.FAILURES as error:
            raise self._failure(error) from error

    def run_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Run one statement for many rows."""
        try:
            self._connection.executemany(sql, rows)
        except db_file.FAILURES as error:
            raise self._failure(error) from error

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return all rows of a query."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except db_file.FAILURES as error:
            raise self._failure(error) from error

    def each(self, sql: str, values: Sequence[Value] = ()) -> Iterator[Row]:
        """Yield the rows of a query as they are read."""
        # The half million states of a large worktree, fetched at once, left holes in the heap that
        # the process never gave back.
        try:
            yield from self._connection.execute(sql, values)
        except db_file.FAILURES as error:
            raise self._failure(error) from error

    def row(self, sql: str, values: Sequence[Value] = ()) -> Row | None:
        """Return the first row of a query, or None."""
        try:
            found: Row | None = self._connection.execute(sql, values).fetchone()
        except db_file.FAILURES as error:
            raise self._failure(error) from error
        return found

    def number(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Return the one number that a query gives; 0 for NULL or no row."""
        row = self.row(sql, values)
        return row[0] if row is not None and isinstance(row[0], int) else 0

    def _failure(self, error: Exception) -> JournalError:
        """Return what to raise for a failure of a statement."""
        failure = db_file.wrap(error)
        # SQLite says `no such column` also where a flipped byte has changed a name in the schema.
        # Only then is the journal damaged, and `reindex` the remedy.
        if getattr(error, "sqlite_errorname", "") == "SQLITE_ERROR":
            with suppress(*db_file.FAILURES):
                if schema.damaged_part(self._connection) is None:
                    return failure
            failure.hint = db_file.REINDEX
        return failure

    def _rollback(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            # A transaction that cannot be rolled back would keep the write lock. Closing ends it.
            self._connection.close()

    def _create(self) -> None:
        if self.number("PRAGMA user_version"):
            return
        with self.write():
            # Another process may have created them while we waited for the lock.
            if self.number("PRAGMA user_version"):
                return
            for statement in schema.STATEMENTS:
                self.run(statement)
            self.run(f"PRAGMA user_version = {schema.VERSION}")


class Computed(NamedTuple):
    """A field that is no column: what gives its cell in a query, and how the cell is read."""

    sql: str
    load: _Convert | None = None


class Table(Generic[T]):
    """A table whose columns are the fields of one class, in order; its rows are values.

    A cell is checked when it is read: an unknown word, or text that is not JSON, raises
    `ValueError`.

    Args:
        name: The table.
        kind: A dataclass or named tuple. Booleans are stored as integers, enums as their words,
            tuples of strings as JSON.
        renamed: The columns that are not named as their fields.
        computed: The fields that are read from other tables.
        micro_ns: The time that the refs hold too, and that is stored as they do.
        key: The columns by which a row is updated in place and keeps its rowid; without them, it
            is replaced.
    """

    def __init__(
        self,
        name: str,
        kind: type[T],
        *,
        renamed: Mapping[str, str] | None = None,
        computed: Mapping[str, Computed] | None = None,
        micro_ns: str | None = None,
        key: str | None = None,
    ) -> None:
        columns, derived = renamed or {}, computed or {}
        # Annotations, because dataclasses and named tuples both have them, in order.
        types = {f: of for f, of in kind.__annotations__.items() if f not in derived}
        self.columns = [columns.get(field, field) for field in types]
        cells = [*self.columns, *(one.sql for one in derived.values())]
        self.select = f"SELECT {', '.join(cells)} FROM {name}"
        self.put_sql = _put_sql(name, self.columns, key)
        self._kind = kind
        self._fields = (*types, *derived)
        self._cells = attrgetter(*types)
        converted = [
            (at, *convert)
            for at, of in enumerate(types.values())
            if (convert := _conversion(of)) is not None
        ]
        self._loads = [(self._fields[at], load) for at, load, _ in converted]
        self._loads += [(f, one.load) for f, one in derived.items() if one.load]
        self._dumps = [(at, dump) for at, _, dump in converted]
        if micro_ns is not None:
            self._dumps.append((self._fields.index(micro_ns), micro))

    def load(self, row: Sequence[Any]) -> T:
        """Return a row of `select` as a value.

        Raises:
            ValueError: a cell does not fit its field.
        """
        cells = dict(zip(self._fields, row, strict=True))
        for field, load in self._loads:
            cells[field] = load(cells[field])
        return self._kind(**cells)

    def values(self, value: T) -> list[Value]:
        """Return the cells of a value, in the order of `columns`."""
        cells = list(self._cells(value))
        for at, dump in self._dumps:
            cells[at] = dump(cells[at])
        return cells

    def put(self, db: Db, *rows: T) -> None:
        """Store rows, new or changed; call it inside `db.write()`."""
        db.run_many(self.put_sql, map(self.values, rows))

    def get(self, db: Db, rest: str, *values: Value) -> T | None:
        """Return the first row of a query that ends so, or None."""
        row = db.row(f"{self.select} {rest}", values)
        return None if row is None else self.load(row)

    @overload
    def finder(self, key: str, /) -> Callable[[Db, str], T | None]: ...

    @overload
    def finder(self, key: str, more: str, /) -> Callable[[Db, str, str], T | None]: ...

    def finder(self, *columns: str) -> Callable[..., T | None]:
        """Return a function that gives the row with these texts as its key, or None."""
        rest = f"WHERE {' AND '.join(f'{column} = ?' for column in columns)}"
        return lambda db, *values: (
            self.get(db, rest, *values) if all(map(_is_utf8, values)) else None
        )

    def rows(self, db: Db, rest: str, *values: Value) -> list[T]:
        """Return all rows of a query that ends so."""
        return [self.load(row) for row in db.rows(f"{self.select} {rest}", values)]

    def by_prefix(
        self, db: Db, prefix: str, order: str, ids: Iterable[str] = ("id",)
    ) -> list[T]:
        """Return the rows one of whose ids begins so; if one is equal, only the equal ones."""
        if not _is_utf8(prefix):
            return []
        # A range uses the index of an id, also to find a whole id; LIKE has wildcards, and substr
        # reads each row. No id has the last character of Unicode.
        begins = " OR ".join(f"({name} >= ?1 AND {name} < ?2)" for name in ids)
        values = (prefix, f"{prefix}\U0010ffff")
        found = self.rows(db, f"WHERE {begins} {order}", *values)
        equal = [one for one in found if any(getattr(one, i) == prefix for i in ids)]
        return equal or found


def _is_utf8(text: str) -> bool:
    """Whether the journal can have a text; what somebody types as an id may be other bytes."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def version_cells(version: FileVersion | None) -> tuple[Oid | None, int | None]:
    """Return the two columns that store a file version."""
    return (None, None) if version is None else (version.oid, version.mode)


def _put_sql(name: str, columns: Sequence[str], key: str | None) -> str:
    into = (
        f"INTO {name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    )
    if key is None:
        return f"INSERT OR REPLACE {into}"
    # REPLACE deletes the row and inserts a new one, with a new rowid. Tables whose order is their
    # rowid (`saga_ops`, `saga_outbox`) need the update.
    changed = ", ".join(f"{column} = excluded.{column}" for column in columns)
    return f"INSERT {into} ON CONFLICT ({key}) DO UPDATE SET {changed}"


def _conversion(of: object) -> tuple[_Convert, _Convert] | None:
    """Return how cells of a type are read and written, None where SQLite stores them as is."""
    if of is bool:
        return bool, int
    if isinstance(of, type) and issubclass(of, StrEnum):
        # Calling an enum costs as much as half of the row; it raises for an unknown word.
        words = {str(word): word for word in of}
        return lambda cell: words.get(cell) or of(cell), str
    if of == tuple[str, ...]:
        return _load_strings, json.dumps
    if of == tuple[RepoPath, ...]:
        return _load_paths, b"\0".join
    return None


def _load_strings(cell: str) -> tuple[str, ...]:
    return tuple(json.loads(cell))


def _load_paths(cell: bytes) -> tuple[RepoPath, ...]:
    return tuple(RepoPath(path) for path in cell.split(b"\0"))
