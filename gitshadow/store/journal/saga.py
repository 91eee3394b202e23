"""Turns of the SDK, their calls with the inverses, the undos of them, and the log of it all.

`saga_turns`, `saga_calls` and `saga_ops` hold how things stand; `saga_log` holds what happened:
rows are only added to it, and each carries a digest over itself and the one before.
Invariant: an outcome and its inverse are written in one transaction; JSON texts are canonical
where they are part of the chain.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields

from gitshadow.errors import JournalError
from gitshadow.store.journal import history, outbox
from gitshadow.store.journal.db import Db, Row, Value
from gitshadow.store.journal.saga_rows import (
    CallName,
    Effect,
    Held,
    NewEvent,
    SagaCall,
    SagaEntry,
    SagaLogRow,
    SagaOp,
    SagaRow,
    SagaTurn,
    digest_of,
    first_broken,
)

_TURN = [field.name for field in fields(SagaTurn)]
_CALL = ["class" if f.name == "klass" else f.name for f in fields(SagaCall)]
_OP = [field.name for field in fields(SagaOp)]
_HELD = [field.name for field in fields(Held)]
_TABLES = {
    SagaTurn: "saga_turns",
    SagaCall: "saga_calls",
    SagaOp: "saga_ops",
    Held: "saga_outbox",
}
_COLUMNS = {SagaTurn: _TURN, SagaCall: _CALL, SagaOp: _OP, Held: _HELD}
_KEYS = {
    SagaTurn: "session, id",
    SagaCall: "session, turn, id",
    SagaOp: "id",
    Held: "session, turn, call",
}
_PUTS = {
    kind: f"INSERT INTO {table} ({', '.join(_COLUMNS[kind])})"
    f" VALUES ({', '.join('?' * len(_COLUMNS[kind]))}) ON CONFLICT ({_KEYS[kind]})"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS[kind])}"
    for kind, table in _TABLES.items()
}
_SELECT_TURN = f"SELECT {', '.join(_TURN)} FROM saga_turns"
_SELECT_CALL = f"SELECT {', '.join(_CALL)} FROM saga_calls"
_SELECT_OP = f"SELECT {', '.join(_OP)} FROM saga_ops"
_SELECT_LOG = "SELECT seq, session, turn, call, kind, ts_ns, body, digest FROM saga_log"
_BEGUN = (
    "INSERT OR IGNORE INTO saga_effects SELECT ?1, ?2, COALESCE(MAX(seq), -1), ?3, ?4"
    " FROM saga_events WHERE session = ?1"
)
_STANDING = (
    f"SELECT {', '.join(f'c.{name}' for name in _CALL)} FROM saga_effects e"
    " JOIN saga_calls c ON (c.session, c.turn, c.id) = (e.session, e.turn, e.call)"
    " WHERE e.session = ? AND e.digest = ? AND e.seq BETWEEN ? AND ?"
    " AND (c.outcome IS NULL OR c.outcome IN ('success', 'held', 'raised'))"
    " AND c.undo NOT IN ('done', 'skipped', 'resolved') ORDER BY e.seq DESC LIMIT 1"
)
_CLAIM = (
    "UPDATE saga_calls SET undo = 'running', attempts = attempts + 1, owner = ?,"
    " lease_ns = ? WHERE session = ? AND turn = ? AND id = ? AND (undo IN ('planned', 'failed')"
    " OR (undo = 'running' AND (owner = ? OR lease_ns <= ?)))"
)


_IN_DOUBT = (
    "(COALESCE(outcome, 'raised') = 'raised' AND undo = 'none' AND class <> 'read_only'"
    " AND NOT EXISTS (SELECT 1 FROM saga_turns t WHERE"
    " t.session = saga_calls.session AND t.id = turn AND t.status = 'open'))"
)


def save(db: Db, rows: Iterable[SagaRow]) -> None:
    """Write rows, new or changed, and add to the log, in one transaction.

    Raises:
        JournalError: nothing of it stands.
    """
    with db.write():
        for row in rows:
            if isinstance(row, SagaEntry):
                _append(db, row)
            elif isinstance(row, NewEvent):
                history.append(db, row)
            elif isinstance(row, Effect):
                db.run(_BEGUN, (row.session, row.digest, row.turn, row.call))
            else:
                kind = type(row)
                db.run(_PUTS[kind], [getattr(row, field.name) for field in fields(row)])


def claim(db: Db, call: CallName, owner: str, now_ns: int, until_ns: int) -> bool:
    """Take a compensation for one attempt, by compare-and-set; tell whether it is ours.

    One that another owner has taken is free again when its lease has run out.
    """
    values: tuple[Value, ...] = (
        *(owner, until_ns, call.session, call.turn, call.id),
        *(owner, now_ns),
    )
    with db.write():
        return db.run(_CLAIM, values) == 1


def free_leases(db: Db, session: str) -> None:
    """Let go of what dead processes had claimed: who holds the session's lock knows that."""
    with db.write():
        db.run(
            "UPDATE saga_calls SET lease_ns = 0 WHERE session = ? AND undo = 'running'",
            (session,),
        )
        outbox.free_leases(db, session)


def turn(db: Db, session: str, turn: str) -> SagaTurn | None:
    """Return a turn, or None."""
    row = db.row(f"{_SELECT_TURN} WHERE session = ? AND id = ?", (session, turn))
    return None if row is None else _turn(row)


