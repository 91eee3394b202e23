"""Deleting sessions from the journal, in steps that a crash may interrupt."""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from gitshadow.model import Chain, Oid
from gitshadow.store.journal import alerts, bursts, corrections, events, meta
from gitshadow.store.journal.db import Db, Table
from gitshadow.store.journal.saga_rows import SagaLogRow, digest_of
from gitshadow.store.journal.sessions import TRANSCRIPT

UNDER_WAY = "forgetting"
_BY_SESSION = (
    "bursts",
    "turns",
    "calls",
    "call_paths",
    "call_runs",
    "call_changes",
    "models",
    "touches",
)
_STEPS = "DELETE FROM op_steps WHERE op IN (SELECT id FROM ops WHERE session = ?)"
_SOME = (
    "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE session = ? LIMIT ?)"
)
_COMMITS = (
    "SELECT DISTINCT commit_oid FROM events WHERE commit_oid IS NOT NULL"
    " AND (session = ?1 OR seq IN (SELECT seq FROM corrections WHERE chain = ?1))"
)
_LEFT = (
    "SELECT id FROM sessions WHERE EXISTS"
    " (SELECT 1 FROM meta WHERE key = 'tombstone:' || sessions.id) ORDER BY id"
)
_TOMBSTONES = "SELECT substr(key, 11) FROM meta WHERE key LIKE 'tombstone:%'"
_PROGRAMS = (
    "SELECT session, MIN(started_ns), MAX(COALESCE(ended_ns, started_ns)),"
    " SUM(ended_ns IS NULL) FROM saga_turns GROUP BY session"
)
_BUSY = (
    "SELECT session FROM saga_ops WHERE status != 'done' UNION"
    " SELECT session FROM saga_calls WHERE undo IN ('running', 'failed', 'in_doubt') UNION"
    " SELECT session FROM saga_outbox WHERE state IN ('held', 'due', 'sending', 'failed')"
)
_LOG = Table("saga_log", SagaLogRow)


def bury(db: Db, session: str, now_ns: int, chains: Sequence[Chain]) -> None:
    """Write down what is about to be dropped; call it inside `db.write()`."""
    # Written before the ref is deleted: our refs have no reflog, so afterwards nothing would tell
    # that the session was dropped on purpose, or what its tips were.
    tips = {chain.ref: chain.tip for chain in chains}
    text = json.dumps({"dropped_ns": now_ns, "tips": tips})
    meta.put(db, f"tombstone:{session}", text)


def begin(db: Db, programs: Sequence[str]) -> None:
    """Note that sessions are being dropped, and which of agent programs; inside `db.write()`."""
    meta.put(db, UNDER_WAY, json.dumps(list(programs)))


def end(db: Db) -> None:
    """Note that everything was dropped; call it inside `db.write()`."""
    db.run("DELETE FROM meta WHERE key = ?", (UNDER_WAY,))


def under_way(db: Db) -> list[str] | None:
    """Return the agent programs' sessions that are being dropped; None where nothing is."""
    text = meta.get(db, UNDER_WAY)
    return None if text is None else [str(name) for name in json.loads(text)]


def buried(db: Db) -> list[str]:
    """Return the sessions that are being dropped and still have rows."""
    return [str(row[0]) for row in db.rows(_LEFT)]


def tombstones(db: Db) -> frozenset[str]:
    """Return every session that was ever dropped, or is being dropped."""
    return frozenset(str(row[0]) for row in db.rows(_TOMBSTONES))


def dropped_refs(db: Db) -> frozenset[str]:
    """Return the refs of every session that was ever dropped, or is being dropped."""
    rows = db.rows("SELECT value FROM meta WHERE key LIKE 'tombstone:%'")
    return frozenset(ref for (text,) in rows for ref in json.loads(text)["tips"])


def commits_of(db: Db, session: str) -> list[str]:
    """Return the commits of a session's rows, and those of its chains' other rows."""
    return [str(row[0]) for row in db.rows(_COMMITS, (session,))]


