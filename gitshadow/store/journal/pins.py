"""Pins: named snapshots that retention keeps. A pin has a row exactly as long as it has a ref."""

from dataclasses import dataclass

from gitshadow.model import Oid
from gitshadow.store.journal.db import Db, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One named snapshot."""

    name: str
    ref: str
    commit: Oid
    worktree: str
    ts_ns: int


_PINS = Table("pins", Pin, renamed={"commit": "commit_oid"})


def put(db: Db, pin: Pin) -> None:
    """Store a pin; call it inside `db.write()`."""
    _PINS.put(db, pin)


def get(db: Db, name: str) -> Pin | None:
    """Return a pin, or None."""
    return _PINS.get(db, "WHERE name = ?", name)


def list_pins(db: Db) -> list[Pin]:
    """Return all pins, newest first."""
    return _PINS.rows(db, "ORDER BY ts_ns DESC, name")


def drop(db: Db, name: str) -> None:
    """Forget a pin; call it inside `db.write()`."""
    db.run("DELETE FROM pins WHERE name = ?", (name,))
