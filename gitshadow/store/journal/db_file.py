"""The journal's file: whether SQLite may open it, and what its failures mean.

A damaged file, or one of another version, is refused before SQLite can change a byte of it.
"""

import os
import sqlite3
import threading
from collections import Counter

from gitshadow.errors import JournalBusyError, JournalError, JournalNewerError
from gitshadow.store.journal import schema
from gitshadow.store.journal.schema import VERSION

# A transaction of ours takes milliseconds, so only a stuck process holds the lock for longer. Hooks
# wait less (`be_patient`): their agent waits for them, and their payload can wait in the spool.
_BUSY_MS = 5000
_STORAGE_TROUBLE = (
    "SQLITE_FULL",
    "SQLITE_IOERR",
    "SQLITE_READONLY",
    "SQLITE_CANTOPEN",
)
_DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_NO_TEXT = "Could not decode to UTF-8"
"""What the binding says of a cell of text that is none."""
REINDEX = "git agent-undo reindex"
# How often each file is open in this process: `check` must not touch one that is. The lock
# makes the check and the entry one step for threads.
OPEN: Counter[tuple[int, int]] = Counter()
OPENING = threading.Lock()
# The binding itself refuses lone surrogates and integers of more than 64 bits. It also decodes
# SQLite's messages, and fails where one quotes a damaged name.
FAILURES = (sqlite3.Error, UnicodeError, OverflowError)


def is_damaged(path: str) -> bool:
    """Return whether a journal cannot be read in full; it is not changed."""
    try:
        check(path, empty_is_new=False)
        connection = connect(path, read_only=True)
    except (JournalNewerError, JournalBusyError):
        return False
    except JournalError:
        return True
    try:
        return damage(connection) is not None
    finally:
        connection.close()


def damage_behind(error: Exception, path: str) -> JournalError | None:
    """Return the error to report if a damaged journal caused an unexpected error, else None."""
    if isinstance(error, OSError | MemoryError) or not os.path.exists(path):
        return None
    return _damaged("it is damaged") if is_damaged(path) else None


def damage(connection: sqlite3.Connection) -> str | None:
    """Return what is wrong with the rows and pages of an open journal, None if nothing is."""
    try:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != ("ok",):
            return str(found[0])
        return schema.damaged_part(connection) or schema.damaged_cell(connection)
    except FAILURES as error:
        return None if isinstance(wrap(error), JournalBusyError) else str(error)


def version_of(path: str) -> int:
    """Return the version of a journal, as its write-ahead log has it.

    Raises:
        JournalError: it cannot be read.
    """
    # A reader never folds the log in.
    connection = connect(path, read_only=True)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        raise wrap(error) from error
    finally:
        connection.close()


def refuse_newer(path: str) -> None:
    """Raise JournalNewerError for a journal of a newer version; a damaged one is none."""
    try:
        version = version_of(path)
    except JournalError:
        return
    if version > VERSION:
        raise _newer(version)


def create(path: str) -> None:
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
        raise wrap(error) from error


def check(path: str, *, empty_is_new: bool) -> None:
    """Refuse a truncated journal, or another version's, before SQLite can change a byte of it.

    One that this process has open was looked at, and is not touched: closing a file, whoever opened
    it, takes the process's locks from it, and then another process takes the write-ahead log away
    (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    # A Git directory can come in an archive: a link here may lead to a file of the user's.
    if os.path.islink(path):
        raise _damaged("it is a link")
    try:
        if OPEN[file_at(path)]:
            return
        with open(path, "rb") as handle:
            header = handle.read(100)
            size = os.fstat(handle.fileno()).st_size
    except OSError as error:
        raise JournalError(
            f"could not read the journal: {error.strerror}",
            hint=f"check that this is a readable file: {path}",
        ) from error
    pending = has_log(path)
    if not header and (empty_is_new or pending):
        return
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise _damaged("it is not a database")
    version = version_of(path) if pending else _number(header, 60)
    if version > VERSION:
        raise _newer(version)
    # A file that another process is creating has none yet.
    if 0 < version < VERSION:
        raise _damaged(f"its version {version} is older than {VERSION}")
    # The page count is good where both counters agree (SQLite file format, 1.3.7 and 1.3.8).
    page_bytes = int.from_bytes(header[16:18], "big")
    counted = header[24:28] == header[92:96] and not pending
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    if counted and size < _number(header, 28) * page_bytes:
        raise _damaged("it is cut short")


def is_on_read_only(path: str) -> bool:
    """Return whether the file system of a journal refuses every write."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def has_log(path: str) -> bool:
    """Return whether a write-ahead log has rows that the file does not have."""
    return os.path.exists(path + "-wal") and os.path.getsize(path + "-wal") > 0


def file_at(path: str) -> tuple[int, int]:
    """Return the device and the inode of a journal."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], "big")


def _newer(version: int) -> JournalNewerError:
    return JournalNewerError(
        f"cannot use the journal: its version {version} is newer than {VERSION}",
        hint="upgrade gitshadow",
    )


def _damaged(why: str) -> JournalError:
    return JournalError(f"could not read the journal: {why}", hint=REINDEX)


def wrap(error: Exception) -> JournalError:
    """Return the error that stands for a failure of SQLite or its binding."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return JournalBusyError(
            "cannot use the journal: it is locked by another process",
            hint="try again in a moment",
        )
    hint = None
    undecodable = isinstance(error, UnicodeDecodeError) or _NO_TEXT in str(error)
    if undecodable or name.startswith(_DAMAGE):
        hint = REINDEX
    elif name.startswith(_STORAGE_TROUBLE):
        hint = "check free space and permissions of the git directory"
    return JournalError(f"cannot use the journal: {error}", hint=hint)
