"""Tables whose columns are the fields of one class.

A cell is checked when it is read: an unknown word, or text that is not JSON, raises `ValueError`.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Any, Generic, TypeVar

from gitshadow.model import FileVersion, Oid, RepoPath, micro
from gitshadow.store.journal.db import Db, Row, Value

T = TypeVar("T")
_Convert = Callable[[Any], Any]


class Table(Generic[T]):
    """One table: its columns in the order of the fields, and its rows as values.

    Args:
        name: The table.
        kind: A dataclass or named tuple. Booleans are stored as integers, enums as their words,
            tuples of strings as JSON.
        renamed: The columns that are not named as their fields.
        without: The fields that are not columns; they have defaults.
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
        without: Sequence[str] = (),
        micro_ns: str | None = None,
        key: str | None = None,
    ) -> None:
        columns = renamed or {}
        # Annotations, because dataclasses and named tuples both have them, in order.
        types = {f: of for f, of in kind.__annotations__.items() if f not in without}
        self.columns = [columns.get(field, field) for field in types]
        self.select = f"SELECT {', '.join(self.columns)} FROM {name}"
        self.put_sql = _put_sql(name, self.columns, key)
        self._kind = kind
        self._fields = tuple(types)
        self._cells = attrgetter(*types)
        converted = [
            (at, *convert)
            for at, of in enumerate(types.values())
            if (convert := _conversion(of)) is not None
        ]
        self._loads = [(self._fields[at], load) for at, load, _ in converted]
        self._dumps = [(at, dump) for at, _, dump in converted]
        if micro_ns is not None:
            self._dumps.append((self._fields.index(micro_ns), micro))

    def load(self, row: Sequence[Any]) -> T:
        """Return a row of `columns` as a value.

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

    def rows(self, db: Db, rest: str, *values: Value) -> list[T]:
        """Return all rows of a query that ends so."""
        return [self.load(row) for row in db.rows(f"{self.select} {rest}", values)]

    def by_prefix(
        self, db: Db, prefix: str, order: str, ids: Iterable[str] = ("id",)
    ) -> list[T]:
        """Return the rows one of whose ids begins so; if one is equal, only the equal ones."""
        return [
            self.load(row)
            for row in rows_by_prefix(db, self.select, prefix, order, ids)
        ]


def rows_by_prefix(
    db: Db, select: str, prefix: str, order: str, ids: Iterable[str] = ("id",)
) -> list[Row]:
    """Return the rows one of whose ids begins so; if one is equal, only the equal ones."""
    # substr compares whole characters and knows no wildcards: in LIKE, `_` and `%` in an id would
    # match anything, and case would not count.
    equal = " OR ".join(f"{name} = ?1" for name in ids)
    begins = " OR ".join(f"substr({name}, 1, length(?1)) = ?1" for name in ids)
    return db.rows(f"{select} WHERE {equal}", (prefix,)) or db.rows(
        f"{select} WHERE {begins} {order}", (prefix,)
    )


def version(oid: Oid | None, mode: int) -> FileVersion | None:
    """Return the file version of two columns, None where they are NULL."""
    return None if oid is None else FileVersion(oid, mode)


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
