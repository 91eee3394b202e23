"""Ids and paths for a shell: newest first, and never a walk through the whole history."""

import pytest

from gitshadow.errors import JournalError
from gitshadow.store.journal import offers
from gitshadow.store.journal.db import Db


def put_bursts(db: Db, count: int) -> None:
    rows = [(f"b-{n:05}", "s", "main", None, n, n, n, n, n, 0) for n in range(count)]
    with db.write():
        db.run_many(f"INSERT INTO bursts VALUES ({', '.join('?' * 10)})", rows)


def test_newest_come_first(db: Db) -> None:
    put_bursts(db, 30)
    found = [offer.value for offer in offers.ids(db, "burst", "", 2)]
    assert found == ["b-00029", "b-00028"]
    begun = [offer.value for offer in offers.ids(db, "burst", "b-0000", 2)]
    assert begun == ["b-00009", "b-00008"]


def test_what_begins_alike_thousands_of_times_is_not_sorted_whole(db: Db) -> None:
    put_bursts(db, 3000)
    (first,) = offers.ids(db, "burst", "b-0", 1)
    assert first.value == "b-01999"


def test_directory_costs_one_look_however_much_is_in_it(db: Db) -> None:
    rows = [(f"big/{n}".encode(),) for n in range(2000)] + [(b"bigger",), (b"a",)]
    with db.write():
        db.run_many(
            "INSERT INTO events (ts_ns, worktree, kind, path) VALUES (1, 'main', 'create', ?)",
            rows,
        )
    assert offers.names_below(db, "main", b"b") == [b"big/", b"bigger"]
    assert offers.names_below(db, "main", b"big/199") == [
        *(b"199", b"1990", b"1991", b"1992", b"1993", b"1994"),
        *(b"1995", b"1996", b"1997", b"1998", b"1999"),
    ]


def test_journal_of_another_version_is_not_looked_at(db: Db) -> None:
    db.run("PRAGMA user_version = 1")
    db.close()
    with pytest.raises(JournalError, match="its version 1 is older"):
        Db.look(db.path)


def test_looking_changes_nothing(db: Db) -> None:
    looked = Db.look(db.path)
    with pytest.raises(JournalError, match="readonly"):
        looked.run("DELETE FROM pins")
    looked.close()
