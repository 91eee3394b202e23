"""Pins: named snapshots that retention keeps.

Invariant: a pin's row stands exactly as long as its ref.
"""

from dataclasses import dataclass

from gitshadow.model import Oid
from gitshadow.store.journal.db import Db, Row

_SELECT = "SELECT name, ref, commit_oid, worktree, ts_ns FROM pins"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Hold one named snapshot."""

    name: str
    ref: str
    commit: Oid
    worktree: str
    ts_ns: int


def put(db: Db, pin: Pin) -> None:
    """Store a pin; call it inside `db.write()`."""
    values = (pin.name, pin.ref, pin.commit, pin.worktree, pin.ts_ns)
    db.run("INSERT OR REPLACE INTO pins VALUES (?, ?, ?, ?, ?)", values)


def get(db: Db, name: str) -> Pin | None:
    """Return a pin, or None."""
    row = db.row(f"{_SELECT} WHERE name = ?", (name,))
    return None if row is None else _pin(row)


def list_pins(db: Db) -> list[Pin]:
    """Return all pins, newest first."""
    return [_pin(row) for row in db.rows(f"{_SELECT} ORDER BY ts_ns DESC, name")]


def drop(db: Db, name: str) -> None:
    """Forget a pin; call it inside `db.write()`."""
    db.run("DELETE FROM pins WHERE name = ?", (name,))


def _pin(row: Row) -> Pin:
    return Pin(name=row[0], ref=row[1], commit=row[2], worktree=row[3], ts_ns=row[4])
