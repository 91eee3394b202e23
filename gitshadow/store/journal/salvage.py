"""What a damaged or replaced journal still gives: rows that the refs do not hold.

Prompts, models, claims of others, gaps, turns and calls that wrote nothing, touches, liveness, ops
without a commit, the steps and reports of ops, and all about the turns of agent programs. The old
file is only read; a table that is broken half-way gives the rows before the break.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

from gitshadow.errors import JournalError
from gitshadow.store.journal import schema, short_ids
from gitshadow.store.journal.db import Db, Row
from gitshadow.store.journal.db_file import connect, refuse_newer
from gitshadow.store.journal.schema import VERSION

# Columns that later versions added have their defaults in a gap row, so older journals can be read.
_GAP_COLUMNS = (
    "seq, ts_ns, worktree, kind, path, old_path, before_oid, before_mode, after_oid,"
    " after_mode, actor, session, agent, turn, call, tool, confidence, reason, candidates,"
    " burst, commit_oid, op, offline, switched, note, 0, 0"
)

_TURN_COLUMNS = "session, id, ordinal, started_ns, ended_ns, prompt"

# Each query of the old journal, with the width of the table that its rows are inserted into. The
# refs know nothing of these rows; _DETAILS adds to rows that the refs have rebuilt.
_COPIES = (
    ("sessions", "SELECT * FROM sessions", 11),
    ("turns", f"SELECT {_TURN_COLUMNS}, NULL FROM turns", 7),
    ("calls", "SELECT * FROM calls", 11),
    ("call_paths", "SELECT * FROM call_paths", 3),
    ("call_runs", "SELECT * FROM call_runs", 3),
    ("call_changes", "SELECT * FROM call_changes", 3),
    ("touches", "SELECT * FROM touches", 7),
    ("events", f"SELECT {_GAP_COLUMNS} FROM events WHERE kind = 'gap'", 27),
    ("ops", "SELECT * FROM ops WHERE commit_oid IS NULL", 11),
    ("op_steps", "SELECT * FROM op_steps", 9),
    ("models", "SELECT * FROM models", 3),
    ("claims", "SELECT * FROM claims", 9),
    ("saga_turns", "SELECT * FROM saga_turns", 11),
    ("saga_calls", "SELECT * FROM saga_calls", 21),
    ("saga_ops", "SELECT * FROM saga_ops ORDER BY rowid", 10),
    ("saga_log", "SELECT * FROM saga_log ORDER BY seq", 8),
    ("saga_events", "SELECT * FROM saga_events", 8),
    ("saga_state", "SELECT * FROM saga_state", 4),
    ("saga_artifacts", "SELECT * FROM saga_artifacts", 5),
    ("saga_effects", "SELECT * FROM saga_effects", 5),
    ("saga_outbox", "SELECT * FROM saga_outbox ORDER BY rowid", 9),
    ("meta", "SELECT * FROM meta WHERE key <> 'next_seq'", 2),
)
_DETAILS = (
    (
        "sessions",
        "SELECT ended_ns, end_reason, pid, pid_started, last_seen_ns, id FROM sessions",
        "UPDATE OR IGNORE sessions SET ended_ns = ?, end_reason = ?, pid = ?, pid_started = ?,"
        " last_seen_ns = ? WHERE id = ?",
    ),
    (
        "turns",
        "SELECT ended_ns, prompt, session, id FROM turns",
        "UPDATE OR IGNORE turns SET ended_ns = ?, prompt = ? WHERE session = ? AND id = ?",
    ),
    (
        "calls",
        "SELECT closed_ns, outcome, pid, pid_started, session, id FROM calls",
        "UPDATE OR IGNORE calls SET closed_ns = ?, outcome = ?, pid = ?, pid_started = ?"
        " WHERE session = ? AND id = ?",
    ),
    (
        "bursts",
        "SELECT open, id FROM bursts",
        "UPDATE OR IGNORE bursts SET open = ? WHERE id = ?",
    ),
    # The next command finishes or rolls back an op that a crash interrupted: it needs the status.
    (
        "ops",
        "SELECT status, report, id FROM ops",
        "UPDATE OR IGNORE ops SET status = ?, report = ? WHERE id = ?",
    ),
)
_SHORT_IDS = "SELECT kind, number, session, id FROM short_ids"
_NEXT_SEQ = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'next_seq'"


@dataclass(slots=True)
class Salvaged:
    """How many rows were copied, and which tables were damaged.

    `next_seq` is the next sequence number as the old journal had it, 0 if it has none.
    """

    rows: int = 0
    next_seq: int = 0
    damaged: list[str] = field(default_factory=list)


def salvage(new: Db, old_path: str) -> Salvaged:
    """Copy what only the old journal holds; call it inside `new.write()`.

    Raises:
        JournalNewerError: the old one is of a newer version, so its rows cannot be understood.
        JournalError: the new one could not be written.
    """
    done = Salvaged()
    refuse_newer(old_path)
    try:
        old = connect(old_path, read_only=True)
    except JournalError:
        done.damaged.append("all")
        return done
    try:
        # Without this SQLite refuses a file that was cut short as a whole (btree.c, lockBtree).
        old.execute("PRAGMA writable_schema = ON")
        old.text_factory = _text
        for table, query, width in _COPIES:
            if _is_younger(old, table):
                continue
            marks = ", ".join("?" * width)
            sql = f"INSERT OR IGNORE INTO {table} VALUES ({marks})"
            for row in _rows(old, query, table, done):
                done.rows += new.run(sql, row)
        for table, query, sql in _DETAILS:
            for row in _rows(old, query, table, done):
                new.run(sql, row)
        for row in _rows(old, _NEXT_SEQ, "meta", done):
            done.next_seq = row[0] or 0
        if not _is_younger(old, "short_ids"):
            short_ids.keep(new, _rows(old, _SHORT_IDS, "short_ids", done))
    finally:
        old.close()
    # Its op may have been in a part of the table that could not be read.
    new.run("DELETE FROM op_steps WHERE op NOT IN (SELECT id FROM ops)")
    return done


def _is_younger(old: sqlite3.Connection, table: str) -> bool:
    """Return whether a journal of an older version is complete without a table."""
    try:
        version = old.execute("PRAGMA user_version").fetchone()[0]
        named = "SELECT 1 FROM sqlite_master WHERE name = ?"
        return version < VERSION and old.execute(named, (table,)).fetchone() is None
    except sqlite3.Error:
        return False


def _rows(
    old: sqlite3.Connection, query: str, table: str, done: Salvaged
) -> Iterator[Row]:
    """Yield the rows up to a break of the file, without those that cannot be right."""
    try:
        found = old.execute(query)
        known = {column.name: column for column in schema.columns(old, table)}
        asked = [known.get(name) for name, *_ in found.description]
        places = [at for at, column in enumerate(asked) if column is not None]
        stored = [column for column in asked if column is not None]
        for row in found:
            known_cells = [row[at] for at in places]
            if not stored or schema.wrong_cell(table, stored, known_cells) is None:
                yield row
            else:
                _note(table, done)
    except (sqlite3.Error, UnicodeError):
        _note(table, done)


def _note(table: str, done: Salvaged) -> None:
    if table not in done.damaged:
        done.damaged.append(table)


def _text(data: bytes) -> str:
    """Decode any bytes: one cell that is not text must not end the reading of its table."""
    return data.decode("utf-8", "surrogateescape")
