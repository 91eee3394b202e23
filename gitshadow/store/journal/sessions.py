"""Sessions and their chains.

Invariant: a session's id never changes; a chain's row moves only after its ref did.
"""

from gitshadow.model import Actor, Chain, Session
from gitshadow.store.journal.db import Db, Row, micro

_COLUMNS = (
    "id, native_id, actor, agent, parent, started_ns, ended_ns, end_reason, pid,"
    " pid_started, last_seen_ns"
)
_SELECT = f"SELECT {_COLUMNS} FROM sessions"
_PUT = f"INSERT OR REPLACE INTO sessions ({_COLUMNS}) VALUES ({', '.join('?' * 11)})"
_CHAIN = "SELECT ref, session, worktree, tip, tree, tip_seq FROM chains"


def put(db: Db, session: Session) -> None:
    """Store a session, new or changed; call it inside `db.write()`."""
    values = (
        session.id,
        session.native_id,
        session.actor.value,
        session.agent,
        session.parent,
        micro(session.started_ns),
        session.ended_ns,
        session.end_reason,
        session.pid,
        session.pid_started,
        session.last_seen_ns,
    )
    db.run(_PUT, values)


def get(db: Db, session: str) -> Session | None:
    """Return a session by its id, or None."""
    row = db.row(f"{_SELECT} WHERE id = ?", (session,))
    return None if row is None else _session(row)


def find_native(db: Db, agent: str | None, native_id: str) -> Session | None:
    """Return the newest session that an agent calls by this id of its own, or None."""
    row = db.row(
        f"{_SELECT} WHERE native_id = ? AND agent IS ? ORDER BY started_ns DESC",
        (native_id, agent),
    )
    return None if row is None else _session(row)


def by_prefix(db: Db, prefix: str) -> list[Session]:
    """Return the sessions whose id or native id begins so; an exact one stands alone."""
    exact = db.rows(f"{_SELECT} WHERE id = ?1 OR native_id = ?1", (prefix,))
    if exact:
        return [_session(row) for row in exact]
    rows = db.rows(
        f"{_SELECT} WHERE substr(id, 1, length(?1)) = ?1"
        " OR substr(native_id, 1, length(?1)) = ?1 ORDER BY started_ns DESC",
        (prefix,),
    )
    return [_session(row) for row in rows]


def all_sessions(db: Db) -> list[Session]:
    """Return every session, newest first."""
    return [_session(row) for row in db.rows(f"{_SELECT} ORDER BY started_ns DESC, id")]


def live(db: Db) -> list[Session]:
    """Return the sessions that have not ended, oldest first."""
    rows = db.rows(f"{_SELECT} WHERE ended_ns IS NULL ORDER BY started_ns, id")
    return [_session(row) for row in rows]


def children(db: Db, parent: str) -> list[Session]:
    """Return the child sessions of a session, oldest first."""
    rows = db.rows(f"{_SELECT} WHERE parent = ? ORDER BY started_ns, id", (parent,))
    return [_session(row) for row in rows]


def newest_of(db: Db, actor: Actor) -> Session | None:
    """Return the newest session of a class of actor, or None."""
    row = db.row(
        f"{_SELECT} WHERE actor = ? ORDER BY started_ns DESC, id DESC LIMIT 1",
        (actor.value,),
    )
    return None if row is None else _session(row)


def touch(db: Db, session: str, seen_ns: int) -> None:
    """Note a sign of life; call it inside `db.write()`."""
    db.run(
        "UPDATE sessions SET last_seen_ns = MAX(COALESCE(last_seen_ns, 0), ?)"
        " WHERE id = ?",
        (seen_ns, session),
    )


def close(db: Db, session: str, ended_ns: int, reason: str) -> None:
    """End a session that has not ended; call it inside `db.write()`."""
    db.run(
        "UPDATE sessions SET ended_ns = ?, end_reason = ?"
        " WHERE id = ? AND ended_ns IS NULL",
        (ended_ns, reason, session),
    )


def close_rebuilt(db: Db, reason: str) -> None:
    """End every open session at its last event: nothing tells that it still runs."""
    db.run(
        "UPDATE sessions SET end_reason = ?, ended_ns = COALESCE((SELECT MAX(ts_ns)"
        " FROM events WHERE events.session = sessions.id), started_ns)"
        " WHERE ended_ns IS NULL",
        (reason,),
    )


def put_chain(db: Db, chain: Chain) -> None:
    """Store where a chain stands; call it inside `db.write()`."""
    db.run(
        "INSERT OR REPLACE INTO chains VALUES (?, ?, ?, ?, ?, ?)",
        (
            chain.ref,
            chain.session,
            chain.worktree,
            chain.tip,
            chain.tree,
            chain.tip_seq,
        ),
    )


def get_chain(db: Db, session: str, worktree: str) -> Chain | None:
    """Return the chain of a session in a worktree, or None."""
    row = db.row(f"{_CHAIN} WHERE session = ? AND worktree = ?", (session, worktree))
    return None if row is None else _chain(row)


def chain_by_ref(db: Db, ref: str) -> Chain | None:
    """Return the chain of a ref, or None."""
    row = db.row(f"{_CHAIN} WHERE ref = ?", (ref,))
    return None if row is None else _chain(row)


def chains(db: Db, worktree: str | None = None) -> list[Chain]:
    """Return all chains (of one worktree), newest first."""
    sql = f"{_CHAIN} WHERE ?1 IS NULL OR worktree = ?1 ORDER BY tip_seq DESC"
    return [_chain(row) for row in db.rows(sql, (worktree,))]


def newest_chain(db: Db, worktree: str) -> Chain | None:
    """Return the chain of a worktree that was written to last, or None."""
    row = db.row(
        f"{_CHAIN} WHERE worktree = ? ORDER BY tip_seq DESC LIMIT 1", (worktree,)
    )
    return None if row is None else _chain(row)


def chains_of(db: Db, session: str) -> list[Chain]:
    """Return the chains of a session, one for each worktree, by worktree."""
    rows = db.rows(f"{_CHAIN} WHERE session = ? ORDER BY worktree", (session,))
    return [_chain(row) for row in rows]


def drop_chain(db: Db, ref: str) -> None:
    """Forget a chain whose ref is gone; call it inside `db.write()`."""
    db.run("DELETE FROM chains WHERE ref = ?", (ref,))


def _session(row: Row) -> Session:
    return Session(
        id=row[0],
        native_id=row[1],
        actor=Actor(row[2]),
        agent=row[3],
        parent=row[4],
        started_ns=row[5],
        ended_ns=row[6],
        end_reason=row[7],
        pid=row[8],
        pid_started=row[9],
        last_seen_ns=row[10],
    )


def _chain(row: Row) -> Chain:
    return Chain(
        ref=row[0],
        session=row[1],
        worktree=row[2],
        tip=row[3],
        tree=row[4],
        tip_seq=row[5],
    )
