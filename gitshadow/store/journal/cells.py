"""Whether the cells of a journal hold what their columns are for; SQLite looks at pages alone.

One byte that a disk lost turns a time into another, a word into none of its enum, text into bytes
that are no text. Pure over a connection; each row is read once.
"""

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from gitshadow.model import (
    Actor,
    Confidence,
    EventKind,
    OpKind,
    OpStatus,
    ToolClass,
)

Cell = str | bytes | int | float | None
_OID = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"refs/agent-undo/[a-z0-9][a-z0-9/-]*")
_PAIR_OF_MODES = re.compile(r"[0-7]{4} [0-7]{4}")
_NUMBER = re.compile(r"[0-9]{1,18}")
_LATEST_NS = 253_402_300_799 * 1_000_000_000
_STORED = {"TEXT": str, "INTEGER": int, "BLOB": bytes}
_TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
    " ORDER BY name"
)
_STATS = frozenset({"file_state", "excluded"})
"""Tables with times of files, which can be any."""
_OIDS = frozenset(
    {"before_oid", "after_oid", "commit_oid", "oid", "tip", "tree", "head"}
)
_MODES = frozenset({"mode", "before_mode", "after_mode"})
_JSON = frozenset(
    {
        "undoes",
        "report",
        "candidates",
        "intent",
        "inverse",
        "outcome",
        "body",
        "request",
    }
)
_WORDS: dict[tuple[str, str], type[StrEnum]] = {
    ("events", "kind"): EventKind,
    ("events", "actor"): Actor,
    ("events", "confidence"): Confidence,
    ("sessions", "actor"): Actor,
    ("claims", "actor"): Actor,
    ("calls", "tool_class"): ToolClass,
    ("ops", "kind"): OpKind,
    ("ops", "status"): OpStatus,
}


class Column(NamedTuple):
    """Hold one column: its name, what it stores, and whether it may be NULL."""

    name: str
    stored: type
    nullable: bool


def damage(connection: sqlite3.Connection) -> str | None:
    """Return what is wrong with the first row that cannot be right, None for nothing.

    Raises:
        sqlite3.Error: a row could not be read.
    """
    for table in _each(connection, _TABLES):
        name = str(table[0])
        known = columns(connection, name)
        for row in _each(connection, f'SELECT * FROM "{name}"'):
            wrong = wrong_cell(name, known, row)
            if wrong is not None:
                return f"{name}.{wrong} contains an invalid value"
    return None


def columns(connection: sqlite3.Connection, table: str) -> tuple[Column, ...]:
    """Return the columns of a table, in order."""
    rows = _each(connection, f'PRAGMA table_info("{table}")')
    return tuple(
        Column(str(name), _STORED.get(str(declared), object), not (required or key))
        for _, name, declared, required, _, key in rows
    )


def wrong_cell(table: str, known: Sequence[Column], row: Sequence[Cell]) -> str | None:
    """Return the column whose cell cannot be right, None for none."""
    if table == "meta":
        return None if _is_setting(*row) else "value"
    for column, cell in zip(known, row, strict=True):
        if cell is None and column.nullable:
            continue
        if not isinstance(cell, column.stored) or not _fits(table, column.name, cell):
            return column.name
    return None


def _fits(table: str, name: str, cell: Cell) -> bool:
    if isinstance(cell, int):
        is_time = name.endswith("_ns") and table not in _STATS
        return (not is_time or 0 <= cell <= _LATEST_NS) and (
            name not in _MODES or 0 < cell < 1 << 20
        )
    if not isinstance(cell, str):
        return True
    if not _is_text(cell):
        return False
    if name in _OIDS:
        return _OID.fullmatch(cell) is not None
    if name == "ref":
        return _REF.fullmatch(cell) is not None
    if (table, name) in _WORDS:
        return cell in _WORDS[table, name].__members__.values()
    return name not in _JSON or _is_json_or_plain(cell)


def _is_setting(key: Cell, value: Cell) -> bool:
    if not isinstance(key, str) or not isinstance(value, str):
        return False
    if key == "next_seq":
        return _NUMBER.fullmatch(value) is not None
    if key.startswith("modes:"):
        return _PAIR_OF_MODES.fullmatch(value) is not None
    return _is_text(key) and _is_text(value) and _is_json_or_plain(value)


def _is_text(text: str) -> bool:
    """Whether a text is one, also where its reader let bytes pass that are none."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_json_or_plain(text: str) -> bool:
    """Whether a text that looks like a list or an object is one."""
    if not text.startswith(("[", "{")) and not text.endswith(("]", "}")):
        return True
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _each(connection: sqlite3.Connection, sql: str) -> Iterator[Sequence[Cell]]:
    yield from connection.execute(sql)
