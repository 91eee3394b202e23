"""What a shell offers for a word that is being typed: ids by their beginning, paths step by step.

It runs at the press of a key, so each query is bounded by an index or by a table of few rows,
whatever the size of the history, and nothing but SQLite is loaded.
"""

from collections.abc import Iterator
from typing import NamedTuple

from gitshadow.store.journal.db import Db

_LAST = "\U0010ffff"
_MOST_NAMES = 500
_MOST_SORTED = 2000
_AFTER_SLASH = b"0"  # the byte after `/`
# Where the ids of each kind are: table, id, description, time, and what sorts them.
_SOURCES = {
    "session": ("sessions", "id", "coalesce(agent, actor)", "started_ns", "started_ns"),
    "turn": ("turns", "id", "prompt", "started_ns", "started_ns"),
    "call": ("calls", "id", "tool", "opened_ns", "closed_ns"),
    "burst": ("bursts", "id", "session", "started_ns", "last_seq"),
    "op": ("ops", "id", "kind", "ts_ns", "ts_ns"),
    "pin": ("pins", "name", "NULL", "ts_ns", "ts_ns"),
    "program": ("saga_turns", "session", "agent", "max(started_ns)", "started_ns"),
    "program turn": ("saga_turns", "id", "label", "started_ns", "started_ns"),
    "program call": ("saga_calls", "id", "tool", "started_ns", "started_ns"),
}


class Offer(NamedTuple):
    """One id with its description and time."""

    value: str
    note: str | None
    ts_ns: int


def ids(db: Db, kind: str, prefix: str, most: int) -> list[Offer]:
    """Return the newest ids of a kind that begin with a text, newest first.

    Where thousands begin so, they are the newest of those that come first by the alphabet.

    Args:
        db: The journal.
        kind: One of `session`, `turn`, `call`, `burst`, `op`, `pin`, and of an agent
            program's `program`, `program turn`, `program call`.
        prefix: May be empty.
        most: How many at most.
    """
    table, name, note, when, order = _SOURCES[kind]
    values: tuple[str | int, ...] = (most,)
    if prefix:
        # With 300,000 calls, those that begin alike took 200 ms to sort. The first two thousand by
        # the alphabet are enough to choose from.
        bounds = f"{name} >= ? AND {name} < ? LIMIT {_MOST_SORTED}"
        table = f"(SELECT * FROM {table} WHERE {bounds})"
        values = (prefix, prefix + _LAST, most)
    sql = f"SELECT {name}, {note}, {when} FROM {table}"
    if kind == "program":
        sql += f" GROUP BY {name}"
    rows = db.rows(f"{sql} ORDER BY {order} DESC LIMIT ?", values)
    return [Offer(*row) for row in rows]


def names_below(db: Db, worktree: str, prefix: bytes) -> list[bytes]:
    """Return what recorded paths have after a prefix up to the next `/`, which stays, sorted.

    Present files and those that were there once. A directory costs one look, however much is
    in it; there are never more than 500.

    Args:
        db: The journal.
        worktree: Whose present files.
        prefix: The beginning of a path relative to the worktree's top; may end in a name.
    """
    found = set(_steps(db, "events WHERE path >= ?", (), prefix))
    present = "file_state WHERE worktree = ? AND path >= ?"
    found |= set(_steps(db, present, (worktree,), prefix))
    return sorted(found)[:_MOST_NAMES]


def _steps(
    db: Db, source: str, values: tuple[str, ...], prefix: bytes
) -> Iterator[bytes]:
    top = prefix[: prefix.rfind(b"/") + 1]
    after = prefix
    # One search of the index per name: the next one begins behind everything in a directory that
    # was found, so a directory costs the same whatever is in it.
    for _ in range(_MOST_NAMES):
        row = db.row(
            f"SELECT path FROM {source} ORDER BY path LIMIT 1", (*values, after)
        )
        if row is None or not row[0].startswith(prefix):
            return
        name, slash, _below = row[0][len(top) :].partition(b"/")
        yield name + slash
        after = top + name + (_AFTER_SLASH if slash else b"\0")
