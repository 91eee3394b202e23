"""Events in the journal: stored, filtered, followed through renames."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from gitshadow.model import (
    Actor,
    Attribution,
    Baseline,
    Confidence,
    Event,
    EventKind,
    FileVersion,
    Gap,
    HeadChange,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.store.journal import events
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.event_rows import RARE
from gitshadow.store.journal.events import EventFilter

WHO = Attribution(
    actor=Actor.AGENT,
    session="s1",
    agent="codex",
    turn="t1",
    call="c1",
    tool="Edit",
    confidence=Confidence.AMBIGUOUS,
    reason="two windows",
    candidates=("s1", "s2"),
)


COMMIT = Oid("c" * 40)


def version(number: int, mode: int = 0o100644) -> FileVersion:
    return FileVersion(Oid(f"{number:040x}"), mode)


def event(seq: int, path: bytes | None, **fields: object) -> Event:
    """Return a row of `path` that leaves version `seq`."""
    kind = fields.pop("kind", EventKind.MODIFY)
    if kind is EventKind.GAP:
        at = None if path is None else RepoPath(path)
        return Gap(seq=seq, ts_ns=seq * 1000, worktree="main", note=None, path=at)
    made = Baseline(seq, seq * 1000, "main", WHO, COMMIT)
    if kind is EventKind.BASELINE:
        return made
    if kind is EventKind.HEAD:
        return HeadChange(*made)
    assert path is not None
    change = PathChange(
        *made[:3],
        kind=EventKind(str(kind)),
        path=RepoPath(path),
        attribution=WHO,
        commit=COMMIT,
        after=version(seq),
    )
    return change._replace(**fields)  # type: ignore[arg-type]


def store(db: Db, *rows: Event) -> None:
    with db.write():
        events.insert(db, rows)


def seqs(db: Db, **fields: object) -> list[int]:
    wanted = EventFilter(**fields)  # type: ignore[arg-type]
    return [row.seq for row in events.rows(db, wanted)]


def test_get_gives_back_every_field(db: Db) -> None:
    full = event(
        7,
        b"\xff\n",
        kind=EventKind.RENAME,
        old_path=RepoPath(b"old"),
        before=version(6, 0o120000),
        burst="b-1",
        commit=Oid("1" * 40),
        op="op-1",
        offline=True,
        switched=True,
    )
    gap = Gap(seq=8, ts_ns=1, worktree="w", note="too large")
    store(db, full, gap)
    assert events.get(db, 7) == full
    assert events.get(db, 8) == gap
    assert events.get(db, 9) is None


def test_insert_leaves_a_row_that_stands(db: Db) -> None:
    store(db, event(1, b"a"))
    store(db, event(1, b"b"), event(2, b"b"))
    assert [row.path for row in events.changes(db, EventFilter())] == [b"b", b"a"]


def test_insert_new_returns_what_did_not_stand(db: Db) -> None:
    store(db, event(2, b"a"))
    with db.write():
        rows = [event(1, b"b"), event(2, b"b"), event(3, b"c")]
        fresh = events.insert_new(db, events.path_changes(rows))
    assert [row.seq for row in fresh] == [1, 3]
    assert events.last_seq(db) == 3


def test_reserve_never_gives_a_number_twice(db: Db) -> None:
    assert events.reserve(db, 3) == 1
    assert events.reserve(db, 1) == 4
    store(db, event(90, b"a"))
    with db.write():
        events.raise_next(db, 0)
    assert events.reserve(db, 1) == 91
    with db.write():
        events.raise_next(db, 50)
    assert events.reserve(db, 1) == 92


def test_reserve_in_a_transaction_that_fails_gives_its_numbers_back(db: Db) -> None:
    def fail() -> None:
        with db.write():
            assert events.reserve(db, 5) == 1
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert events.reserve(db, 1) == 1


def test_counts_tell_changes_from_gaps_and_moves(db: Db) -> None:
    store(
        db,
        event(1, b"a"),
        event(2, None, kind=EventKind.HEAD),
        event(3, None, kind=EventKind.GAP),
        event(4, b"b", kind=EventKind.GAP),
        event(5, b"b", kind=EventKind.COVERAGE),
        event(6, None, kind=EventKind.BASELINE),
    )
    assert events.count(db) == 2
    assert events.count_gaps(db) == 2


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [8, 7, 6, 5, 4, 3, 2, 1]),
        ({"limit": 2}, [8, 7]),
        ({"before_seq": 3}, [2, 1]),
        ({"sessions": ["s2"]}, [4, 3]),
        ({"sessions": ["s1", "s2"], "limit": 3}, [7, 6, 5]),
        ({"sessions": []}, []),
        ({"agent": "cursor"}, [3]),
        ({"since_ns": 6000}, [8, 7, 6]),
        ({"until_ns": 2000}, [2, 1]),
        ({"since_ns": 2000, "until_ns": 3000}, [3, 2]),
        ({"paths": [RepoPath(b"d")]}, [7, 6, 2]),
        ({"paths": [RepoPath(b"d/x")]}, [7, 6]),
        ({"paths": [RepoPath(b"d")], "limit": 2}, [7, 6]),
        ({"paths": [RepoPath(b"d/x")], "limit": 9}, [7, 6]),
        ({"paths": [RepoPath(b"a")], "agent": "cursor", "limit": 1}, [3]),
        ({"paths": [RepoPath(b"")], "limit": 1}, [8]),
        ({"paths": [RepoPath(b"a"), RepoPath(b"d-e")]}, [5, 3, 1]),
        ({"paths": [RepoPath(b"")]}, [8, 7, 6, 5, 4, 3, 2, 1]),
        ({"paths": []}, []),
        ({"kinds": [EventKind.GAP]}, [8]),
        ({"kinds": [EventKind.MODIFY, EventKind.GAP], "limit": 2}, [8, 6]),
        ({"worktree": "linked"}, [5]),
        ({"sessions": ["s2"], "turn": "t2"}, [4]),
        ({"call": "c9"}, [6]),
        ({"burst": "b-1"}, [2, 1]),
        ({"op": "op-1"}, [7]),
    ],
)
def test_rows_gives_what_fits_newest_first(
    db: Db, fields: dict[str, object], expected: list[int]
) -> None:
    other = replace(WHO, session="s2", agent="cursor")
    store(
        db,
        event(1, b"a", burst="b-1"),
        event(2, b"d", burst="b-1"),
        event(3, b"a", attribution=other),
        event(4, b"c", attribution=replace(other, agent="codex", turn="t2")),
        event(5, b"d-e", worktree="linked"),
        event(6, b"d/x", attribution=replace(WHO, call="c9")),
        event(7, b"e", kind=EventKind.RENAME, old_path=RepoPath(b"d/x"), op="op-1"),
        event(8, b"f", kind=EventKind.GAP),
    )
    assert seqs(db, **fields) == expected


def test_newest_rows_of_a_path_do_not_cost_its_whole_history(db: Db) -> None:
    """LAW-08 for `log -n 50`: what SQLite does does not grow with what lies before."""
    costs: list[int] = []
    for first in (1, 1001):
        store(db, *(event(first + number, b"a") for number in range(1000)))
        steps: list[None] = []
        with closing(sqlite3.connect(db.path)) as connection:
            connection.set_progress_handler(partial(steps.append, None), 10)
            newest = EventFilter(paths=[RepoPath(b"a")], limit=5)
            found = events.rows(Db(connection, db.path), newest)
        assert [row.seq - first for row in found] == [999, 998, 997, 996, 995]
        costs.append(len(steps))
    assert 0 < costs[1] < costs[0] * 1.2


def test_history_follows_renames_both_ways(db: Db) -> None:
    store(
        db,
        event(1, b"a"),
        event(2, b"other"),
        event(3, b"b", kind=EventKind.RENAME, old_path=RepoPath(b"a")),
        event(4, b"a", kind=EventKind.CREATE),
        event(5, b"c", kind=EventKind.RENAME, old_path=RepoPath(b"b")),
        event(6, b"c", worktree="linked"),
        event(7, b"c", kind=EventKind.GAP),
    )
    for path in (b"a", b"b", b"c"):
        found = events.history(db, "main", [RepoPath(path)], 0)
        assert [row.seq for row in found] == [1, 3, 4, 5]
    found = events.history(db, "main", [RepoPath(b"c")], 4)
    assert [row.seq for row in found] == [5]
    assert events.history(db, "main", [], 0) == []


def test_history_of_more_paths_than_one_query_takes(db: Db) -> None:
    store(db, *(event(n, b"%d" % n) for n in range(1, 1001)))
    found = events.history(db, "main", [RepoPath(b"%d" % n) for n in range(1, 1001)], 5)
    assert [row.seq for row in found] == list(range(5, 1001))


def plan(db: Db, sql: str) -> str:
    return " ".join(str(row[3]) for row in db.rows(f"EXPLAIN QUERY PLAN {sql}"))


def test_the_newest_rows_are_read_off_the_key(db: Db) -> None:
    """The budget of `log -n 50` of 1,000,000 events rests on these plans."""
    assert "TEMP B-TREE" not in plan(
        db, "SELECT * FROM events ORDER BY seq DESC LIMIT 5"
    )
    used = plan(db, f"SELECT 1 FROM events WHERE {RARE} AND kind = 'gap'")
    assert "events_rare" in used
