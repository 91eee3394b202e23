"""Turns and calls: the windows in which an agent may have written.

A window is `[opened_ns, closed_ns)` in the file system's clock.
"""

from collections.abc import Collection, Sequence
from functools import partial

from gitshadow.model import Call, RepoPath, ToolClass, Turn
from gitshadow.store.journal.db import Computed, Db, Table

_CHECKPOINT_KEPT_NS = 3_600_000_000_000
_TURNS = Table(
    "turns",
    Turn,
    computed={
        "number": Computed(
            "(SELECT number FROM short_ids AS named WHERE named.kind = 't'"
            " AND named.session = turns.session AND named.id = turns.id)"
        )
    },
    micro_ns="started_ns",
)
put_turn, get_turn = _TURNS.put, _TURNS.finder("session", "id")
turns_by_prefix = partial(_TURNS.by_prefix, order="ORDER BY started_ns")


def _paths(joined: str | None) -> tuple[RepoPath, ...]:
    paths = sorted(bytes.fromhex(one) for one in (joined or "").split(",") if one)
    return tuple(map(RepoPath, paths))


# With its paths a call is one row: a hook reads the same call three times, and a statement for the
# paths of each would double that. SQLite joins only text, so the bytes of a path come as hex.
SLACK_NS = 10_000_000
"""By how much a window is widened on both sides, as times of files are rounded."""
_CALLS = Table(
    "calls",
    Call,
    computed={
        "began_ns": Computed(
            "(SELECT began_ns FROM call_runs AS run"
            " WHERE run.session = calls.session AND run.call = calls.id)",
        ),
        "paths": Computed(
            "(SELECT group_concat(hex(path)) FROM call_paths AS named"
            " WHERE named.session = calls.session AND named.call = calls.id)",
            _paths,
        ),
    },
    micro_ns="opened_ns",
)
get_call = _CALLS.finder("session", "id")
calls_by_prefix = partial(_CALLS.by_prefix, order="ORDER BY opened_ns")


def open_turn_of(db: Db, session: str) -> Turn | None:
    """Return the newest turn of a session that has not ended, or None."""
    return _TURNS.get(
        db, "WHERE session = ? AND ended_ns IS NULL ORDER BY ordinal DESC", session
    )


def close_turn(db: Db, session: str, turn: str, ended_ns: int) -> None:
    """End a turn that is open; call it inside `db.write()`."""
    db.run(
        "UPDATE turns SET ended_ns = MAX(?, started_ns)"
        " WHERE session = ? AND id = ? AND ended_ns IS NULL",
        (ended_ns, session, turn),
    )


def open_at(db: Db, moment_ns: int) -> list[Turn]:
    """Return the turns that were open at a moment, oldest first."""
    return _TURNS.rows(
        db,
        # Nearly every turn has begun by then; the index on `ended_ns` finds the few open ones.
        "WHERE started_ns <= ?1 AND (ended_ns IS NULL OR ended_ns > ?1)"
        " ORDER BY started_ns, ordinal",
        moment_ns,
    )


def covering(db: Db, session: str, moment_ns: int) -> Turn | None:
    """Return the newest turn of a session that was open at a moment, or None."""
    return _TURNS.get(
        db,
        "WHERE session = ?1 AND started_ns <= ?2 AND (ended_ns IS NULL OR ended_ns > ?2)"
        " ORDER BY started_ns DESC, ordinal DESC LIMIT 1",
        session,
        moment_ns,
    )


def list_turns(db: Db, session: str | None = None) -> list[Turn]:
    """Return the turns of a session (None: of all), oldest first."""
    return _TURNS.rows(
        db, "WHERE ?1 IS NULL OR session = ?1 ORDER BY started_ns, ordinal", session
    )


