"""What LAW-07 names of a journal: the rows and columns that the refs alone give back."""

from gitshadow.store.journal.db import Db, Row

# Left out: ends, prompts, pids, what wrote nothing, `open`, reports, gaps.
_WROTE = "SELECT 1 FROM events AS e WHERE e.commit_oid IS NOT NULL AND e.session ="
TABLES = {
    "sessions": "SELECT id, native_id, actor, agent, parent, started_ns FROM sessions"
    f" WHERE EXISTS ({_WROTE} sessions.id) ORDER BY id",
    "chains": "SELECT ref, session, worktree, tip, tree, tip_seq FROM chains ORDER BY ref",
    "turns": "SELECT session, id, ordinal, started_ns FROM turns"
    f" WHERE EXISTS ({_WROTE} turns.session AND e.turn = turns.id) ORDER BY session, id",
    "calls": "SELECT session, id, turn, tool, tool_class, opened_ns, worktree FROM calls"
    f" WHERE EXISTS ({_WROTE} calls.session AND e.call = calls.id) ORDER BY session, id",
    "events": "SELECT * FROM events WHERE kind <> 'gap' ORDER BY seq",
    "bursts": "SELECT id, session, worktree, turn, ordinal, started_ns, ended_ns,"
    " first_seq, last_seq FROM bursts ORDER BY id",
    "ops": "SELECT id, kind, ts_ns, worktree, session, target, undoes, token, commit_oid"
    " FROM ops WHERE commit_oid IS NOT NULL ORDER BY id",
    "pins": "SELECT name, ref, commit_oid, worktree, ts_ns FROM pins ORDER BY name",
}


def dump(db: Db, table: str) -> list[Row]:
    """Return the rows of one table that `reindex` must give back, in a fixed order."""
    return db.rows(TABLES[table])


def dump_all(db: Db) -> dict[str, list[Row]]:
    """Return everything that `reindex` must give back."""
    return {table: dump(db, table) for table in TABLES}
