"""The journal's connection: one SQLite file, opened, migrated and locked here.

No `sqlite3.Error` leaves this package. A journal from a newer version is never written to.
SQLite WAL mode, https://sqlite.org/wal.html.
"""

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from gitshadow.errors import JournalBusyError, JournalError, JournalNewerError
from gitshadow.store.journal import schema
from gitshadow.store.journal.schema import VERSION

Value = str | bytes | int | None
Row = tuple[Any, ...]

# A transaction of ours takes milliseconds, so only a stuck process holds the lock for longer. Hooks
# wait less (`be_patient`): their agent waits for them, and their payload can wait in the spool.
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
_IN_MEMORY = ":memory:"
_REINDEX = "git agent-undo reindex"
# How often each file is open in this process: `_check_file` must not touch one that is. The lock
# makes the check and the entry one step for threads.
_OPEN: Counter[tuple[int, int]] = Counter()
_OPENING = threading.Lock()
# The binding itself refuses lone surrogates and integers of more than 64 bits. It also decodes
# SQLite's messages, and fails where one quotes a damaged name.
_FAILURES = (sqlite3.Error, UnicodeError, OverflowError)


class Db:
    """One open journal. Reads work anywhere, writes inside `write()`."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._depth = 0
        self.path = path
        self._file = None if path == _IN_MEMORY else _file_at(path)
        if self._file is not None:
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
            # In WAL mode readers never wait for the writer, so prompts and completion are answered
            # while the daemon records.
            db.run("PRAGMA journal_mode = WAL")
            # NORMAL can lose the last transactions in a power cut, but never damages the file, and
            # the refs have what was lost (https://sqlite.org/pragma.html#pragma_synchronous). The
            # intents of agent programs are in no ref, and must be on the disk before a tool runs:
            # they ask for FULL.
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
    def in_memory(cls) -> Self:
        """Open a journal of this version that exists only in this process."""
        connection = sqlite3.connect(
            _IN_MEMORY, isolation_level=None, check_same_thread=False
        )
        db = cls(connection, _IN_MEMORY)
        db._migrate()
        return db

    @classmethod
    def look(cls, path: str) -> "Db":
        """Open a journal of this version for reading, and hardly wait for a lock.

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
        """Open a journal for reading, also on a file system where nothing can be written.

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
        """Set how long a transaction waits for another process that writes."""
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
        return _damage(self._connection)

    def define(self, name: str, function: Callable[[Any], Value]) -> None:
        """Define an SQL function of one value for this connection."""
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
        """Yield the rows of a query as they are read."""
        # The half million states of a large worktree, fetched at once, left holes in the heap that
        # the process never gave back.
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
        """Return what to raise for a failure of a statement."""
        failure = _wrap(error)
        # SQLite says `no such column` also where a flipped byte has changed a name in the schema.
        # Only then is the journal damaged, and `reindex` the remedy.
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
            # A transaction that cannot be rolled back would keep the write lock. Closing ends it.
            self._connection.close()

    def _migrate(self) -> None:
        version = self.number("PRAGMA user_version")
        if version == VERSION:
            return
        with self.write():
            # Another process may have migrated it while we waited for the lock.
            version = self.number("PRAGMA user_version")
            if version > VERSION:
                raise _newer(version)
            for statement in schema.statements(version):
                self.run(statement)
            self.run(f"PRAGMA user_version = {VERSION}")


def is_damaged(path: str) -> bool:
    """Return whether a journal cannot be read in full; it is not changed."""
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
    """Return the error to report if a damaged journal caused an unexpected error, else None."""
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
    """Return whether a journal has this version's schema; it is not changed.

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
    """Create the file and its directory, private whatever the umask, unless they exist."""
    # SQLite would create the file with the umask's permissions, and it gives the log and the shared
    # memory those of the file (findCreateFileMode in its os_unix.c).
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
    # These characters end or escape the path in a URI (https://sqlite.org/uri.html).
    for plain, quoted in (("%", "%25"), ("?", "%3f"), ("#", "%23")):
        path = path.replace(plain, quoted)
    try:
        # isolation_level=None: else the module begins deferred transactions of its own before each
        # write (sqlite3, "Transaction control"), and `write` could not begin one. Python's default
        # cache of 128 statements is smaller than the number of statements here.
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
    # A Git directory can come in an archive: a link here may lead to a file of the user's.
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
    """Return whether a write-ahead log has rows that the file does not have."""
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