def near(
    db: Db, session: str, turn: str | None, moment_ns: int | None = None
) -> list[Turn]:
    """Return the turn of an id, those of it with a number (`<id>~2`), and the one numbered last.

    `moment_ns` adds those that had not ended then, with all that began later. The order is that of
    `list_turns`, which reads ten thousand turns of a long session.
    """
    return _TURNS.rows(
        db,
        "WHERE session = ?1 AND id IN (SELECT ?2"
        " UNION SELECT id FROM turns WHERE session = ?1 AND id > ?2 || '~' AND id < ?2 || x'7f'"
        " UNION SELECT id FROM (SELECT id, MAX(ordinal) FROM turns WHERE session = ?1)"
        " UNION SELECT id FROM turns WHERE session = ?1 AND ?3 IS NOT NULL"
        " AND (ended_ns IS NULL OR ended_ns > ?3)) ORDER BY started_ns, ordinal",
        session,
        turn,
        moment_ns,
    )


def newest(db: Db, session: str, until_ns: int | None = None) -> Turn | None:
    """Return the turn of a session that began last, by a moment (None: at all), or None."""
    return _TURNS.get(
        db,
        "WHERE session = ?1 AND (?2 IS NULL OR started_ns <= ?2)"
        " ORDER BY started_ns DESC, ordinal DESC LIMIT 1",
        session,
        until_ns,
    )


def count(db: Db, session: str) -> int:
    """Return how many turns a session has."""
    return db.number("SELECT COUNT(*) FROM turns WHERE session = ?", (session,))


def without_changes(db: Db, since_ns: int = 0) -> list[Turn]:
    """Return the turns that began since and changed nothing recorded, oldest first.

    A subagent's turn, `<turn>/<child>`, is part of its parent's.
    """
    return _TURNS.rows(
        db,
        "WHERE started_ns >= ? AND instr(id, '/') = 0 AND (session, id) NOT IN"
        " (SELECT session, turn FROM bursts WHERE turn IS NOT NULL) AND id NOT IN"
        " (SELECT substr(turn, 1, instr(turn, '/') - 1) FROM bursts WHERE instr(turn, '/'))"
        " ORDER BY started_ns, ordinal",
        since_ns,
    )


def first_prompt(db: Db, session: str) -> str | None:
    """Return the first prompt of a session, None if it is not known."""
    row = db.row(
        "SELECT prompt FROM turns WHERE session = ? AND prompt IS NOT NULL"
        " ORDER BY ordinal LIMIT 1",
        (session,),
    )
    return None if row is None else str(row[0])


def open_call(db: Db, call: Call) -> None:
    """Store a call, new or changed, with the paths it names; call it inside `db.write()`."""
    _CALLS.put(db, call)
    db.run_many(
        "INSERT OR IGNORE INTO call_paths VALUES (?, ?, ?)",
        [(call.session, call.id, path) for path in call.paths],
    )
    if call.began_ns is not None:
        db.run(
            "INSERT OR REPLACE INTO call_runs VALUES (?, ?, ?)",
            (call.session, call.id, call.began_ns),
        )


def forget_begin(db: Db, call: Call) -> None:
    """Let the tool of a call run since the call's begin; call it inside `db.write()`."""
    db.run(
        "DELETE FROM call_runs WHERE session = ? AND call = ?", (call.session, call.id)
    )


def put_changed(db: Db, call: Call, paths: Collection[RepoPath]) -> None:
    """Store all paths that were different after a call; call it inside `db.write()`."""
    db.run_many(
        "INSERT OR IGNORE INTO call_changes VALUES (?, ?, ?)",
        [(call.session, call.id, path) for path in paths],
    )


def changed_paths(db: Db, call: Call) -> frozenset[RepoPath]:
    """Return all paths that were different after a call; none where that is not known."""
    sql = "SELECT path FROM call_changes WHERE session = ? AND call = ?"
    found = db.rows(sql, (call.session, call.id))
    return frozenset(RepoPath(path) for (path,) in found if isinstance(path, bytes))


