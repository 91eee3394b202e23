"""Purging in the journal: rows come to name what stands for a content.

Invariant: a note stands from before the first change until after the last, so what a crash
interrupted is done again.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from gitshadow.model import Oid, RepoPath
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db

_UNDER_WAY = "purging"
_GONE = "purged"
_COMMITS = (
    ("events", "commit_oid"),
    ("ops", "commit_oid"),
    ("pins", "commit_oid"),
    ("chains", "tip"),
)
_ROWS = (("events", "seq"), ("op_steps", "op, idx"))
_OIDS = ("before_oid", "after_oid")


def begin(db: Db, paths: Sequence[RepoPath], salt: bytes) -> None:
    """Note what is being purged; call it inside `db.write()`."""
    noted = {"paths": [path.hex() for path in paths], "salt": salt.hex()}
    meta.put(db, _UNDER_WAY, json.dumps(noted))


def under_way(db: Db) -> tuple[list[RepoPath], bytes] | None:
    """Return the paths and the salt of a purge that did not end, or None."""
    text = meta.get(db, _UNDER_WAY)
    if text is None:
        return None
    noted = json.loads(text)
    paths = [RepoPath(bytes.fromhex(path)) for path in noted["paths"]]
    return paths, bytes.fromhex(noted["salt"])


def end(db: Db) -> None:
    """Note that it is done; call it inside `db.write()`."""
    db.run("DELETE FROM meta WHERE key = ?", (_UNDER_WAY,))


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


def rename(
    db: Db,
    covers: Callable[[RepoPath], bool],
    blobs: Mapping[Oid, Oid],
    commits: Mapping[Oid, Oid],
) -> None:
    """Have rows name what stands for contents of some paths; call it inside `db.write()`."""
    for table, keys in _ROWS:
        for column in _OIDS:
            named = (
                f"SELECT {keys}, path, {column} FROM {table} WHERE {column} IS NOT NULL"
            )
            where = " AND ".join(f"{key} = ?" for key in keys.split(", "))
            found = [
                (blobs[oid], *row)
                for *row, path, oid in db.rows(named)
                if oid in blobs and covers(path)
            ]
            db.run_many(f"UPDATE {table} SET {column} = ? WHERE {where}", found)
    states = [
        (blobs[oid], worktree, path)
        for worktree, path, oid in db.rows("SELECT worktree, path, oid FROM file_state")
        if oid in blobs and covers(path)
    ]
    sql = "UPDATE file_state SET oid = ? WHERE worktree = ? AND path = ?"
    db.run_many(sql, states)
    db.run("CREATE TEMP TABLE moved (old TEXT PRIMARY KEY, new TEXT) WITHOUT ROWID")
    db.run_many("INSERT INTO moved VALUES (?, ?)", list(commits.items()))
    for table, column in _COMMITS:
        db.run(
            f"UPDATE {table} SET {column} = (SELECT new FROM moved WHERE old = {column})"
            f" WHERE {column} IN (SELECT old FROM moved)"
        )
    db.run("DROP TABLE moved")
    db.run("DELETE FROM blame_states")


def rename_trees(db: Db, tree_of: Callable[[Oid], Oid]) -> None:
    """Have chains and worktrees name what stands for their trees; inside `db.write()`."""
    for table, key in (("chains", "ref"), ("worktrees", "id")):
        rows = db.rows(f"SELECT {key}, tree FROM {table} WHERE tree IS NOT NULL")
        values = [(tree_of(tree), name) for name, tree in rows]
        db.run_many(f"UPDATE {table} SET tree = ? WHERE {key} = ?", values)
