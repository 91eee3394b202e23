"""Bursts: the events of one session that belong together.

With turns a burst is the turn; without, an idle gap ends it. In both cases a checkout ends it that
the session did not make itself. A burst belongs to one session in one worktree.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from gitshadow.model import Burst
from gitshadow.store.digests import digest
from gitshadow.store.journal.db import Db, Table

_BURSTS = Table("bursts", Burst)
put, get = _BURSTS.put, _BURSTS.finder("id")
by_prefix = partial(_BURSTS.by_prefix, order="ORDER BY last_seq")
_END = 2**62
_FIRST_PAGE, _LARGEST_PAGE = 128, 4096
_OPEN = (
    "WHERE session = ? AND worktree = ? AND turn IS ? AND open = 1"
    " ORDER BY last_seq DESC LIMIT 1"
)
_MAX_ORDINAL = (
    "SELECT MAX(ordinal) FROM bursts WHERE session = ?1 AND worktree = ?2"
    " AND (?3 IS NULL OR first_seq < ?3)"
)


def assign(
    db: Db,
    *,
    session: str,
    worktree: str,
    turn: str | None,
    idle_since_ns: int,
    pending: Iterable[Burst] = (),
) -> Burst:
    """Return the burst that an event joins: an open one, or a new one that is not stored yet.

    A new burst has zero times and sequence numbers; the caller fills and puts it. One whose last
    event came before `idle_since_ns` is closed here, unless it is of a turn. `pending` are the
    bursts of the same batch.
    """
    known = _BURSTS.get(db, _OPEN, session, worktree, turn)
    if known is not None:
        if turn is not None or known.ended_ns >= idle_since_ns:
            return known
        with db.write():
            db.run("UPDATE bursts SET open = 0 WHERE id = ?", (known.id,))
    # They are stored at the end of the batch, in one transaction with their rows, so the journal
    # would give the same ordinal out again.
    mine = (
        one for one in pending if (one.session, one.worktree) == (session, worktree)
    )
    ordinals = (one.ordinal + 1 for one in mine)
    ordinal = max((next_ordinal(db, session, worktree), *ordinals))
    return Burst(
        id=_fresh_id(db, session, worktree, ordinal),
        session=session,
        worktree=worktree,
        turn=turn,
        ordinal=ordinal,
        started_ns=0,
        ended_ns=0,
        first_seq=0,
        last_seq=0,
    )


def next_ordinal(
    db: Db, session: str, worktree: str, before_seq: int | None = None
) -> int:
    """Return the ordinal of the next burst of a session in a worktree; the first has 1.

    With `before_seq` it is the one after the bursts that began before that event.
    """
    return 1 + db.number(_MAX_ORDINAL, (session, worktree, before_seq))


def recount(db: Db, changed: Collection[str | None]) -> None:
    """Set the span of bursts from the events that they have now; one without any is deleted.

    Call it inside `db.write()`.
    """
    # A row that left may have been the first, the last or the only one, so the span is read again.
    for burst in changed:
        row = db.row(
            "SELECT MIN(ts_ns), MAX(ts_ns), MIN(seq), MAX(seq) FROM events WHERE burst = ?",
            (burst,),
        )
        if row is None or row[0] is None:
            db.run("DELETE FROM bursts WHERE id = ?", (burst,))
            continue
        db.run(
            "UPDATE bursts SET started_ns = ?, ended_ns = ?, first_seq = ?, last_seq = ?"
            " WHERE id = ?",
            (*row, burst),
        )


def list_bursts(db: Db, worktree: str, session: str | None = None) -> list[Burst]:
    """Return the bursts of a worktree (and session), newest last event first."""
    return _BURSTS.rows(
        db,
        "WHERE worktree = ?1 AND (?2 IS NULL OR session = ?2) ORDER BY last_seq DESC",
        worktree,
        session,
    )


def each_newest(db: Db, worktree: str) -> Iterator[Burst]:
    """Yield the bursts of a worktree, newest last event first, read as they are needed."""
    below, most = _END, _FIRST_PAGE
    while True:
        part = _BURSTS.rows(
            db,
            "WHERE worktree = ? AND last_seq < ? ORDER BY last_seq DESC LIMIT ?",
            worktree,
            below,
            most,
        )
        yield from part
        if len(part) < most:
            return
        # Who wants more than a screen mostly wants all.
        below, most = part[-1].last_seq, min(2 * most, _LARGEST_PAGE)


def between(
    db: Db, worktree: str, begin_ns: int, end_ns: int, limit: int
) -> list[Burst]:
    """Return the newest bursts that meet a closed interval, newest last event first."""
    return _BURSTS.rows(
        db,
        "WHERE worktree = ? AND ended_ns >= ? AND started_ns <= ?"
        " ORDER BY last_seq DESC LIMIT ?",
        worktree,
        begin_ns,
        end_ns,
        limit,
    )


def newest(db: Db, worktree: str, most: int) -> list[Burst]:
    """Return some bursts of a worktree, newest last event first."""
    return _BURSTS.rows(
        db, "WHERE worktree = ? ORDER BY last_seq DESC LIMIT ?", worktree, most
    )


def close_for_checkout(db: Db, worktree: str, mover: str | None) -> None:
    """End the open bursts of all but the session that moved HEAD, if one did.

    Call it inside `db.write()`.
    """
    db.run(
        "UPDATE bursts SET open = 0 WHERE worktree = ? AND session <> ? AND open = 1",
        (worktree, mover or ""),
    )


def _fresh_id(db: Db, session: str, worktree: str, ordinal: int) -> str:
    digits = digest(f"{session}\0{worktree}\0{ordinal}", 64)
    # Short ids are for people to type. Two bursts share eight digits once in billions; then the id
    # grows, because an id must name one burst.
    length = 8
    while get(db, f"b-{digits[:length]}") is not None:
        length += 2
    return f"b-{digits[:length]}"
