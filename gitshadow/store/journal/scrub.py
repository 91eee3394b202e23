"""Texts taken out of the journal: every column that holds them, and then the bytes of its file.

Names (ids, paths, keys) stay: rows hang together by them.
Invariant: after `squeeze` no page of the file, used or free, holds what was replaced.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from gitshadow.errors import JournalError
from gitshadow.store.journal.db import Db, Row, connect
from gitshadow.store.journal.prune import chain_anew, unlocked
from gitshadow.store.purged import holds, without

_NAMES = frozenset(
    (
        "id",
        "key",
        "session",
        "chain",
        "native_id",
        "parent",
        "worktree",
        "ref",
        "path",
        "old_path",
        "turn",
        "call",
        "op",
        "burst",
        "name",
        "temp",
        "digest",
    )
)
_HELD = "SELECT session, id FROM saga_calls WHERE outcome = 'held' AND is_held(intent)"
_OUTSIDE = (
    "UPDATE saga_calls SET undo = 'kept', error = 'purged'"
    " WHERE undo IN ('planned', 'failed', 'in_doubt') AND is_held(inverse)"
)
_KEPT = (
    "SELECT COUNT(*) FROM saga_calls"
    " WHERE undo IN ('planned', 'failed', 'in_doubt') AND is_held(inverse)"
)
_CHUNK = 1 << 20


class TextCounts(NamedTuple):
    """Count what holds the texts.

    `rows` has `<table>.<column>` and how many; `names` the same for what is no text but a name,
    which stays; `effects` counts calls of agent programs that cannot be taken back without them.
    """

    rows: tuple[tuple[str, int], ...] = ()
    names: tuple[tuple[str, int], ...] = ()
    effects: int = 0


def find(db: Db, forms: Sequence[bytes]) -> TextCounts:
    """Count what holds any form of the texts; nothing is changed."""
    _teach(db, forms)
    rows: list[tuple[str, int]] = []
    names: list[tuple[str, int]] = []
    for table, column in _columns(db):
        count = db.number(f"SELECT COUNT(*) FROM {table} WHERE is_held({column})")
        if count:
            (names if column in _NAMES else rows).append((f"{table}.{column}", count))
    return TextCounts(tuple(rows), tuple(names), db.number(_KEPT))


def unsent(db: Db, forms: Sequence[bytes]) -> list[tuple[str, str]]:
    """Return the sessions and ids of calls that wait to be sent and hold one of the texts."""
    _teach(db, forms)
    return [(str(session), str(call)) for session, call in db.rows(_HELD)]


def clear(db: Db, forms: Sequence[bytes], found: TextCounts) -> None:
    """Have the mark stand for the texts in what was found; call it inside `db.write()`."""
    db.run("DELETE FROM blame_states")
    if not found.rows:
        return
    _teach(db, forms)
    db.run(_OUTSIDE)
    with unlocked(db):
        for place, _ in found.rows:
            table, column = place.split(".")
            db.run(
                f"UPDATE {table} SET {column} = cleared({column}) WHERE is_held({column})"
            )
        chain_anew(db)


def squeeze(db: Db) -> None:
    """Write the file anew, so that what was replaced or deleted is in none of its pages.

    Raises:
        JournalError: another process reads or writes it, or there is no room for a second one.
    """
    db.fold()
    db.run("PRAGMA temp_store = FILE")  # a journal may be larger than the memory
    db.run("VACUUM")
    db.run("PRAGMA temp_store = MEMORY")
    db.fold()


def in_bytes(path: str, forms: Sequence[bytes]) -> bool:
    """Tell whether the bytes of a file hold any form; one that is not there holds none."""
    overlap = max(map(len, forms), default=1) - 1
    with suppress(FileNotFoundError), open(path, "rb") as handle:
        tail = b""
        while chunk := handle.read(_CHUNK):
            if holds(tail + chunk, forms):
                return True
            tail = (tail + chunk)[-overlap:] if overlap else b""
    return False


def in_copy(path: str, forms: Sequence[bytes]) -> bool:
    """Tell whether a journal that was set aside holds any form, as far as it can be read."""
    if in_bytes(path, forms) or in_bytes(path + "-wal", forms):
        return True
    try:
        copy = connect(path, read_only=True)
    except JournalError:
        return False
    try:
        tables = copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return any(_in_table(copy, name, forms) for (name,) in tables.fetchall())
    except sqlite3.Error:
        return False
    finally:
        copy.close()


def _in_table(copy: sqlite3.Connection, table: str, forms: Sequence[bytes]) -> bool:
    """A value that is longer than a page lies in pieces, so bytes alone do not tell."""
    try:
        rows = copy.execute(f'SELECT * FROM "{table}"')
        return any(_row_holds(row, forms) for row in rows)
    except sqlite3.Error:
        return False


def _row_holds(row: Row, forms: Sequence[bytes]) -> bool:
    return any(_is_held(value, forms) for value in row)


def _columns(db: Db) -> list[tuple[str, str]]:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
    info = "SELECT name, type FROM pragma_table_info(?)"
    return [
        (str(table), str(column))
        for (table,) in db.rows(sql)
        for column, kind in db.rows(info, (table,))
        if kind in ("TEXT", "BLOB")
    ]


def _teach(db: Db, forms: Sequence[bytes]) -> None:
    """Have SQL know which values hold a text, and what is to stand there instead."""
    db.define("is_held", lambda value: _is_held(value, forms))
    db.define("cleared", lambda value: _cleared(value, forms))


def _is_held(value: object, forms: Sequence[bytes]) -> bool:
    if isinstance(value, str):
        return holds(value.encode("utf-8", "surrogatepass"), forms)
    return isinstance(value, bytes) and holds(value, forms)


def _cleared(value: str | bytes | int | None, forms: Sequence[bytes]) -> str | bytes:
    if isinstance(value, str):
        return without(value.encode(), forms).decode("utf-8", "replace")
    return without(value, forms) if isinstance(value, bytes) else b""
