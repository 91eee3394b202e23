"""Gaps that somebody has seen: what was missed then cannot be recorded any more.

Invariant: a gap stays in the history whatever was seen of it.
"""

from typing import NamedTuple

from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db

_SEEN = "gaps_seen"
_GAPS = (
    "SELECT seq, ts_ns, note FROM events WHERE kind IN ('gap', 'head', 'baseline', 'coverage')"
    " AND kind = 'gap' ORDER BY seq"
)


class GapRow(NamedTuple):
    """Hold one gap: its number, when it was journalled, why, and whether nobody has seen it."""

    seq: int
    ts_ns: int
    note: str
    is_new: bool


def list_gaps(db: Db) -> list[GapRow]:
    """Return every gap, oldest first."""
    seen = int(meta.get(db, _SEEN) or "0")
    return [GapRow(seq, ts, note or "", seq > seen) for seq, ts, note in db.rows(_GAPS)]


def see(db: Db) -> list[GapRow]:
    """Have every gap count as seen; return those that were new. Call it inside `db.write()`."""
    fresh = [one for one in list_gaps(db) if one.is_new]
    if fresh:
        meta.put(db, _SEEN, str(fresh[-1].seq))
    return fresh
