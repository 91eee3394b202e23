"""The saga's tables: claims by compare-and-set, a log that can only grow and shows a hand."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.errors import JournalError
from gitshadow.sdk.testing import sample_rows as saga_rows
from gitshadow.store.journal import prune
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.journal.saga_rows import (
    CallName,
    Held,
    SagaCall,
    SagaEntry,
    SagaTurn,
)

NAME = CallName("s", "t-1", "c1")
CALL = replace(saga_rows.CALL, outcome="success", undo="planned")
TURN = saga_rows.TURN


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Db]:
    path = str(tmp_path / "journal.db")
    with closing(Db.open(path, create=True, durable=True)) as opened:
        yield opened


def note(number: int) -> SagaEntry:
    return SagaEntry(
        session="s", turn=None, call=None, kind=f"k{number}", ts_ns=number, body="{}"
    )


def test_rows_come_back_as_they_were(db: Db) -> None:
    SagaTables(db).save([TURN, CALL, note(1)])
    assert SagaTables(db).turns("s") == [TURN]
    assert SagaTables(db).calls("s", "t-1") == [CALL]
    assert [row.kind for row in SagaTables(db).log("s")] == ["k1"]


def test_a_second_turn_of_one_number_is_refused(db: Db) -> None:
    SagaTables(db).save([TURN])
    other = SagaTurn(
        session="s",
        id="t-x",
        ordinal=1,
        label="go",
        agent=None,
        status="open",
        started_ns=1,
        owner="me",
    )
    with pytest.raises(JournalError):
        SagaTables(db).save([other, note(1)])
    assert SagaTables(db).turns("s") == [TURN]
    assert list(SagaTables(db).log()) == []


def test_durable_means_full(db: Db) -> None:
    """Intent and outcome are on the disk when `save` returns."""
    assert db.number("PRAGMA synchronous") == 2


def test_a_claim_is_for_one_owner_until_its_lease_ends(db: Db) -> None:
    """AN-05."""
    SagaTables(db).save([CALL])
    assert SagaTables(db).claim(NAME, "a", 0, 10)
    assert not SagaTables(db).claim(NAME, "b", 5, 15)
    assert SagaTables(db).claim(NAME, "a", 5, 15)
    assert SagaTables(db).claim(NAME, "b", 15, 25)
    (found,) = SagaTables(db).calls("s", "t-1")
    assert (found.owner, found.attempts, found.undo) == ("b", 3, "running")


@pytest.mark.parametrize("undo", ["none", "done", "in_doubt", "skipped", "resolved"])
def test_what_is_settled_cannot_be_claimed(db: Db, undo: str) -> None:
    row = {name: getattr(CALL, name) for name in CALL.__slots__}
    SagaTables(db).save([SagaCall(**{**row, "undo": undo})])
    assert not SagaTables(db).claim(NAME, "a", 0, 10)


@pytest.mark.parametrize(
    "sql", ["UPDATE saga_log SET body = '[]'", "DELETE FROM saga_log"]
)
def test_the_log_only_grows(db: Db, sql: str) -> None:
    """AN-34."""
    SagaTables(db).save([note(1)])
    with pytest.raises(JournalError, match="append-only"):
        db.run(sql)


@pytest.mark.parametrize(
    ("sql", "row"),
    [
        ("UPDATE saga_log SET body = '[]' WHERE seq = 2", 2),
        ("UPDATE saga_log SET ts_ns = 9 WHERE seq = 3", 3),
        ("DELETE FROM saga_log WHERE seq = 2", 3),
        ("DELETE FROM saga_log WHERE seq = 1", 2),
    ],
)
def test_a_hand_in_the_log_is_named(db: Db, sql: str, row: int) -> None:
    """AN-34: the row that was changed, or the one after a hole."""
    SagaTables(db).save([note(number) for number in (1, 2, 3, 4)])
    assert SagaTables(db).broken_at() is None
    with closing(sqlite3.connect(db.path, isolation_level=None)) as raw:
        raw.execute("DROP TRIGGER saga_log_no_update")
        raw.execute("DROP TRIGGER saga_log_no_delete")
        raw.execute(sql)
    assert SagaTables(db).broken_at() == row


@pytest.mark.parametrize(
    ("state", "is_open"), [("due", True), ("failed", True), ("sent", False)]
)
def test_a_session_that_has_to_send_is_at_work(
    db: Db, state: str, is_open: bool
) -> None:
    """AN-19: retention must not drop what is still to be sent."""
    over = replace(TURN, status="committed", ended_ns=2)
    call = replace(CALL, outcome="held", undo="none")
    held = Held(session="s", turn="t-1", call="c1", state=state, due_ns=9)
    SagaTables(db).save([over, call, held])
    assert prune.programs(db) == {"s": (1, 2, is_open)}
