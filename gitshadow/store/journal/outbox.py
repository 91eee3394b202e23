"""Calls that wait to be sent: written down, released when their turn has committed.

Invariant: who sends one has taken it by compare-and-set; nobody drops what is being sent.
"""

from dataclasses import fields

from gitshadow.store.journal.db import Db, Row
from gitshadow.store.journal.saga_rows import CallName, Held

_NAMES = [field.name for field in fields(Held)]
_SELECT = f"SELECT {', '.join(f'o.{name}' for name in _NAMES)} FROM saga_outbox o"
_DUE = (
    f"{_SELECT} WHERE o.session = ? AND (o.state = 'due' AND o.due_ns <= ?"
    " OR o.state = 'sending' AND o.lease_ns <= ?) ORDER BY o.rowid"
)
# One in doubt is settled as its call is: by a probe, by a person.
_WAITING = (
    f"{_SELECT} JOIN saga_calls c ON (c.session, c.turn, c.id) = (o.session, o.turn, o.call)"
    " WHERE (?1 IS NULL OR o.session = ?1) AND (o.state IN ('held', 'due', 'sending', 'failed')"
    " OR o.state = 'in_doubt' AND COALESCE(c.outcome, 'raised') = 'raised' AND c.undo = 'none')"
    " ORDER BY o.rowid"
)
_TAKE = (
    "UPDATE saga_outbox SET state = 'sending', attempts = attempts + 1, owner = ?,"
    " lease_ns = ? WHERE session = ? AND turn = ? AND call = ?"
    " AND (state = 'due' OR state = 'sending' AND (owner = ? OR lease_ns <= ?))"
)
_WITHDRAW = (
    "UPDATE saga_outbox SET state = CASE state WHEN 'sending' THEN 'in_doubt' ELSE 'dropped' END"
    " WHERE session = ? AND turn = ? AND call = ?"
    " AND state IN ('held', 'due', 'sending', 'dropped') RETURNING state"
)


def due(db: Db, session: str, now_ns: int) -> list[Held]:
    """Return what is to be sent now, or was being sent when its sender died; held first, first."""
    return [_held(row) for row in db.rows(_DUE, (session, now_ns, now_ns))]


def waiting(db: Db, session: str | None = None) -> list[Held]:
    """Return what was not sent (to its end) and not dropped, held first, first."""
    return [_held(row) for row in db.rows(_WAITING, (session,))]


def take(db: Db, call: CallName, owner: str, now_ns: int, until_ns: int) -> bool:
    """Take a call for one attempt to send it; tell whether it is ours."""
    name = (call.session, call.turn, call.id)
    with db.write():
        return db.run(_TAKE, (owner, until_ns, *name, owner, now_ns)) == 1


def withdraw(db: Db, call: CallName) -> bool:
    """Keep a call from being sent; tell whether it is dropped: nobody had begun to send it."""
    with db.write():
        rows = db.rows(_WITHDRAW, (call.session, call.turn, call.id))
    return [state for (state,) in rows] == ["dropped"]


def free_leases(db: Db, session: str) -> None:
    """End the leases of a session's senders; to be called inside `db.write()`."""
    sql = "UPDATE saga_outbox SET lease_ns = 0 WHERE session = ? AND state = 'sending'"
    db.run(sql, (session,))


def _held(row: Row) -> Held:
    return Held(**dict(zip(_NAMES, row, strict=True)))
