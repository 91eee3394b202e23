"""The journal's connection: one SQLite file, opened, migrated and locked here.

Invariant: `sqlite3.Error` never leaves this package; a journal from a newer version is never
written to. SQLite WAL mode, https://sqlite.org/wal.html.
"""

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from gitshadow.errors import JournalBusyError, JournalError, JournalNewerError
from gitshadow.store.journal import schema
from gitshadow.store.journal.schema import VERSION

Value = str | bytes | int | None
Row = tuple[Any, ...]

_BUSY_MS = 5000
_LOOK_S = 0.1
_STORAGE_TROUBLE = (
    "SQLITE_FULL",
    "SQLITE_IOERR",
    "SQLITE_READONLY",
    "SQLITE_CANTOPEN",
)
_DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_NO_TEXT = "Could not decode to UTF-8"
"""What the binding says of a cell of text that is none."""
_REINDEX = "git agent-undo reindex"
# How often each file is open in this process, and whoever is about to open one.
_OPEN: Counter[tuple[int, int]] = Counter()
_OPENING = threading.Lock()
# Text with lone surrogates and integers of more than 64 bits are refused by the binding itself.
# A message of SQLite that quotes a damaged name is decoded by the binding.
_FAILURES = (sqlite3.Error, UnicodeError, OverflowError)


