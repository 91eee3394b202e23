"""Short ids: `t12` for a turn, `u3` for an undo, redo or restore.

Triggers number each new row, so whoever writes one needs no call. A number is never used again,
also not after its row was pruned: what a person wrote down must not come to mean something else.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from gitshadow.store.journal.db import Db

TURN, OP = "t", "u"
_FORM = re.compile(r"([tu])([1-9][0-9]{0,17})")
_MISSING = {
    TURN: "SELECT session, id FROM turns ORDER BY started_ns, ordinal, session, id",
    OP: "SELECT '', id FROM ops ORDER BY ts_ns, id",
}


class ShortId(NamedTuple):
    """What a short id names; `session` is empty unless it is a turn."""

    kind: str
    session: str
    id: str


def find(db: Db, typed: str) -> ShortId | None:
    """Return what a short id names, None for what is none or names nothing."""
    form = _FORM.fullmatch(typed)
    if form is None:
        return None
    row = db.row(
        "SELECT session, id FROM short_ids WHERE kind = ? AND number = ?",
        (form[1], int(form[2])),
    )
    return None if row is None else ShortId(form[1], str(row[0]), str(row[1]))


def of(db: Db, kind: str, identifier: str, session: str = "") -> str:
    """Return the short id of one thing, empty text if it has none."""
    row = db.row(
        "SELECT number FROM short_ids WHERE kind = ? AND session = ? AND id = ?",
        (kind, session, identifier),
    )
    return "" if row is None else f"{kind}{row[0]}"


def keep(db: Db, known: Iterable[tuple[str, int, str, str]]) -> None:
    """Give things the numbers that they had in another journal; call it inside `db.write()`.

    What had none there is numbered after them, in order of time.
    """
    db.run("DELETE FROM short_ids")
    db.run_many("INSERT OR IGNORE INTO short_ids VALUES (?, ?, ?, ?)", list(known))
    for kind, sql in _MISSING.items():
        listed = db.rows("SELECT session, id FROM short_ids WHERE kind = ?", (kind,))
        named = {(session, one) for session, one in listed}
        top = db.number("SELECT MAX(number) FROM short_ids WHERE kind = ?", (kind,))
        fresh = [row for row in db.rows(sql) if (row[0], row[1]) not in named]
        db.run_many(
            "INSERT INTO short_ids VALUES (?, ?, ?, ?)",
            [(kind, top + at, *row) for at, row in enumerate(fresh, 1)],
        )
