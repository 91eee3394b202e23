"""What Git switched is read from trees: the questions to a journal that include it."""

from collections.abc import Mapping, Sequence

import pytest

from gitshadow.model import (
    GITLINK_MODE,
    TREE_MODE,
    Actor,
    Attribution,
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
from gitshadow.store.journal import events, switches
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.trees import Ends, Entry, TreeChange

A, B, C, D = (RepoPath(name) for name in (b"a", b"b", b"c", b"d"))
INSIDE = RepoPath(b"d/x")
WHO = Attribution(
    actor=Actor.HUMAN,
    session="human-1",
    confidence=Confidence.CERTAIN,
    reason="the test says so",
)


def blob(digit: str, mode: int = 0o100644) -> Entry:
    return mode, Oid(digit * 40)


def commit(number: int) -> Oid:
    return Oid(f"{number:040x}")


class Moves:
    """Moves of HEAD by their commits, as trees would say it; counts what is asked."""

    def __init__(self, moves: Mapping[int, Mapping[RepoPath, Ends]]) -> None:
        self.moves = {commit(number): changes for number, changes in moves.items()}
        self.asked: list[Oid] = []

    def ends(self, commit: Oid, path: RepoPath) -> Ends:
        self.asked.append(commit)
        below = any(one.startswith(path + b"/") for one in self.moves[commit])
        inside = (TREE_MODE, Oid("0" * 40)), (TREE_MODE, Oid("1" * 40))
        return self.moves[commit].get(path, inside if below else (None, None))

    def changes(self, commit: Oid) -> Sequence[TreeChange]:
        self.asked.append(commit)
        return [TreeChange(path, *ends) for path, ends in self.moves[commit].items()]


def write(seq: int, path: RepoPath, content: str, **fields: object) -> PathChange:
    after = FileVersion(Oid(content * 40), 0o100644)
    kind = EventKind.MODIFY
    made = PathChange(
        seq, seq * 1000, "main", kind, path, WHO, commit(seq), None, None, after
    )
    return made._replace(**fields)  # type: ignore[arg-type]


def move(seq: int, files: int) -> HeadChange:
    return HeadChange(seq, seq * 1000, "main", WHO, commit(seq), "moved", files)


MOVES: Mapping[int, Mapping[RepoPath, Ends]] = {
    2: {A: (blob("1"), blob("2")), B: (None, blob("3"))},
    5: {A: (blob("2"), blob("4")), INSIDE: (None, blob("5"))},
    8: {B: (blob("3"), None), C: ((GITLINK_MODE, Oid("8" * 40)), None)},
    9: {A: (blob("4"), blob("4", 0o100755))},
}
ROWS: Sequence[Event] = (
    write(1, A, "1"),
    move(2, 2),
    write(4, D, "d"),
    move(5, 2),
    Gap(6, 6000, "main", "lost"),
    write(7, C, "c"),
    move(8, 1),
    # Trees have no 0600, so the path has a row of its own.
    move(9, 1),
    write(
        10,
        A,
        "4",
        kind=EventKind.MODE,
        switched=True,
        commit=commit(9),
        before=FileVersion(Oid("4" * 40), 0o100600),
        after=FileVersion(Oid("4" * 40), 0o100755),
    ),
    HeadChange(11, 11_000, "main", WHO, commit(11), "a commit"),
)


@pytest.fixture
def moves() -> Moves:
    return Moves(MOVES)


@pytest.fixture
def db(moves: Moves) -> Db:
    made = Db.in_memory()
    with made.write():
        events.insert(made, ROWS)
    made.switched = moves
    return made


def places(found: Sequence[Event]) -> list[tuple[int, bytes | None]]:
    return [
        (row.seq, row.path if isinstance(row, PathChange) else None) for row in found
    ]


def test_moves_come_back_as_they_were_stored(db: Db) -> None:
    odd = move(20, 3)._replace(modes=(0o664, 0o775))
    with db.write():
        events.insert(db, [odd])
    assert events.get(db, 20) == odd
    assert [events.get(db, row.seq) for row in ROWS] == list(ROWS)


def test_history_has_what_git_switched_once(db: Db) -> None:
    assert places(events.history(db, None, (A,), 0)) == [
        (1, A),
        (2, A),
        (5, A),
        (10, A),
    ]
    found = events.history(db, "main", (A, B, INSIDE), 2)
    assert places(found) == [(2, A), (2, B), (5, A), (5, INSIDE), (8, B), (10, A)]
    assert [row.kind.value for row in found] == [
        *("modify", "create", "modify", "create"),
        *("delete", "mode"),
    ]
    assert all(row.switched and row.attribution == WHO for row in found)
    assert events.history(db, "elsewhere", (A,), 0) == []


def test_many_paths_are_compared_at_once(db: Db, moves: Moves) -> None:
    many = [RepoPath(b"%d" % number) for number in range(100)]
    assert places(events.history(db, None, (B, *many), 8)) == [(8, B)]
    assert len(moves.asked) == 2


def test_paths_list_the_moves_that_changed_them(db: Db) -> None:
    def rows(**fields: object) -> list[int]:
        wanted = EventFilter(**fields)  # type: ignore[arg-type]
        return [row.seq for row in events.rows(db, wanted)]

    assert rows(paths=(A,)) == [10, 9, 5, 2, 1]
    assert rows(paths=(A,), limit=2) == [10, 9]
    assert rows(paths=(A,), limit=3) == [10, 9, 5]
    assert rows(paths=(A,), after_seq=1, limit=2) == [5, 2]
    assert rows(paths=(A,), before_seq=9, limit=1) == [5]
    assert rows(paths=(D,)) == [5, 4]
    assert rows(paths=(C,)) == [7]
    assert rows(paths=(A,), kinds=(EventKind.MODIFY,)) == [1]
    assert rows(paths=(A,), kinds=(EventKind.HEAD,)) == [9, 5, 2]
    assert rows(paths=(A,), sessions=("another",)) == []
    assert rows(paths=(A,), burst="b-1") == []
    assert rows(paths=(RepoPath(b""),), limit=2) == [11, 10]


def test_moves_beyond_the_limit_are_not_read(db: Db, moves: Moves) -> None:
    assert events.rows(db, EventFilter(paths=(C,), limit=1))[0].seq == 7
    assert set(moves.asked) == {commit(8), commit(9)}


def test_changes_are_newest_first_with_what_git_switched(db: Db) -> None:
    assert places(events.changes(db, EventFilter())) == [
        *((10, A), (8, B), (7, C), (5, INSIDE), (5, A)),
        *((4, D), (2, B), (2, A), (1, A)),
    ]
    assert places(events.changes(db, EventFilter(paths=(D,)))) == [(5, INSIDE), (4, D)]
    created = EventFilter(kinds=(EventKind.CREATE,))
    assert places(events.changes(db, created)) == [(5, INSIDE), (2, B)]
    assert places(events.changes(db, EventFilter(paths=(B,), limit=1))) == [(8, B)]
    assert places(events.writes(db, EventFilter())) == [(7, C), (4, D), (1, A)]


def test_content_is_found_that_only_a_switch_brought(db: Db) -> None:
    two, three, none = Oid("2" * 40), Oid("3" * 40), Oid("f" * 40)
    assert events.commit_with(db, A, two) == commit(2)
    assert events.commit_with(db, A, Oid("1" * 40)) == commit(1)
    assert events.commit_with(db, A, none) is None
    found = events.newest_with(db, "main", B, three, 3000)
    assert found is not None
    assert (found.seq, found.kind) == (2, EventKind.CREATE)
    assert events.newest_with(db, "main", B, three, 1999) is None
    gone = events.newest_with(db, "main", B, None, 9000)
    assert gone is not None
    assert gone.seq == 8


def test_changes_are_found_by_number_and_path(db: Db) -> None:
    wanted = [(1, A), (2, A), (2, B), (5, B), (6, A), (99, A)]
    found = events.by_places(db, wanted)
    assert sorted(found) == [(1, A), (2, A), (2, B)]
    assert found[2, B].after == FileVersion(Oid("3" * 40), 0o100644)


def test_first_change_of_a_path_may_be_a_switch(db: Db) -> None:
    firsts = {path: events.first(db, (path,)) for path in (A, B, D, INSIDE)}
    assert {path: one and one.seq for path, one in firsts.items()} == {
        **{A: 1, B: 2},
        **{D: 4, INSIDE: 5},
    }
    assert events.first(db, (RepoPath(b"never"),)) is None


def test_number_for_snapshots_differs_after_another_switch(db: Db) -> None:
    assert events.is_named(db, (INSIDE,), 5)
    assert not events.is_named(db, (INSIDE,), 4)
    before = events.count_named(db, (A,), 12)
    with db.write():
        events.insert(db, [move(12, 1)])
    assert events.count_named(db, (A,), 12) == before + 1


def test_all_files_of_a_move_are_listed_with_rows_of_their_own(db: Db) -> None:
    heads = [row for row in ROWS if isinstance(row, HeadChange)]
    listed = [places(switches.all_of(db, head)) for head in heads]
    assert listed == [
        *([(2, A), (2, B)], [(5, A), (5, INSIDE)]),
        *([(8, B)], [(10, A)], []),
    ]


def test_nothing_was_switched_where_no_tree_can_be_read(db: Db) -> None:
    db.switched = None
    assert places(events.history(db, None, (A, B), 0)) == [(1, A), (10, A)]
    assert events.rows(db, EventFilter(paths=(B,))) == []