def close_call(
    db: Db, session: str, call: str, closed_ns: int, outcome: str | None
) -> None:
    """Close a window that is open; call it inside `db.write()`."""
    db.run(
        "UPDATE calls SET closed_ns = MAX(?, opened_ns), outcome = ?"
        " WHERE session = ? AND id = ? AND closed_ns IS NULL",
        (closed_ns, outcome, session, call),
    )


def open_calls(db: Db, session: str) -> list[Call]:
    """Return the open windows of a session, oldest first."""
    return _CALLS.rows(
        db, "WHERE session = ? AND closed_ns IS NULL ORDER BY opened_ns", session
    )


def list_calls(db: Db, session: str) -> list[Call]:
    """Return the calls of a session, oldest first."""
    return _CALLS.rows(db, "WHERE session = ? ORDER BY opened_ns", session)


def has_called(db: Db, session: str, kind: ToolClass) -> bool:
    """Return whether a session has called any tool of a class."""
    sql = "SELECT 1 FROM calls WHERE session = ? AND tool_class = ? LIMIT 1"
    return db.row(sql, (session, kind.value)) is not None


def newest_ended_calls(db: Db, session: str, limit: int) -> list[Call]:
    """Return the newest calls of a session that have ended, newest first."""
    return _CALLS.rows(
        db,
        "WHERE session = ? AND closed_ns IS NOT NULL ORDER BY opened_ns DESC, id DESC"
        " LIMIT ?",
        session,
        limit,
    )


def tool_counts(db: Db, session: str) -> list[tuple[str, str, int]]:
    """Return how often each turn of a session called each tool; no turn is empty text."""
    rows = db.rows(
        "SELECT COALESCE(turn, ''), tool, COUNT(*) FROM calls WHERE session = ?"
        " GROUP BY turn, tool ORDER BY 1, 2",
        (session,),
    )
    return [(str(turn), str(tool), int(count)) for turn, tool, count in rows]


def windows_between(
    db: Db, begin_ns: int, end_ns: int, slack_ns: int = SLACK_NS
) -> list[Call]:
    """Return every call whose window meets a closed interval, with its paths, oldest first."""
    # Widened on both sides by the clock's tolerance, so that no window is missed whose stamp was
    # rounded. The ladder compares each one exactly, with the tolerance of this file system.
    # In this form both halves of the OR use the index on `closed_ns`; COALESCE would scan.
    return _CALLS.rows(
        db,
        "WHERE (closed_ns IS NULL OR closed_ns >= ?) AND opened_ns <= ?"
        " ORDER BY opened_ns, id",
        begin_ns - slack_ns,
        end_ns + slack_ns,
    )


def closed_as(db: Db, session: str, outcome: str) -> list[Call]:
    """Return the calls of a session that were closed with one outcome, with their paths."""
    return _CALLS.rows(db, "WHERE session = ? AND outcome = ?", session, outcome)


def put_checkpoint(
    db: Db, worktree: str, paths: Sequence[RepoPath], ts_ns: int
) -> None:
    """Store that paths were recorded before somebody writes; call it inside `db.write()`."""
    # Only the report of an edit that ended just now asks for a checkpoint, so the table stays small
    # if each new one drops what is older than an hour.
    db.run("DELETE FROM checkpoints WHERE ts_ns < ?", (ts_ns - _CHECKPOINT_KEPT_NS,))
    db.run_many(
        "INSERT OR IGNORE INTO checkpoints VALUES (?, ?, ?)",
        [(worktree, path, ts_ns) for path in paths],
    )


def checkpoint_before(
    db: Db, worktree: str, paths: Sequence[RepoPath], until_ns: int
) -> int:
    """Return when one of some paths was last recorded before a write; 0 for not lately."""
    sql = "SELECT MAX(ts_ns) FROM checkpoints WHERE worktree = ? AND path = ? AND ts_ns <= ?"
    found = (db.number(sql, (worktree, path, until_ns)) for path in paths)
    return max(found, default=0)
