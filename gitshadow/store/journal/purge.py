"""Purging in the journal: contents that rows name are replaced, and texts in its columns.

Names (ids, paths, keys) stay, because rows refer to each other by them. A note exists from before
the first change until after the last, so a purge that a crash interrupted is repeated.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from gitshadow.errors import JournalError
from gitshadow.model import Oid, RepoPath
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.db_file import connect
from gitshadow.store.journal.prune import chain_anew, unlocked
from gitshadow.store.purge import Gone, holds, without

UNDER_WAY = "purging"
_GONE = "purged"
_COMMITS = (
    ("events", "commit_oid"),
    ("ops", "commit_oid"),
    ("pins", "commit_oid"),
    ("chains", "tip"),
)
# Where rows name contents: the table, its key, the path (none: any), and the column.
_CONTENTS = (
    ("events", "seq", "path", "before_oid"),
    ("events", "seq", "path", "after_oid"),
    ("op_steps", "op, idx", "path", "before_oid"),
    ("op_steps", "op, idx", "path", "after_oid"),
    ("saga_artifacts", "session, name, version", "NULL", "oid"),
)
# Rows refer to each other by these. A replaced part of an id cut rows off their chain once.
_NAMES = frozenset(
    (
        "id",
        "key",
        "session",
        "chain",
        "native_id",
        "parent",
        "worktree",
        "ref",
        "path",
        "old_path",
        "turn",
        "call",
        "op",
        "burst",
        "name",
        "temp",
        "digest",
    )
)
_HELD = "SELECT session, id FROM saga_calls WHERE outcome = 'held' AND is_held(intent)"
# An inverse whose arguments were replaced would do something else than reverse its call.
_OUTSIDE = (
    "UPDATE saga_calls SET undo = 'kept', error = 'purged'"
    " WHERE undo IN ('planned', 'failed', 'in_doubt') AND is_held(inverse)"
)
_KEPT = (
    "SELECT COUNT(*) FROM saga_calls"
    " WHERE undo IN ('planned', 'failed', 'in_doubt') AND is_held(inverse)"
)
# The label of a turn, as the turn, its event and its line in the log have it.
_LABELS = (
    "UPDATE saga_turns SET label = ''",
    "UPDATE saga_events SET text = '' WHERE author = 'system' AND kind = 'turn'",
    "UPDATE saga_log SET body = json_set(body, '$.label', '') WHERE kind = 'turn_begun'",
)
_CHUNK = 1 << 20


class TextCounts(NamedTuple):
    """How many values contain the texts.

    `rows` has `<table>.<column>` and how many; `names` the same for names, which stay; `effects`
    counts calls of agent programs that cannot be undone without them.
    """

    rows: tuple[tuple[str, int], ...] = ()
    names: tuple[tuple[str, int], ...] = ()
    effects: int = 0


def begin(db: Db, gone: Gone, salt: bytes) -> None:
    """Note what is being purged, but for parents; call it inside `db.write()`."""
    document = {
        "paths": [path.hex() for path in gone.paths],
        "blobs": sorted(gone.blobs),
        "messages": {oid: text.hex() for oid, text in gone.messages.items()},
        "salt": salt.hex(),
    }
    meta.put(db, UNDER_WAY, json.dumps(document))


def under_way(db: Db) -> tuple[Gone, bytes] | None:
    """Return what a purge that did not end was to take, and its salt; None where there is none."""
    text = meta.get(db, UNDER_WAY)
    if text is None:
        return None
    noted = json.loads(text)
    messages = noted.get("messages", {})
    gone = Gone(
        tuple(RepoPath(bytes.fromhex(path)) for path in noted["paths"]),
        frozenset(Oid(oid) for oid in noted.get("blobs", ())),
        {Oid(oid): bytes.fromhex(message) for oid, message in messages.items()},
    )
    return gone, bytes.fromhex(noted["salt"])


def end(db: Db) -> None:
    """Note that it is done; call it inside `db.write()`."""
    db.run("DELETE FROM meta WHERE key = ?", (UNDER_WAY,))


def awaited(db: Db) -> list[Oid]:
    """Return the contents that were purged and may still be somewhere, sorted."""
    return [Oid(oid) for oid in json.loads(meta.get(db, _GONE) or "[]")]


def await_gone(db: Db, oids: Sequence[Oid]) -> None:
    """Remember contents until they are found nowhere; call it inside `db.write()`."""
    meta.put(db, _GONE, json.dumps(sorted(oids)))


def names_of(db: Db, paths: Sequence[RepoPath]) -> list[RepoPath]:
    """Return paths and every name that the files there had before or got later, sorted."""
    found, new = set(paths), set(paths)
    renames = db.rows("SELECT path, old_path FROM events WHERE old_path IS NOT NULL")
    while new:
        new = {
            RepoPath(other)
            for pair in renames
            for one, other in (pair, pair[::-1])
            if any(one == name or one.startswith(name + b"/") for name in found)
        } - found
        found |= new
    return sorted(found)


def rename(db: Db, stands_for: Callable[[RepoPath | None, Oid], Oid | None]) -> None:
    """Replace the contents that rows name; call it inside `db.write()`."""
    for table, keys, path, column in _CONTENTS:
        named = (
            f"SELECT {keys}, {path}, {column} FROM {table} WHERE {column} IS NOT NULL"
        )
        where = " AND ".join(f"{key} = ?" for key in keys.split(", "))
        found = [
            (new, *row)
            for *row, at, oid in db.rows(named)
            if (new := stands_for(at, oid)) is not None
        ]
        db.run_many(f"UPDATE {table} SET {column} = ? WHERE {where}", found)
    # What is on the disk is not recorded again for as long as it stays as it is.
    states = [
        (bytes.fromhex(oid), new, worktree, path)
        for worktree, path, oid in db.rows("SELECT worktree, path, oid FROM file_state")
        if (new := stands_for(path, oid)) is not None
    ]
    sql = (
        "UPDATE file_state SET digest = COALESCE(digest, ?), oid = ?"
        " WHERE worktree = ? AND path = ?"
    )
    db.run_many(sql, states)


def rename_commits(db: Db, commits: Mapping[Oid, Oid]) -> None:
    """Replace the commits that rows name; call it inside `db.write()`."""
    # No index leads from a commit to its rows, so one UPDATE per commit would read the whole table
    # each time. The join reads it once.
    db.run("CREATE TEMP TABLE moved (old TEXT PRIMARY KEY, new TEXT) WITHOUT ROWID")
    db.run_many("INSERT INTO moved VALUES (?, ?)", list(commits.items()))
    for table, column in _COMMITS:
        db.run(
            f"UPDATE {table} SET {column} = (SELECT new FROM moved WHERE old = {column})"
            f" WHERE {column} IN (SELECT old FROM moved)"
        )
    db.run("DROP TABLE moved")
    # Snapshots name commits and contain lines; they are only a cache.
    db.run("DELETE FROM blame_states")


def rename_trees(db: Db, tree_of: Callable[[Oid], Oid]) -> None:
    """Replace the trees of chains and worktrees; call it inside `db.write()`."""
    for table, key in (("chains", "ref"), ("worktrees", "id")):
        rows = db.rows(f"SELECT {key}, tree FROM {table} WHERE tree IS NOT NULL")
        values = [(tree_of(tree), name) for name, tree in rows]
        db.run_many(f"UPDATE {table} SET tree = ? WHERE {key} = ?", values)


def find_texts(db: Db, forms: Sequence[bytes]) -> TextCounts:
    """Count the values that contain any form of the texts; change nothing."""
    _teach(db, forms)
    rows: list[tuple[str, int]] = []
    names: list[tuple[str, int]] = []
    for table, column in _columns(db):
        count = db.number(f"SELECT COUNT(*) FROM {table} WHERE is_held({column})")
        if count:
            (names if column in _NAMES else rows).append((f"{table}.{column}", count))
    return TextCounts(tuple(rows), tuple(names), db.number(_KEPT))


def unsent(db: Db, forms: Sequence[bytes]) -> list[tuple[str, str]]:
    """Return the sessions and ids of calls that wait to be sent and contain one of the texts."""
    _teach(db, forms)
    return [(str(session), str(call)) for session, call in db.rows(_HELD)]


def clear_texts(db: Db, forms: Sequence[bytes], found: TextCounts) -> None:
    """Replace the texts by the mark where they were found; call it inside `db.write()`."""
    db.run("DELETE FROM blame_states")
    if not found.rows:
        return
    _teach(db, forms)
    db.run(_OUTSIDE)
    with unlocked(db):
        for place, _ in found.rows:
            table, column = place.split(".")
            db.run(
                f"UPDATE {table} SET {column} = cleared({column}) WHERE is_held({column})"
            )
        chain_anew(db)


def count_prompts(db: Db) -> int:
    """Return how many prompts are stored, and labels that programs gave to other turns."""
    return db.number("SELECT COUNT(*) FROM turns WHERE prompt IS NOT NULL") + db.number(
        "SELECT COUNT(*) FROM saga_turns AS told WHERE label <> '' AND NOT EXISTS ("
        "SELECT 1 FROM turns JOIN sessions ON sessions.id = turns.session"
        " WHERE sessions.native_id = told.session AND turns.id = told.id"
        " AND prompt IS NOT NULL)"
    )


def clear_prompts(db: Db) -> None:
    """Delete every prompt; call it inside `db.write()`. Only `squeeze` removes the bytes."""
    db.run("UPDATE turns SET prompt = NULL WHERE prompt IS NOT NULL")
    if db.number("SELECT COUNT(*) FROM saga_turns WHERE label <> ''"):
        with unlocked(db):
            for sql in _LABELS:
                db.run(sql)
            chain_anew(db)


def squeeze(db: Db) -> None:
    """Rewrite the file, so that no page, used or free, has what was replaced or deleted.

    Raises:
        JournalError: another process reads or writes it, or there is no room for a second one.
    """
    # SQLite leaves old bytes in free pages and in the log. VACUUM rewrites every page, and
    # folding before and after it empties the log (https://sqlite.org/lang_vacuum.html).
    db.fold()
    # VACUUM copies the whole journal, which may be larger than the memory.
    db.run("PRAGMA temp_store = FILE")
    db.run("VACUUM")
    db.run("PRAGMA temp_store = MEMORY")
    db.fold()


def in_bytes(path: str, forms: Sequence[bytes]) -> bool:
    """Return whether the bytes of a file contain any form; a missing file contains none."""
    overlap = max(map(len, forms), default=1) - 1
    with suppress(FileNotFoundError), open(path, "rb") as handle:
        tail = b""
        while chunk := handle.read(_CHUNK):
            if holds(tail + chunk, forms):
                return True
            # A text may begin in one chunk and end in the next.
            tail = (tail + chunk)[-overlap:] if overlap else b""
    return False


def in_copy(path: str, forms: Sequence[bytes]) -> bool:
    """Return whether a journal that was set aside contains any form, as far as it is readable."""
    # The bytes are searched first, because free pages have old values too.
    if in_bytes(path, forms) or in_bytes(path + "-wal", forms):
        return True
    try:
        copy = connect(path, read_only=True)
    except JournalError:
        return False
    try:
        tables = copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return any(_in_table(copy, name, forms) for (name,) in tables.fetchall())
    except sqlite3.Error:
        return False
    finally:
        copy.close()


def _in_table(copy: sqlite3.Connection, table: str, forms: Sequence[bytes]) -> bool:
    """Search values, because one longer than a page is in several pieces of the file."""
    try:
        rows = copy.execute(f'SELECT * FROM "{table}"')
        return any(_is_held(value, forms) for row in rows for value in row)
    except sqlite3.Error:
        return False


def _columns(db: Db) -> list[tuple[str, str]]:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
    info = "SELECT name, type FROM pragma_table_info(?)"
    return [
        (str(table), str(column))
        for (table,) in db.rows(sql)
        for column, kind in db.rows(info, (table,))
        if kind in ("TEXT", "BLOB")
    ]


def _teach(db: Db, forms: Sequence[bytes]) -> None:
    """Define the SQL functions that find a text in a value and replace it."""
    db.define("is_held", lambda value: _is_held(value, forms))
    db.define("cleared", lambda value: _cleared(value, forms))


def _is_held(value: object, forms: Sequence[bytes]) -> bool:
    if isinstance(value, str):
        return holds(value.encode("utf-8", "surrogatepass"), forms)
    return isinstance(value, bytes) and holds(value, forms)


def _cleared(value: str | bytes | int | None, forms: Sequence[bytes]) -> str | bytes:
    if isinstance(value, str):
        return without(value.encode(), forms).decode("utf-8", "replace")
    return without(value, forms) if isinstance(value, bytes) else b""
