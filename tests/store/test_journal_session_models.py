"""Models of sessions: noted where they change, found by time."""

from gitshadow.store.journal import sessions
from gitshadow.store.journal.db import Db


def note(db: Db, *told: tuple[int, str]) -> None:
    with db.write():
        for at_ns, model in told:
            sessions.note_model(db, "s", at_ns, model)


def test_only_a_change_is_noted(db: Db) -> None:
    note(db, (1, "a"), (2, "a"), (5, "b"), (7, "b"), (9, "a"))
    assert sessions.models_of(db, "s") == [(1, "a"), (5, "b"), (9, "a")]


def test_model_is_the_last_one_named_before(db: Db) -> None:
    note(db, (3, "a"), (5, "b"))
    found = [sessions.model_at(db, "s", at_ns) for at_ns in (2, 3, 4, 5, 99)]
    assert found == [None, "a", "a", "b", "b"]
    assert sessions.model_at(db, "other", 9) is None


def test_late_word_changes_nothing_that_came_after(db: Db) -> None:
    note(db, (5, "b"), (3, "a"), (4, "a"))
    assert [sessions.model_at(db, "s", at_ns) for at_ns in (4, 5)] == ["a", "b"]


def test_endless_name_is_cut(db: Db) -> None:
    note(db, (1, "x" * 1_000_000))
    assert sessions.model_at(db, "s", 1) == "x" * 250
