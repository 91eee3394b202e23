"""The gaps of a journal, and which of them somebody has seen."""

from typing import NamedTuple

from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.event_rows import RARE

_GAPS = (
    f"SELECT seq, ts_ns, note FROM events WHERE {RARE} AND kind = 'gap' ORDER BY seq"
)
_GAPS_SEEN = "gaps_seen"


class GapRow(NamedTuple):
    """One gap: its number, when it was journalled, why, and whether nobody has seen it."""

    seq: int
    ts_ns: int
    note: str
    is_new: bool


def list_gaps(db: Db) -> list[GapRow]:
    """Return every gap, oldest first."""
    seen = int(meta.get(db, _GAPS_SEEN) or "0")
    return [GapRow(seq, ts, note or "", seq > seen) for seq, ts, note in db.rows(_GAPS)]


def see_gaps(db: Db) -> list[GapRow]:
    """Mark every gap as seen; return the new ones. Call it inside `db.write()`."""
    fresh = [one for one in list_gaps(db) if one.is_new]
    if fresh:
        meta.put(db, _GAPS_SEEN, str(fresh[-1].seq))
    return fresh
