"""Purging in the journal: rows come to name what stands for a content.

Invariant: a note stands from before the first change until after the last, so what a crash
interrupted is done again.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

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


class PendingPurge(NamedTuple):
    """Hold what a purge takes, as the journal keeps it until the purge has ended.

    `messages` has what commits are to say instead of what they say.
    """

    paths: tuple[RepoPath, ...]
    blobs: frozenset[Oid]
    messages: Mapping[Oid, bytes]
    salt: bytes


def begin(db: Db, noted: PendingPurge) -> None:
    """Note what is being purged; call it inside `db.write()`."""
    document = {
        "paths": [path.hex() for path in noted.paths],
        "blobs": sorted(noted.blobs),
        "messages": {oid: text.hex() for oid, text in noted.messages.items()},
        "salt": noted.salt.hex(),
    }
    meta.put(db, _UNDER_WAY, json.dumps(document))


def under_way(db: Db) -> PendingPurge | None:
    """Return what a purge that did not end was to take, None where there is none."""
    text = meta.get(db, _UNDER_WAY)
    if text is None:
        return None
    noted = json.loads(text)
    messages = noted.get("messages", {})
    return PendingPurge(
        tuple(RepoPath(bytes.fromhex(path)) for path in noted["paths"]),
        frozenset(Oid(oid) for oid in noted.get("blobs", ())),
        {Oid(oid): bytes.fromhex(message) for oid, message in messages.items()},
        bytes.fromhex(noted["salt"]),
    )


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


def rename(db: Db, stands_for: Callable[[RepoPath | None, Oid], Oid | None]) -> None:
    """Have rows name what stands for contents; call it inside `db.write()`."""
    for table, keys in _ROWS:
        for column in _OIDS:
            named = (
                f"SELECT {keys}, path, {column} FROM {table} WHERE {column} IS NOT NULL"
            )
            where = " AND ".join(f"{key} = ?" for key in keys.split(", "))
            found = [
                (new, *row)
                for *row, path, oid in db.rows(named)
                if (new := stands_for(path, oid)) is not None
            ]
            db.run_many(f"UPDATE {table} SET {column} = ? WHERE {where}", found)
    states = [
        (new, worktree, path)
        for worktree, path, oid in db.rows("SELECT worktree, path, oid FROM file_state")
        if (new := stands_for(path, oid)) is not None
    ]
    sql = "UPDATE file_state SET oid = ? WHERE worktree = ? AND path = ?"
    db.run_many(sql, states)
    kept = (
        "SELECT session, name, version, oid FROM saga_artifacts WHERE oid IS NOT NULL"
    )
    artifacts = [
        (new, *row)
        for *row, oid in db.rows(kept)
        if (new := stands_for(None, oid)) is not None
    ]
    sql = "UPDATE saga_artifacts SET oid = ? WHERE session = ? AND name = ? AND version = ?"
    db.run_many(sql, artifacts)


def rename_commits(db: Db, commits: Mapping[Oid, Oid]) -> None:
    """Have rows name what stands for commits; call it inside `db.write()`."""
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
