"""The tables of the journal, and whether a file fits them.

SQLite checks pages, not values. One flipped byte can give another time, a word that its enum does
not have, or bytes that are not text: `damaged_cell` reads each row once to find them. A journal
whose `PRAGMA user_version` is not `VERSION` is not used: `reindex` replaces an older one.
"""

import json
import re
import sqlite3
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from gitshadow.model import Actor, Confidence, EventKind, OpKind, OpStatus, ToolClass
from gitshadow.store.object_format import is_oid

VERSION = 17

# Paths are BLOB, because a name on Linux can be any bytes, and SQLite's TEXT must be UTF-8. Tables
# that are looked up by a text key are WITHOUT ROWID: the row is in the key's own tree, so a look
# needs one search instead of two (https://sqlite.org/withoutrowid.html). Partial indexes hold only
# the rows that a query asks for, so that an ordinary event pays for few of them.
#
# `blame_states` is derived from events. The triggers drop it in the transaction that changes an
# event, so no snapshot outlives the rows that it was computed from, whatever deletes them.
#
# The triggers of `short_ids` look for the row first: in a trigger, OR IGNORE would be overruled by
# the OR REPLACE of the statement that fires it (https://sqlite.org/lang_createtrigger.html), and a
# changed row would get a second number.
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('next_seq', '1');
CREATE TABLE worktrees (
    id TEXT PRIMARY KEY, path BLOB NOT NULL, tree TEXT, head TEXT, head_ref TEXT,
    walked_ns INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, native_id TEXT NOT NULL, actor TEXT NOT NULL, agent TEXT,
    parent TEXT, started_ns INTEGER NOT NULL, ended_ns INTEGER, end_reason TEXT,
    pid INTEGER, pid_started INTEGER, last_seen_ns INTEGER
) WITHOUT ROWID;
CREATE INDEX sessions_native ON sessions (native_id, agent);
CREATE TABLE chains (
    ref TEXT PRIMARY KEY, session TEXT NOT NULL, worktree TEXT NOT NULL,
    tip TEXT NOT NULL, tree TEXT NOT NULL, tip_seq INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX chains_session ON chains (session, worktree);
CREATE TABLE turns (
    session TEXT NOT NULL, id TEXT NOT NULL, ordinal INTEGER NOT NULL,
    started_ns INTEGER NOT NULL, ended_ns INTEGER, prompt TEXT, prompt_digest TEXT,
    PRIMARY KEY (session, id)
) WITHOUT ROWID;
CREATE INDEX turns_id ON turns (id);
CREATE INDEX turns_ended ON turns (ended_ns);
CREATE TRIGGER turns_numbered AFTER INSERT ON turns
    WHEN NOT EXISTS (SELECT 1 FROM short_ids WHERE kind = 't' AND session = NEW.session AND id = NEW.id)
    BEGIN INSERT INTO short_ids SELECT 't', COALESCE(MAX(number), 0) + 1, NEW.session, NEW.id FROM short_ids WHERE kind = 't'; END;
CREATE TABLE models (
    session TEXT NOT NULL, since_ns INTEGER NOT NULL, model TEXT NOT NULL,
    PRIMARY KEY (session, since_ns)
) WITHOUT ROWID;
CREATE TABLE calls (
    session TEXT NOT NULL, id TEXT NOT NULL, turn TEXT, tool TEXT NOT NULL,
    tool_class TEXT NOT NULL, opened_ns INTEGER NOT NULL, closed_ns INTEGER,
    outcome TEXT, pid INTEGER, pid_started INTEGER, worktree TEXT NOT NULL,
    PRIMARY KEY (session, id)
) WITHOUT ROWID;
CREATE INDEX calls_id ON calls (id);
CREATE INDEX calls_closed ON calls (closed_ns, opened_ns);
CREATE INDEX calls_open ON calls (session) WHERE closed_ns IS NULL;
CREATE TABLE call_paths (
    session TEXT NOT NULL, call TEXT NOT NULL, path BLOB NOT NULL,
    PRIMARY KEY (session, call, path)
) WITHOUT ROWID;
CREATE TABLE call_runs (
    session TEXT NOT NULL, call TEXT NOT NULL, began_ns INTEGER NOT NULL,
    PRIMARY KEY (session, call)
) WITHOUT ROWID;
CREATE TABLE call_changes (
    session TEXT NOT NULL, call TEXT NOT NULL, path BLOB NOT NULL,
    PRIMARY KEY (session, call, path)
) WITHOUT ROWID;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, ts_ns INTEGER NOT NULL, worktree TEXT NOT NULL,
    kind TEXT NOT NULL, path BLOB, old_path BLOB,
    before_oid TEXT, before_mode INTEGER, after_oid TEXT, after_mode INTEGER,
    actor TEXT, session TEXT, agent TEXT, turn TEXT, call TEXT, tool TEXT,
    confidence TEXT, reason TEXT, candidates TEXT,
    burst TEXT, commit_oid TEXT, op TEXT,
    offline INTEGER NOT NULL DEFAULT 0, switched INTEGER NOT NULL DEFAULT 0, note TEXT
, moved_in INTEGER NOT NULL DEFAULT 0, inexact INTEGER NOT NULL DEFAULT 0);
CREATE INDEX events_path ON events (path, seq);
CREATE INDEX events_old_path ON events (old_path, seq) WHERE old_path IS NOT NULL;
CREATE INDEX events_session ON events (session, seq);
CREATE INDEX events_burst ON events (burst) WHERE burst IS NOT NULL;
CREATE INDEX events_op ON events (op) WHERE op IS NOT NULL;
CREATE INDEX events_rare ON events (kind, seq) WHERE kind IN ('gap', 'head', 'baseline', 'coverage');
CREATE TRIGGER events_deleted AFTER DELETE ON events BEGIN DELETE FROM blame_states; END;
CREATE TRIGGER events_changed AFTER UPDATE ON events BEGIN DELETE FROM blame_states; END;
CREATE TABLE corrections (seq INTEGER PRIMARY KEY, chain TEXT NOT NULL);
CREATE INDEX corrections_chain ON corrections (chain);
CREATE TABLE checkpoints (
    worktree TEXT NOT NULL, path BLOB NOT NULL, ts_ns INTEGER NOT NULL,
    PRIMARY KEY (worktree, path, ts_ns)
) WITHOUT ROWID;
CREATE TABLE bursts (
    id TEXT PRIMARY KEY, session TEXT NOT NULL, worktree TEXT NOT NULL, turn TEXT,
    ordinal INTEGER NOT NULL, started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL,
    first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, open INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE INDEX bursts_session ON bursts (session, worktree, last_seq);
CREATE INDEX bursts_last ON bursts (last_seq);
CREATE TABLE ops (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, ts_ns INTEGER NOT NULL, worktree TEXT NOT NULL,
    session TEXT NOT NULL, target TEXT NOT NULL, undoes TEXT NOT NULL, status TEXT NOT NULL,
    token TEXT NOT NULL, commit_oid TEXT, report TEXT
) WITHOUT ROWID;
CREATE INDEX ops_ts ON ops (ts_ns);
CREATE TRIGGER ops_numbered AFTER INSERT ON ops
    WHEN NOT EXISTS (SELECT 1 FROM short_ids WHERE kind = 'u' AND session = '' AND id = NEW.id)
    BEGIN INSERT INTO short_ids SELECT 'u', COALESCE(MAX(number), 0) + 1, '', NEW.id FROM short_ids WHERE kind = 'u'; END;
CREATE TABLE op_steps (
    op TEXT NOT NULL, idx INTEGER NOT NULL, path BLOB NOT NULL,
    before_oid TEXT, before_mode INTEGER, after_oid TEXT, after_mode INTEGER,
    temp BLOB, done INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (op, idx)
) WITHOUT ROWID;
CREATE TABLE short_ids (
    kind TEXT NOT NULL, number INTEGER NOT NULL, session TEXT NOT NULL, id TEXT NOT NULL,
    PRIMARY KEY (kind, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX short_ids_named ON short_ids (kind, session, id);
CREATE TABLE pins (
    name TEXT PRIMARY KEY, ref TEXT NOT NULL, commit_oid TEXT NOT NULL,
    worktree TEXT NOT NULL, ts_ns INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE claims (
    source TEXT NOT NULL, commit_oid TEXT NOT NULL, path BLOB NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL,
    actor TEXT NOT NULL, agent TEXT, model TEXT, session TEXT,
    PRIMARY KEY (commit_oid, path, first, source)
) WITHOUT ROWID;
CREATE TABLE blame_states (
    worktree TEXT NOT NULL, path BLOB NOT NULL, seq INTEGER NOT NULL,
    made_by TEXT NOT NULL, heads TEXT NOT NULL, fed INTEGER NOT NULL, named INTEGER NOT NULL,
    names BLOB NOT NULL, committed TEXT NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (worktree, path, seq)
);
CREATE TABLE file_state (
    worktree TEXT NOT NULL, path BLOB NOT NULL, oid TEXT NOT NULL, mode INTEGER NOT NULL,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, seen_ns INTEGER NOT NULL,
    racy INTEGER NOT NULL DEFAULT 0, digest BLOB,
    PRIMARY KEY (worktree, path)
) WITHOUT ROWID;
CREATE INDEX file_state_inode ON file_state (inode);
CREATE TABLE touches (
    worktree TEXT NOT NULL, path BLOB NOT NULL, why TEXT NOT NULL, ts_ns INTEGER NOT NULL,
    session TEXT, turn TEXT, call TEXT
);
CREATE INDEX touches_ts ON touches (worktree, ts_ns);
CREATE TABLE excluded (
    worktree TEXT NOT NULL, path BLOB NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
    PRIMARY KEY (worktree, path)
) WITHOUT ROWID;
CREATE TABLE saga_turns (
    session TEXT NOT NULL, id TEXT NOT NULL, ordinal INTEGER NOT NULL, label TEXT NOT NULL,
    agent TEXT, status TEXT NOT NULL, cause TEXT, started_ns INTEGER NOT NULL, ended_ns INTEGER,
    owner TEXT NOT NULL, lease_ns INTEGER,
    PRIMARY KEY (session, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX saga_turns_ordinal ON saga_turns (session, ordinal);
CREATE TABLE saga_calls (
    session TEXT NOT NULL, turn TEXT NOT NULL, id TEXT NOT NULL, ordinal INTEGER NOT NULL,
    tool TEXT NOT NULL, class TEXT NOT NULL, description TEXT NOT NULL, intent TEXT NOT NULL,
    started_ns INTEGER NOT NULL, ended_ns INTEGER, outcome TEXT, content TEXT,
    inverse TEXT, key TEXT NOT NULL, expires_ns INTEGER,
    undo TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, owner TEXT, lease_ns INTEGER,
    error TEXT, op TEXT,
    PRIMARY KEY (session, turn, id)
) WITHOUT ROWID;
CREATE INDEX saga_calls_id ON saga_calls (id);
CREATE INDEX saga_calls_unsettled ON saga_calls (session) WHERE undo IN ('running', 'failed', 'in_doubt');
CREATE INDEX saga_calls_closing ON saga_calls (expires_ns) WHERE expires_ns IS NOT NULL AND undo IN ('planned', 'failed');
CREATE TABLE saga_outbox (
    session TEXT NOT NULL, turn TEXT NOT NULL, call TEXT NOT NULL, state TEXT NOT NULL,
    due_ns INTEGER, attempts INTEGER NOT NULL DEFAULT 0, owner TEXT, lease_ns INTEGER, error TEXT,
    PRIMARY KEY (session, turn, call)
);
CREATE INDEX saga_outbox_open ON saga_outbox (session)
    WHERE state IN ('held', 'due', 'sending', 'failed', 'in_doubt');
CREATE TABLE saga_effects (
    session TEXT NOT NULL, digest TEXT NOT NULL, seq INTEGER NOT NULL, turn TEXT NOT NULL,
    call TEXT NOT NULL, PRIMARY KEY (session, digest, seq, turn, call)
) WITHOUT ROWID;
CREATE TABLE saga_ops (
    id TEXT PRIMARY KEY, session TEXT NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL,
    status TEXT NOT NULL, token TEXT NOT NULL,
    started_ns INTEGER NOT NULL, ended_ns INTEGER, request TEXT NOT NULL, report TEXT
);
CREATE INDEX saga_ops_session ON saga_ops (session);
CREATE TABLE saga_log (
    seq INTEGER PRIMARY KEY, session TEXT NOT NULL, turn TEXT, call TEXT, kind TEXT NOT NULL,
    ts_ns INTEGER NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL
);
CREATE INDEX saga_log_turn ON saga_log (session, turn, seq);
CREATE TRIGGER saga_log_no_update BEFORE UPDATE ON saga_log
    BEGIN SELECT RAISE(ABORT, 'the saga log is append-only'); END;
CREATE TRIGGER saga_log_no_delete BEFORE DELETE ON saga_log
    BEGIN SELECT RAISE(ABORT, 'the saga log is append-only'); END;
CREATE TABLE saga_events (
    session TEXT NOT NULL, seq INTEGER NOT NULL, invocation TEXT NOT NULL, author TEXT NOT NULL,
    kind TEXT NOT NULL, ts_ns INTEGER NOT NULL, text TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE INDEX saga_events_invocation ON saga_events (session, invocation, seq);
CREATE INDEX saga_events_markers ON saga_events (session, seq) WHERE kind = 'rewind';
CREATE TRIGGER saga_events_no_update BEFORE UPDATE ON saga_events
    BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER saga_events_no_delete BEFORE DELETE ON saga_events
    BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
CREATE TABLE saga_state (
    session TEXT NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL, value TEXT,
    PRIMARY KEY (session, key, seq)
) WITHOUT ROWID;
CREATE INDEX saga_state_seq ON saga_state (session, seq);
CREATE TABLE saga_artifacts (
    session TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, seq INTEGER NOT NULL,
    oid TEXT, PRIMARY KEY (session, name, version)
) WITHOUT ROWID;
CREATE INDEX saga_artifacts_seq ON saga_artifacts (session, seq);
"""
STATEMENTS = tuple(_SCHEMA.split(";\n")[:-1])
"""What creates a journal, one statement after the other.

SQLite stores the text of each CREATE, and `damaged_part` compares it: another space is another
schema, and needs another `VERSION`.
"""

_PARTS = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_Part = tuple[str, str, str, str | None]
Cell = str | bytes | int | float | None
_REF = re.compile(r"refs/agent-undo/[a-z0-9][a-z0-9/-]*")
_PAIR_OF_MODES = re.compile(r"[0-7]{4} [0-7]{4}")
_NUMBER = re.compile(r"[0-9]{1,18}")
# The last second of the year 9999: later times cannot be shown as a date.
_LATEST_NS = 253_402_300_799 * 1_000_000_000
_STORED = {"TEXT": str, "INTEGER": int, "BLOB": bytes}
_LIST_TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
    " ORDER BY name"
)
_STATS = frozenset({"file_state", "excluded"})
"""Tables with times of files, which can be any."""
_OIDS = frozenset(
    {"before_oid", "after_oid", "commit_oid", "oid", "tip", "tree", "head"}
)
_MODES = frozenset({"mode", "before_mode", "after_mode"})
_JSON = frozenset({"undoes", "report", "candidates", "outcome", "body", "request"})
"""Without those of a program's call: it stays in the journal and is reported as damaged."""
_WORDS: dict[tuple[str, str], type[StrEnum]] = {
    ("events", "kind"): EventKind,
    ("events", "actor"): Actor,
    ("events", "confidence"): Confidence,
    ("sessions", "actor"): Actor,
    ("claims", "actor"): Actor,
    ("calls", "tool_class"): ToolClass,
    ("ops", "kind"): OpKind,
    ("ops", "status"): OpStatus,
}


def damaged_part(connection: sqlite3.Connection) -> str | None:
    """Return the part of the schema that differs from `STATEMENTS`, or None.

    Additional parts are ignored: a user's own index, SQLite's statistics.

    Raises:
        sqlite3.Error: the schema could not be read.
    """
    there = set(connection.execute(_PARTS))
    for part in sorted(_made(), key=str):
        if part not in there:
            return f"{part[0]} {part[1]} was changed"
    return None


@cache
def _made() -> frozenset[_Part]:
    """Return the parts of the schema, as SQLite stores them."""
    connection = sqlite3.connect(":memory:")
    try:
        for statement in STATEMENTS:
            connection.execute(statement)
        return frozenset(connection.execute(_PARTS))
    finally:
        connection.close()


class Column(NamedTuple):
    """One column: its name, what it stores, and whether it may be NULL."""

    name: str
    stored: type
    nullable: bool


def damaged_cell(connection: sqlite3.Connection) -> str | None:
    """Return what is wrong with the first row that cannot be right, None for nothing.

    Raises:
        sqlite3.Error: a row could not be read.
    """
    for (name,) in connection.execute(_LIST_TABLES):
        known = columns(connection, name)
        for row in connection.execute(f'SELECT * FROM "{name}"'):
            wrong = wrong_cell(name, known, row)
            if wrong is not None:
                return f"{name}.{wrong} contains an invalid value"
    return None


def columns(connection: sqlite3.Connection, table: str) -> tuple[Column, ...]:
    """Return the columns of a table, in order."""
    rows = connection.execute(f'PRAGMA table_info("{table}")')
    return tuple(
        Column(str(name), _STORED.get(str(declared), object), not (required or key))
        for _, name, declared, required, _, key in rows
    )


def wrong_cell(table: str, known: Sequence[Column], row: Sequence[Cell]) -> str | None:
    """Return the column whose cell cannot be right, None for none."""
    if table == "meta":
        return None if _is_setting(*row) else "value"
    for column, cell in zip(known, row, strict=True):
        if cell is None and column.nullable:
            continue
        if not isinstance(cell, column.stored) or not _fits(table, column.name, cell):
            return column.name
    return None


def _fits(table: str, name: str, cell: Cell) -> bool:
    if isinstance(cell, int):
        is_time = name.endswith("_ns") and table not in _STATS
        return (not is_time or 0 <= cell <= _LATEST_NS) and (
            name not in _MODES or 0 < cell < 1 << 20
        )
    if not isinstance(cell, str):
        return True
    if not _is_text(cell):
        return False
    if name in _OIDS:
        return is_oid(cell)
    if name == "ref":
        return _REF.fullmatch(cell) is not None
    if (table, name) in _WORDS:
        return cell in _WORDS[table, name].__members__.values()
    return name not in _JSON or _is_json_or_plain(cell)


def _is_setting(key: Cell, value: Cell) -> bool:
    if not isinstance(key, str) or not isinstance(value, str):
        return False
    if key == "next_seq":
        return _NUMBER.fullmatch(value) is not None
    if key.startswith("modes:"):
        return _PAIR_OF_MODES.fullmatch(value) is not None
    return _is_text(key) and _is_text(value) and _is_json_or_plain(value)


def _is_text(text: str) -> bool:
    """Return whether a text is valid, also where its reader accepted invalid bytes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_json_or_plain(text: str) -> bool:
    """Return whether a text that looks like a list or an object is one."""
    if not text.startswith(("[", "{")) and not text.endswith(("]", "}")):
        return True
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
