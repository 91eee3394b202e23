"""Small named values of the journal; one of them is a history that a mirror returned.

A value is text; its writer knows its form.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from gitshadow.model import OpKind
from gitshadow.store.journal.db import Db

_RETURNED = "returned"
_SINCE = "SELECT 1 FROM ops WHERE kind = ? AND ts_ns > ? AND status <> 'applying'"


class MirrorReturn(NamedTuple):
    """A history from a mirror: which mirror, its newest moment, and when it was fetched."""

    mirror: str
    newest_ns: int
    came_ns: int


def get(db: Db, key: str) -> str | None:
    """Return a value, or None."""
    row = db.row("SELECT value FROM meta WHERE key = ?", (key,))
    return None if row is None else str(row[0])


def get_many(db: Db, keys: Sequence[str]) -> dict[str, str]:
    """Return the values of some keys, without those that have none."""
    marks = ", ".join("?" * len(keys))
    return dict(db.rows(f"SELECT key, value FROM meta WHERE key IN ({marks})", keys))


def put(db: Db, key: str, value: str) -> None:
    """Store a value; call it inside `db.write()`."""
    db.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def pending_return(db: Db) -> MirrorReturn | None:
    """Return the returned history, None without one or if a restore followed."""
    text = get(db, _RETURNED)
    if not text:
        return None
    found = json.loads(text)
    came = MirrorReturn(found["mirror"], found["newest_ns"], found["came_ns"])
    # While the return is pending, the moment to restore stays the one that was found first: what
    # was recorded since then is the loss itself.
    followed = db.row(_SINCE, (OpKind.RESTORE.value, came.came_ns))
    return came if followed is None else None


def note_return(db: Db, came: MirrorReturn) -> None:
    """Store a returned history; call it inside `db.write()`."""
    put(db, _RETURNED, json.dumps(came._asdict()))


def settle_return(db: Db) -> None:
    """Store that no restore is pending; call it inside `db.write()`."""
    put(db, _RETURNED, "")
