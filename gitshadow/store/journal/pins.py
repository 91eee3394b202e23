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
put, get = _PINS.put, _PINS.finder("name")


def list_pins(db: Db) -> list[Pin]:
    """Return all pins, newest first."""
    return _PINS.rows(db, "ORDER BY ts_ns DESC, name")


def drop(db: Db, name: str) -> None:
    """Forget a pin; call it inside `db.write()`."""
    db.run("DELETE FROM pins WHERE name = ?", (name,))