class Db:
    """Hold one open journal. Reads work anywhere, writes inside `write()`."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._depth = 0
        self.path = path
        self._file: tuple[int, int] | None = _file_at(path)
        _OPEN[self._file] += 1

    @classmethod
    def open(cls, path: str, *, create: bool, durable: bool = False) -> "Db":
        """Open a journal and bring it to this version's schema.

        Args:
            path: The file.
            create: Whether a missing journal, and the private directory it lies in, are made.
            durable: Whether a transaction is on the disk when it ends, even if the power fails.

        Raises:
            JournalNewerError: it was written by a newer version; not a byte was changed.
            JournalBusyError: it is locked by another process.
            JournalError: it is missing or damaged.
        """
        if create:
            _create(path)
        elif not os.path.exists(path):
            raise JournalError("cannot find the journal", hint=_REINDEX)
        with _OPENING:
            _check_file(path, empty_is_new=create)
            db = cls(connect(path), path)
        try:
            db.run("PRAGMA journal_mode = WAL")
            db.run(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            db.run("PRAGMA temp_store = MEMORY")
            db._migrate()
        except JournalError as error:
            db.close()
            if _on_read_only(path):
                raise JournalError(
                    "could not write the journal: its file system is read-only",
                    hint="make it writable; to inspect it: git agent-undo saga log",
                ) from error
            raise
        except BaseException:
            db.close()
            raise
        return db

    @classmethod
    def look(cls, path: str) -> "Db":
        """Open a journal of this version to be read only, and hardly wait for anybody.

        Raises:
            JournalError: it is missing, damaged, locked or of another version.
        """
        _check_file(path, empty_is_new=False)
        db = cls(connect(path, read_only=True), path)
        try:
            db.be_patient(_LOOK_S)
            if db.number("PRAGMA user_version") != VERSION:
                raise JournalError("cannot use the journal: it is from another version")
        except BaseException:
            db.close()
            raise
        return db

    @classmethod
    def view(cls, path: str) -> "Db":
        """Open a journal to be looked at, also where nothing can be written.

        Raises:
            JournalError: as `open`; nothing can be written, and it is from another version.
        """
        if not _on_read_only(path):
            return cls.open(path, create=False)
        _check_file(path, empty_is_new=False)
        db = cls(connect(path, read_only=True, frozen=not _has_log(path)), path)
        if db.number("PRAGMA user_version") != VERSION:
            db.close()
            raise JournalError(
                "could not read the journal: it is from an older version and cannot"
                " be upgraded on a read-only file system",
                hint="use it on a writable file system",
            )
        return db

    def be_patient(self, seconds: float) -> None:
        """Wait that long, and no longer, for another process that writes."""
        self.run(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def close(self) -> None:
        """Close the file; WAL is folded in by SQLite where nobody else has it open."""
        self._connection.close()
        if self._file is not None:
            _OPEN[self._file] -= 1
            self._file = None

    def fold(self) -> None:
        """Fold the write-ahead log into the file, so that the file alone is the journal."""
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def write(self) -> Iterator[None]:
        """Run a block as one transaction; an inner block joins the outer one.

        Raises:
            JournalBusyError: another process holds the write lock.
            JournalError: the transaction could not be committed; nothing of it stands.
        """
        if self._depth:
            yield
            return
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
        """Return what is another one after each change of the journal, whoever made it."""
        return self._connection.total_changes, self.number("PRAGMA data_version")

    def damage(self) -> str | None:
        """Return what is wrong with the file, None for nothing; each page and row is read."""
        return _damage(self._connection)

    def define(self, name: str, function: Callable[[Any], Value]) -> None:
        """Have statements of this connection know a function of one value."""
        self._connection.create_function(name, 1, function, deterministic=True)

    def run(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Run one statement; return the number of rows it changed."""
        try:
            return self._connection.execute(sql, values).rowcount
        except _FAILURES as error:
            raise self._failure(error) from error

    def run_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Run one statement for many rows."""
        try:
            self._connection.executemany(sql, rows)
        except _FAILURES as error:
            raise self._failure(error) from error

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return all rows of a query."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except _FAILURES as error:
            raise self._failure(error) from error

    def each(self, sql: str, values: Sequence[Value] = ()) -> Iterator[Row]:
        """Yield the rows of a query as they are read, where they need not be held together."""
        try:
            yield from self._connection.execute(sql, values)
        except _FAILURES as error:
            raise self._failure(error) from error

    def row(self, sql: str, values: Sequence[Value] = ()) -> Row | None:
        """Return the first row of a query, or None."""
        try:
            found: Row | None = self._connection.execute(sql, values).fetchone()
        except _FAILURES as error:
            raise self._failure(error) from error
        return found

    def number(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Return the one number that a query gives; 0 for NULL or no row."""
        row = self.row(sql, values)
        return row[0] if row is not None and isinstance(row[0], int) else 0

    def _failure(self, error: Exception) -> JournalError:
        """Return what to raise; what a statement needs can be another part of the schema now."""
        failure = _wrap(error)
        if getattr(error, "sqlite_errorname", "") == "SQLITE_ERROR":
            with suppress(*_FAILURES):
                if schema.damaged_part(self._connection) is None:
                    return failure
            failure.hint = _REINDEX
        return failure

    def _rollback(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._connection.close()

    def _migrate(self) -> None:
        version = self.number("PRAGMA user_version")
        if version == VERSION:
            return
        with self.write():
            version = self.number("PRAGMA user_version")
            if version > VERSION:
                raise _newer(version)
            for statement in schema.statements(version):
                self.run(statement)
            self.run(f"PRAGMA user_version = {VERSION}")


def is_damaged(path: str) -> bool:
    """Tell whether a journal cannot be read in full; it is only looked at."""
    try:
        _check_file(path, empty_is_new=False)
        connection = connect(path, read_only=True)
    except (JournalNewerError, JournalBusyError):
        return False
    except JournalError:
        return True
    try:
        return _damage(connection) is not None
    finally:
        connection.close()


def damage_behind(error: Exception, path: str) -> JournalError | None:
    """Return what to say where an unexpected error comes from a damaged journal, None for else."""
    if isinstance(error, OSError | MemoryError) or not os.path.exists(path):
        return None
    return _damaged("it is damaged") if is_damaged(path) else None


def _damage(connection: sqlite3.Connection) -> str | None:
    try:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != ("ok",):
            return str(found[0])
        return schema.damaged_part(connection) or schema.damaged_cell(connection)
    except _FAILURES as error:
        return None if isinstance(_wrap(error), JournalBusyError) else str(error)


def is_of_this_version(path: str) -> bool:
    """Tell whether a journal has this version's schema; it is only looked at.

    Raises:
        JournalError: it cannot be read.
    """
    return _pending_version(path) == VERSION


def refuse_newer(path: str) -> None:
    """Raise JournalNewerError for a journal of a newer version; a damaged one is none."""
    try:
        version = _pending_version(path)
    except JournalError:
        return
    if version > VERSION:
        raise _newer(version)


def _create(path: str) -> None:
    """Make the file and its directory, private whatever the umask; what is there stays."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(path, flags, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise JournalError(f"could not create the journal: {error.strerror}") from error
    os.fchmod(fd, 0o600)
    os.close(fd)


def connect(
    path: str, *, read_only: bool = False, frozen: bool = False
) -> sqlite3.Connection:
    """Open the bare file, which exists; raise JournalError where that fails.

    SQLite makes no file to lock one that is `frozen`, so nobody may write it meanwhile.
    """
    for plain, quoted in (("%", "%25"), ("?", "%3f"), ("#", "%23")):
        path = path.replace(plain, quoted)
    try:
        return sqlite3.connect(
            f"file:{path}?mode={'ro' if read_only else 'rw'}&immutable={int(frozen)}",
            uri=True,
            timeout=_BUSY_MS / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
    except sqlite3.Error as error:
        raise _wrap(error) from error


def _check_file(path: str, *, empty_is_new: bool) -> None:
    """Refuse a newer or a truncated journal before SQLite can change a byte of it.

    One that this process has open was looked at, and is not touched: closing a file, whoever opened
    it, takes the process's locks from it, and then another process takes the write-ahead log away
    (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    if os.path.islink(path):
        raise _damaged("it is a link")
    try:
        if _OPEN[_file_at(path)]:
            return
        with open(path, "rb") as handle:
            header = handle.read(100)
            size = os.fstat(handle.fileno()).st_size
    except OSError as error:
        raise JournalError(
            f"could not read the journal: {error.strerror}",
            hint=f"check that this is a readable file: {path}",
        ) from error
    pending = _has_log(path)
    if not header and (empty_is_new or pending):
        return
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise _damaged("it is not a database")
    version = _pending_version(path) if pending else _number(header, 60)
    if version > VERSION:
        raise _newer(version)
    # The page count is good where both counters agree (SQLite file format, 1.3.7 and 1.3.8).
    page_bytes = int.from_bytes(header[16:18], "big")
    counted = header[24:28] == header[92:96] and not pending
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    if counted and size < _number(header, 28) * page_bytes:
        raise _damaged("it is cut short")


def _on_read_only(path: str) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _has_log(path: str) -> bool:
    """Tell whether a write-ahead log holds rows that the file has not."""
    return os.path.exists(path + "-wal") and os.path.getsize(path + "-wal") > 0


def _file_at(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _pending_version(path: str) -> int:
    """Return the version as the write-ahead log has it; a reader never folds the log in."""
    connection = connect(path, read_only=True)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        raise _wrap(error) from error
    finally:
        connection.close()


def _number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], "big")


def _newer(version: int) -> JournalNewerError:
    return JournalNewerError(
        f"cannot use the journal: its version {version} is newer than {VERSION}",
        hint="upgrade gitshadow",
    )


def _damaged(why: str) -> JournalError:
    return JournalError(f"could not read the journal: {why}", hint=_REINDEX)


def _wrap(error: Exception) -> JournalError:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return JournalBusyError(
            "cannot use the journal: it is locked by another process",
            hint="try again in a moment",
        )
    hint = None
    undecodable = isinstance(error, UnicodeDecodeError) or _NO_TEXT in str(error)
    if undecodable or name.startswith(_DAMAGE):
        hint = _REINDEX
    elif name.startswith(_STORAGE_TROUBLE):
        hint = "check free space and permissions of the git directory"
    return JournalError(f"cannot use the journal: {error}", hint=hint)