def last_turn(db: Db, session: str) -> SagaTurn | None:
    """Return the newest turn of a session, or None."""
    sql = f"{_SELECT_TURN} WHERE session = ? ORDER BY ordinal DESC LIMIT 1"
    row = db.row(sql, (session,))
    return None if row is None else _turn(row)


def turns(db: Db, session: str | None = None) -> list[SagaTurn]:
    """Return the turns: of one session by number, of all of them by start."""
    sql = (
        f"{_SELECT_TURN} WHERE ?1 IS NULL OR session = ?1"
        " ORDER BY CASE WHEN ?1 IS NULL THEN started_ns END, ordinal"
    )
    return [_turn(row) for row in db.rows(sql, (session,))]


def calls(db: Db, session: str, turn: str) -> list[SagaCall]:
    """Return the calls of a turn, in the order in which they started."""
    sql = f"{_SELECT_CALL} WHERE session = ? AND turn = ? ORDER BY ordinal"
    return [_call(row) for row in db.rows(sql, (session, turn))]


def calls_named(db: Db, call: str, session: str | None = None) -> list[SagaCall]:
    """Return the calls of an id, which several turns may have."""
    sql = f"{_SELECT_CALL} WHERE id = ?1 AND (?2 IS NULL OR session = ?2)"
    return [_call(row) for row in db.rows(sql, (call, session))]


def standing(
    db: Db, session: str, digest: str, first: int, last: int
) -> SagaCall | None:
    """Return the newest call of a digest that was begun between two events and is not undone."""
    row = db.row(_STANDING, (session, digest, first, last))
    return None if row is None else _call(row)


def unsettled(db: Db, session: str | None = None) -> list[SagaCall]:
    """Return the calls that somebody must look at: in doubt, or with an inverse that failed."""
    sql = (
        f"{_SELECT_CALL} WHERE (?1 IS NULL OR session = ?1)"
        f" AND (undo IN ('running', 'failed', 'in_doubt') OR {_IN_DOUBT})"
        " ORDER BY session, turn, ordinal"
    )
    return [_call(row) for row in db.rows(sql, (session,))]


def next_to_close(db: Db, now_ns: int, session: str | None = None) -> SagaCall | None:
    """Return the call that can be taken back for the shortest time from now, or None."""
    sql = (
        f"{_SELECT_CALL} WHERE expires_ns IS NOT NULL AND undo IN ('planned', 'failed')"
        " AND expires_ns >= ?1 AND (?2 IS NULL OR session = ?2)"
        " ORDER BY expires_ns LIMIT 1"
    )
    row = db.row(sql, (now_ns, session))
    return None if row is None else _call(row)


def op(db: Db, op: str) -> SagaOp | None:
    """Return an undo, or None."""
    row = db.row(f"{_SELECT_OP} WHERE id = ?", (op,))
    return None if row is None else SagaOp(**dict(zip(_OP, row, strict=True)))


def ops(db: Db, session: str) -> list[SagaOp]:
    """Return the undos of a session, oldest first."""
    sql = f"{_SELECT_OP} WHERE session = ? ORDER BY rowid"
    return [
        SagaOp(**dict(zip(_OP, row, strict=True))) for row in db.rows(sql, (session,))
    ]


def sessions_with_work(db: Db) -> list[str]:
    """Return the sessions with an undo that has no report."""
    sql = (
        "SELECT DISTINCT session FROM saga_ops WHERE status != 'done' ORDER BY session"
    )
    return [str(row[0]) for row in db.rows(sql)]


def unfinished(db: Db, session: str) -> bool:
    """Tell whether an undo of a session has not come to its end."""
    sql = "SELECT 1 FROM saga_ops WHERE session = ? AND status <> 'done' LIMIT 1"
    return db.row(sql, (session,)) is not None


def log(
    db: Db, session: str | None = None, turn: str | None = None
) -> Iterator[SagaLogRow]:
    """Return the log (of one session, of one turn), oldest first."""
    sql = (
        f"{_SELECT_LOG} WHERE (?1 IS NULL OR session = ?1) AND (?2 IS NULL OR turn = ?2)"
        " ORDER BY seq"
    )
    return (_noted(row) for row in db.rows(sql, (session, turn)))


def broken_at(db: Db) -> int | None:
    """Return the first row of the log whose digest does not fit, or None where all do.

    A row that is missing shows at the one after it; the newest rows can be cut off unseen.
    """
    return first_broken(log(db))


def _append(db: Db, note: SagaEntry) -> None:
    row = db.row("SELECT seq, digest FROM saga_log ORDER BY seq DESC LIMIT 1")
    seq, before = (row[0] + 1, row[1]) if row is not None else (1, "")
    db.run(
        "INSERT INTO saga_log VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(seq, note.session, note.turn, note.call, note.kind, note.ts_ns),
            *(note.body, digest_of(before, seq, note)),
        ),
    )


def _turn(row: Row) -> SagaTurn:
    return SagaTurn(**dict(zip(_TURN, row, strict=True)))


def _call(row: Row) -> SagaCall:
    named = dict(zip(_CALL, row, strict=True))
    klass = named.pop("class")
    if not isinstance(klass, str):
        raise JournalError("could not read a call: its class is not a string")
    return SagaCall(klass=klass, **named)


def _noted(row: Row) -> SagaLogRow:
    names = [field.name for field in fields(SagaLogRow)]
    return SagaLogRow(**dict(zip(names, row, strict=True)))
