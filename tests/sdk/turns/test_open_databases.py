"""A database that the program itself has open, as a checkpointer of LangGraph: no undo takes it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from gitshadow.sdk.turns.report import UndoReport
from tests.sdk.turns.recorded import Recorded


@pytest.fixture
def checkpoints(recorded: Recorded) -> Iterator[sqlite3.Connection]:
    """Return a database in the working tree, in WAL mode and without a table."""
    path = recorded.repo.root / "lg.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


@pytest.mark.parametrize("way", ["undo", "rewind", "rollback"])
async def test_the_programs_own_database_stays(
    recorded: Recorded, checkpoints: sqlite3.Connection, way: str
) -> None:
    """What later turns write is read back after the connection has closed."""
    session = recorded.front.session()
    reports: list[UndoReport] = []
    try:
        async with session.turn():
            checkpoints.execute("PRAGMA journal_mode=WAL")
            checkpoints.execute("CREATE TABLE saved (x)")
            recorded.repo.write("plain", "x\n")
            if way == "rollback":
                raise ValueError("no")
    except ValueError as error:
        reports.append(error.undo_report)  # type: ignore[attr-defined]
    if way == "undo":
        reports.append(await session.undo("t-1"))
    if way == "rewind":
        reports.append(await session.rewind("t-1"))
    (report,) = reports
    told = {item.path: (item.reason, item.detail) for item in report.items}
    said = "this program has this database open: close it first"
    for path in ("lg.db", "lg.db-shm", "lg.db-wal"):
        assert told[path] == ("conflict", said)
    assert not (recorded.repo.root / "plain").exists()
    checkpoints.execute("INSERT INTO saved VALUES (1)")
    checkpoints.close()
    with closing(sqlite3.connect(recorded.repo.root / "lg.db")) as db:
        assert db.execute("SELECT x FROM saved").fetchall() == [(1,)]
