"""Tables whose columns are the fields of one class."""

import pytest

from gitshadow.model import Actor, Op, OpKind, OpStatus, Session
from gitshadow.store.journal import ops, sessions
from gitshadow.store.journal.db import Computed, Db, Table
from gitshadow.store.journal.saga_rows import Held

OP = Op(
    id="op-1",
    kind=OpKind.UNDO,
    ts_ns=1000,
    worktree="main",
    session="s-1",
    target="t",
    undoes=("b-1", 'a"b'),
    status=OpStatus.DONE,
    token="",
)


def test_columns_are_the_fields_but_for_renamed_and_computed_ones() -> None:
    table = Table(
        "ops",
        Op,
        renamed={"commit": "commit_oid"},
        computed={"token": Computed("''"), "report": Computed("NULL")},
    )
    assert table.columns == [
        *("id", "kind", "ts_ns", "worktree", "session", "target", "undoes", "status"),
        "commit_oid",
    ]


def test_cells_are_plain_values_of_sqlite() -> None:
    table = Table("ops", Op, micro_ns="ts_ns")
    cells = dict(zip(table.columns, table.values(OP), strict=True))
    assert (cells["kind"], type(cells["kind"])) == ("undo", str)
    assert cells["undoes"] == '["b-1", "a\\"b"]'
    assert Table("ops", Op).load(table.values(OP)) == OP


@pytest.mark.parametrize(
    ("column", "cell"), [("kind", "unda"), ("status", ""), ("undoes", '["b-1')]
)
def test_damaged_cell_is_an_error_when_it_is_read(
    db: Db, column: str, cell: str
) -> None:
    ops.put(db, OP)
    db.run(f"UPDATE ops SET {column} = ?", (cell,))
    with pytest.raises(ValueError, match=r"unda|''|Unterminated"):
        ops.get(db, OP.id)


def test_row_is_updated_in_place_where_the_table_has_a_key(db: Db) -> None:
    table = Table("saga_outbox", Held, key="session, turn, call")
    rows = [Held(session="s", turn="t", call=name, state="held") for name in "ab"]
    table.put(db, *rows)
    table.put(db, Held(session="s", turn="t", call="a", state="due"))
    found = table.rows(db, "ORDER BY rowid")
    assert [(row.call, row.state) for row in found] == [("a", "due"), ("b", "held")]


def test_prefix_is_looked_for_in_each_id_and_holds_no_wildcard(db: Db) -> None:
    for name, native in (("s-1", "n_1"), ("s-2", "nx1")):
        sessions.put(
            db,
            Session(
                id=name,
                native_id=native,
                actor=Actor.AGENT,
                agent="codex",
                started_ns=0,
            ),
        )
    assert [one.id for one in sessions.by_prefix(db, "n_")] == ["s-1"]
    assert [one.id for one in sessions.by_prefix(db, "nx1")] == ["s-2"]
