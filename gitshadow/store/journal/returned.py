"""A history that came back from a mirror, until the files have come back too.

Invariant: while it is pending, the moment to restore is the one that was found first: what was
recorded since is the loss itself.
"""

import json
from typing import NamedTuple

from gitshadow.model import OpKind
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db

_KEY = "returned"
_SINCE = "SELECT 1 FROM ops WHERE kind = ? AND ts_ns > ? AND status <> 'applying'"


class MirrorReturn(NamedTuple):
    """Hold the mirror it came from, the newest moment in it, and when it came."""

    mirror: str
    newest_ns: int
    came_ns: int


def pending(db: Db) -> MirrorReturn | None:
    """Return what came back, None where nothing did or a restore followed."""
    text = meta.get(db, _KEY)
    if not text:
        return None
    found = json.loads(text)
    came = MirrorReturn(found["mirror"], found["newest_ns"], found["came_ns"])
    followed = db.row(_SINCE, (OpKind.RESTORE.value, came.came_ns))
    return came if followed is None else None


def is_pending(db: Db) -> bool:
    """Tell whether a history came back and no restore followed yet."""
    return pending(db) is not None


def note(db: Db, came: MirrorReturn) -> None:
    """Note what came back; call it inside `db.write()`."""
    meta.put(db, _KEY, json.dumps(came._asdict()))


def settle(db: Db) -> None:
    """Note that nothing is awaited any more; call it inside `db.write()`."""
    meta.put(db, _KEY, "")
