"""The journal's file: made, opened, refused; nothing of SQLite's errors leaves it."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from gitshadow.errors import JournalBusyError, JournalError, JournalNewerError
from gitshadow.store.journal import db_file as module
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.db_file import is_damaged
from gitshadow.store.journal.schema import VERSION
from tests.support.waiting import HANGS_S


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "journal.db")


@pytest.fixture
def db(path: str) -> Iterator[Db]:
    with closing(Db.open(path, create=True)) as opened:
        yield opened


def listing(path: str) -> dict[str, bytes]:
    """Return every file beside the journal with its bytes."""
    return {one.name: one.read_bytes() for one in Path(path).parent.iterdir()}


def test_open_makes_private_files_whatever_the_umask(path: str) -> None:
    """ROB-13: directory 0700, files 0600."""
    old = os.umask(0)
    try:
        with closing(Db.open(path, create=True)) as db, db.write():
            meta.put(db, "k", "v")
            names = [path, path + "-wal", path + "-shm"]
            assert [stat.S_IMODE(os.stat(name).st_mode) for name in names] == [
                0o600
            ] * 3
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_open_without_create_makes_nothing(path: str) -> None:
    with pytest.raises(JournalError) as caught:
        Db.open(path, create=False)
    assert caught.value.hint == "git agent-undo reindex"
    assert not os.path.exists(os.path.dirname(path))


def test_open_again_finds_what_was_written(path: str, db: Db) -> None:
    with db.write():
        meta.put(db, "k", "v")
    with closing(Db.open(path, create=False)) as again:
        assert meta.get(again, "k") == "v"
        assert meta.get(again, "other") is None
        assert again.number("PRAGMA user_version") == VERSION
        assert again.row("PRAGMA journal_mode") == ("wal",)
        assert again.number("PRAGMA synchronous") == 1


def test_open_takes_a_path_that_a_uri_would_misread(tmp_path: Path) -> None:
    path = str(tmp_path / "a?mode=memory#b%41")
    Db.open(path, create=True).close()
    assert os.path.getsize(path) > 0


@pytest.mark.parametrize("pending", [False, True], ids=["folded", "in the log"])
def test_open_leaves_a_newer_journal_as_it_is(path: str, pending: bool) -> None:
    """ROB-09: not a byte is written, and no file appears beside it."""
    Db.open(path, create=True).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute(f"PRAGMA user_version = {VERSION + 1}")
    if not pending:
        other.close()
    before = listing(path)
    with pytest.raises(JournalNewerError, match=f"version {VERSION + 1} is newer"):
        Db.open(path, create=True)
    after = listing(path)
    after.pop("journal.db-shm", None)
    before.pop("journal.db-shm", None)
    assert after == before
    other.close()


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize(
    "damage",
    [
        truncated,
        lambda data: data[:50],
        lambda data: b"",
        lambda data: b"not a database at all".ljust(4096),
        lambda data: data[:100] + bytes(len(data) - 100),
    ],
    ids=["half", "header cut", "empty", "not a database", "zeroed"],
)
def test_open_names_the_remedy_where_the_journal_is_damaged(
    path: str, damage: object
) -> None:
    """ROB-09: an error with a hint, no traceback of another kind, nothing overwritten."""
    Db.open(path, create=True).close()
    assert callable(damage)
    Path(path).write_bytes(damage(Path(path).read_bytes()))
    before = Path(path).read_bytes()
    assert is_damaged(path)
    with pytest.raises(JournalError) as caught:  # noqa: PT012
        db = Db.open(path, create=False)
        with closing(db):
            db.rows("SELECT * FROM events")
    assert caught.value.hint == "git agent-undo reindex"
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize(
    ("made", "now"),
    [
        (b"ordinal INTEGER", b"ordinam INTEGER"),
        (b"INDEX turns_ended ON", b"INDEX turnr_ended ON"),
        (b"agent TEXT,", b"agent TEXU,"),
        (b"WHERE closed_ns IS NULL", b"WHERE closed_ns IS NUML"),
        (b"BEGIN DELETE FROM blame_states", b"BEGIN DELETE FROM blame_statet"),
    ],
    ids=["column", "index", "type", "condition", "trigger"],
)
def test_a_schema_that_is_not_ours_is_damage(
    path: str, made: bytes, now: bytes
) -> None:
    """One byte of it: the pages are whole, and SQLite may never stumble over it."""
    Db.open(path, create=True).close()
    data = Path(path).read_bytes()
    assert made in data
    Path(path).write_bytes(data.replace(made, now, 1))
    assert is_damaged(path)


def test_a_statement_that_a_damaged_schema_refuses_names_the_remedy(path: str) -> None:
    """Not one that is wrong itself: a new journal would not help there."""
    Db.open(path, create=True).close()
    with closing(Db.open(path, create=False)) as db:
        with pytest.raises(JournalError) as caught:
            db.rows("SELECT nothing FROM turns")
        assert caught.value.hint is None
    data = Path(path).read_bytes()
    Path(path).write_bytes(data.replace(b"prompt TEXT", b"promqt TEXT", 1))
    with closing(Db.open(path, create=False)) as db:
        with pytest.raises(JournalError, match="no such column: prompt") as caught:
            db.rows("SELECT prompt FROM turns")
        assert caught.value.hint == "git agent-undo reindex"


def test_what_somebody_added_to_the_schema_is_no_damage(path: str) -> None:
    Db.open(path, create=True).close()
    with closing(sqlite3.connect(path)) as own:
        own.execute("CREATE INDEX mine ON turns (prompt)")
        own.execute("ANALYZE")
        own.commit()
    assert not is_damaged(path)


def test_an_older_journal_is_refused_and_left_as_it_is(path: str) -> None:
    Db.open(path, create=True).close()
    with closing(sqlite3.connect(path)) as old:
        old.execute(f"PRAGMA user_version = {VERSION - 1}")
    before = Path(path).read_bytes()
    for opened in (partial(Db.open, create=True), Db.look, Db.view):
        with pytest.raises(JournalError, match="is older than") as caught:
            opened(path)
        assert caught.value.hint == "git agent-undo reindex"
    assert Path(path).read_bytes() == before
    assert is_damaged(path)


def test_a_whole_journal_is_not_damaged(path: str, db: Db) -> None:
    with db.write():
        meta.put(db, "k", "v")
    assert not is_damaged(path)
    db.fold()
    assert not is_damaged(path)


def test_write_keeps_nothing_of_a_block_that_fails(db: Db) -> None:
    def fail() -> None:
        with db.write():
            meta.put(db, "k", "v")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert meta.get(db, "k") is None
    with db.write():
        meta.put(db, "k", "2")
    assert meta.get(db, "k") == "2"


def test_inner_write_joins_the_outer_one(db: Db) -> None:
    def fail() -> None:
        with db.write():
            with db.write():
                meta.put(db, "k", "v")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert meta.get(db, "k") is None


def test_write_says_busy_where_another_process_writes(
    path: str, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ROB-05: a journal that is locked is no damaged one."""
    monkeypatch.setattr(module, "_BUSY_MS", 20)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with closing(other), closing(Db.open(path, create=False)) as mine:
        with pytest.raises(JournalBusyError), mine.write():
            meta.put(mine, "k", "v")
        assert meta.get(mine, "k") is None
        other.execute("ROLLBACK")
        with mine.write():
            meta.put(mine, "k", "v")
    assert meta.get(db, "k") == "v"


@pytest.mark.parametrize("value", ["\ud800", 1 << 70])
def test_values_that_sqlite_refuses_are_journal_errors(
    db: Db, value: str | int
) -> None:
    with pytest.raises(JournalError):
        db.rows("SELECT ?", (value,))


def test_a_statement_of_a_closed_journal_is_a_journal_error(path: str) -> None:
    db = Db.open(path, create=True)
    db.close()
    with pytest.raises(JournalError):
        db.row("SELECT 1")


def test_opening_a_journal_again_keeps_the_locks_of_the_first(path: str) -> None:
    """A process loses its locks on a file when it closes it: others would take the log away."""
    code = (
        f"import sqlite3; c = sqlite3.connect({path!r});"
        "c.execute('CREATE TABLE t (n)'); c.close()"
    )
    with closing(Db.open(path, create=True)) as first:
        Db.open(path, create=False).close()
        subprocess.run([sys.executable, "-c", code], check=True, timeout=HANGS_S)
        assert os.path.exists(f"{path}-wal")
        assert first.rows("SELECT n FROM t") == []