def drop_chains(db: Db, session: str) -> None:
    """Forget the chains of a session, whose refs are gone; call it inside `db.write()`."""
    db.run("DELETE FROM chains WHERE session = ?", (session,))


def drop_some(db: Db, session: str, rows: int) -> bool:
    """Delete a part of a session's events, or all the rest of it; return whether it is gone.

    Call it inside `db.write()`.
    """
    corrections.drop_chain(db, session)
    # In parts, so that no other writer waits long. The session's own row is deleted last: after a
    # crash, `buried` finds the session by it and continues.
    if db.run(_SOME, (session, rows)) == rows:
        return False
    db.run(_STEPS, (session,))
    for table in (*_BY_SESSION, "ops", "chains"):
        db.run(f"DELETE FROM {table} WHERE session = ?", (session,))
    db.run("DELETE FROM meta WHERE key = ?", (f"{TRANSCRIPT}{session}",))
    alerts.drop(db, session)
    db.run("DELETE FROM sessions WHERE id = ?", (session,))
    db.run("DELETE FROM corrections WHERE seq NOT IN (SELECT seq FROM events)")
    return True


def drop_commits(db: Db, session: str, worktree: str, kept: Collection[Oid]) -> int:
    """Forget the rows of a chain whose commits are lost; return how many.

    With them go their ops, and the bursts of which nothing is left. Call it inside `db.write()`.
    """
    lost = [
        one
        for one in corrections.rows_of_chain(db, session, worktree)
        if one[1] not in kept
    ]
    rows = events.by_seqs(db, [seq for seq, _ in lost]).values()
    db.run_many("DELETE FROM events WHERE seq = ?", [(seq,) for seq, _ in lost])
    db.run_many("DELETE FROM corrections WHERE seq = ?", [(seq,) for seq, _ in lost])
    gone = sorted({commit for _, commit in lost})
    db.run_many("DELETE FROM ops WHERE commit_oid = ?", [(commit,) for commit in gone])
    bursts.recount(db, {row.burst for row in rows})
    return len(lost)


def programs(db: Db) -> dict[str, tuple[int, int, bool]]:
    """Return the sessions of agent programs: first and last moment, and whether one is at work.

    At work is also one with an undo that did not end, with a call that somebody must look at, or
    with one that is still to be sent.
    """
    busy = {str(row[0]) for row in db.rows(_BUSY)}
    return {
        str(name): (begun, last, bool(open_turns) or name in busy)
        for name, begun, last, open_turns in db.rows(_PROGRAMS)
    }


def drop_program(db: Db, session: str) -> None:
    """Forget all that an agent program's session left here; call it inside `db.write()`.

    The log is one chain of digests over all sessions, so the rows that follow get new digests.
    """
    with unlocked(db):
        for table in _saga_tables(db):
            db.run(f"DELETE FROM {table} WHERE session = ?", (session,))
        chain_anew(db)


def _saga_tables(db: Db) -> list[str]:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'saga_*'"
    # Read from the schema, so that a table that a later version adds is not forgotten.
    found = [str(row[0]) for row in db.rows(sql)]
    has = "SELECT COUNT(*) FROM pragma_table_info(?) WHERE name = 'session'"
    return [table for table in found if db.number(has, (table,))]


@contextmanager
def unlocked(db: Db) -> Iterator[None]:
    """Drop the triggers that keep rows from being changed, for the block."""
    # Schema changes are part of the transaction (https://sqlite.org/lang_transaction.html): if it
    # fails or the process dies, the triggers are back.
    sql = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'saga_*'"
    triggers = db.rows(sql)
    for name, _ in triggers:
        db.run(f"DROP TRIGGER {name}")
    yield
    for _, text in triggers:
        db.run(str(text))


def chain_anew(db: Db) -> None:
    """Renumber the log and chain its digests, inside `unlocked` and `db.write()`."""
    before = ""
    for number, row in enumerate(_LOG.rows(db, "ORDER BY seq"), 1):
        before = digest_of(before, number, row)
        values = (number, before, row.seq)
        db.run("UPDATE saga_log SET seq = ?, digest = ? WHERE seq = ?", values)
