"""SQLite databases in the working tree: none that a program has open is taken away from it."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.platform.linux import processes
from gitshadow.undo.engine import UndoEngine
from gitshadow.undo.report import Report
from tests.support.engine import Engine

_PROGRAM = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in sys.stdin:
    try:
        print(db.execute(line).fetchall(), flush=True)
    except sqlite3.Error as error:
        print(error, flush=True)
"""
_LITTLE = ("CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")


class Program:
    """A process that has a database open."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *statements: str) -> str:
        """Run statements; return what the last one answered."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        said = ""
        for one in statements:
            self.process.stdin.write(one + "\n")
            self.process.stdin.flush()
            said = self.process.stdout.readline()
        return said

    def close(self) -> None:
        """Close the database and end."""
        self.process.communicate()


@pytest.fixture
def program(engine: Engine) -> Iterator[Callable[[str], Program]]:
    """Return a function that starts a program with a database of R open."""
    started: list[Program] = []

    def start(name: str) -> Program:
        started.append(Program(engine.root / name))
        return started[-1]

    yield start
    for one in started:
        if one.process.returncode is None:
            one.process.kill()
            one.close()


def details(report: Report) -> dict[str, str | None]:
    """Return why files stay, by path."""
    return {item.path: item.detail for item in report.items if item.reason}


@pytest.mark.parametrize("mode", ["WAL", "DELETE", "PERSIST"])
@pytest.mark.parametrize("verb", ["oops", "undo", "overwrite", "restore"])
def test_a_database_that_a_program_has_open_stays(
    engine: Engine, program: Callable[[str], Program], mode: str, verb: str
) -> None:
    before_ns = engine.clock.now_ns()
    engine.by("s1", turn="t1")
    user = program("lg.db")
    user.run(f"PRAGMA journal_mode={mode}", *_LITTLE)
    engine.record()
    engine.write("plain", "agent\n")
    there = {path for path in engine.tree_now() if path.startswith("lg.db")}
    if verb == "oops":
        report = engine.oops()
    elif verb == "restore":
        report = engine.restore(at_ns=before_ns)
    else:
        report = engine.undo(
            "s1", on_conflict="overwrite" if verb == "overwrite" else "skip"
        )
    assert set(details(report)) == there
    assert {item.path: item.reason for item in report.items if item.reason} == (
        dict.fromkeys(there, "conflict")
    )
    assert not engine.exists("plain")
    for detail in details(report).values():
        assert f"process {user.process.pid} (" in str(detail)
        assert str(detail).endswith("has this database open: close it first")
    user.run("INSERT INTO t VALUES (2)")
    user.close()
    with closing(sqlite3.connect(engine.root / "lg.db")) as db:
        assert db.execute("SELECT x FROM t").fetchall() == [(1,), (2,)]


def test_a_database_that_changed_unnoticed_keeps_no_other_file_from_its_undo(
    engine: Engine, program: Callable[[str], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write through a memory map, as to the index of a log, is reported by no watcher."""
    engine.by("s1", turn="t1")
    user = program("lg.db")
    user.run("PRAGMA journal_mode=WAL", *_LITTLE)
    engine.write("plain", "agent\n")
    engine.record()
    monkeypatch.setattr(UndoEngine, "flush", lambda _: None)
    user.run("INSERT INTO t VALUES (2)")
    report = engine.undo("s1")
    assert not engine.exists("plain")
    assert "lg.db-shm" in details(report)


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_database_that_nobody_has_open_is_undone_and_redone(
    engine: Engine, program: Callable[[str], Program], mode: str
) -> None:
    before = engine.tree_now()
    engine.by("s1", turn="t1")
    user = program("lg.db")
    user.run(f"PRAGMA journal_mode={mode}", *_LITTLE)
    engine.record()
    user.process.kill()
    user.close()
    after = engine.tree_now()
    assert engine.oops().status == "reversed"
    assert engine.tree_now() == before
    assert engine.redo().status == "reversed"
    assert engine.tree_now() == after
    with closing(sqlite3.connect(engine.root / "lg.db")) as db:
        assert db.execute("SELECT x FROM t").fetchall() == [(1,)]


def test_a_redo_replaces_no_database_that_is_open(
    engine: Engine, program: Callable[[str], Program]
) -> None:
    user = program("a.db")
    user.run(*_LITTLE)
    user.close()
    engine.by("human").record()
    engine.by("s1", turn="t1")
    user = program("a.db")
    user.run("INSERT INTO t VALUES (2)")
    user.close()
    engine.record()
    assert engine.oops().status == "reversed"
    user = program("a.db")
    assert user.run("SELECT x FROM t") == "[(1,)]\n"
    assert set(details(engine.redo())) == {"a.db"}
    user.close()
    engine.redo()
    with closing(sqlite3.connect(engine.root / "a.db")) as db:
        assert db.execute("SELECT x FROM t").fetchall() == [(1,), (2,)]


def test_a_database_of_this_very_process_stays(engine: Engine) -> None:
    """A program undoes its own turn while it has the database open."""
    engine.by("s1", turn="t1")
    with closing(sqlite3.connect(engine.root / "lg.db", isolation_level=None)) as db:
        for one in ("PRAGMA journal_mode=WAL", *_LITTLE):
            db.execute(one)
        engine.record()
        said = "this program has this database open: close it first"
        assert set(details(engine.oops()).values()) == {said}
        db.execute("INSERT INTO t VALUES (2)")
    with closing(sqlite3.connect(engine.root / "lg.db")) as db:
        assert db.execute("SELECT x FROM t").fetchall() == [(1,), (2,)]
    assert engine.oops().status == "partial"  # it was changed later


def test_a_database_stays_that_is_opened_while_undo_runs(
    engine: Engine, program: Callable[[str], Program]
) -> None:
    engine.by("s1", turn="t1")
    first = program("lg.db")
    first.run(*_LITTLE)
    first.close()
    engine.record()
    engine.write("plain", "agent\n")
    users: list[Program] = []

    def opens(step: str) -> None:
        if step == "begun":
            users.append(program("lg.db"))
            users[0].run("SELECT * FROM t")

    report = engine.oops(hook=opens)
    assert users[0].run("SELECT x FROM t") == "[(1,)]\n"
    assert list(details(report)) == ["lg.db"]
    assert not engine.exists("plain")


def test_no_file_of_a_database_goes_without_the_others(
    engine: Engine, program: Callable[[str], Program]
) -> None:
    """The log has what was committed last; the database alone would be an older one."""
    user = program("lg.db")
    user.run(*_LITTLE)
    user.close()
    engine.by("human").record()
    engine.by("s1", turn="t1")
    user = program("lg.db")
    user.run("PRAGMA journal_mode=WAL", "INSERT INTO t VALUES (2)")
    user.process.kill()
    user.close()
    engine.record()
    engine.by("human")
    with open(engine.root / "lg.db", "r+b") as file:
        file.seek(40)
        file.write(b"\0\0\0\7")
    engine.record()
    before = engine.tree_now()
    report = engine.undo("s1")
    assert engine.tree_now() == before
    assert {item.path: item.reason for item in report.items} == {
        "lg.db": "binary",
        "lg.db-shm": "conflict",
        "lg.db-wal": "conflict",
    }


def test_a_database_stays_that_a_process_of_somebody_else_has_open(
    engine: Engine, program: Callable[[str], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container: its processes are not seen, the locks of SQLite are."""
    monkeypatch.setattr(processes, "holders", lambda paths: {})
    engine.by("s1", turn="t1")
    user = program("lg.db")
    user.run("PRAGMA journal_mode=WAL", *_LITTLE)
    engine.record()
    said = "a process has this database open: close it first"
    assert set(details(engine.oops()).values()) == {said}


def test_a_file_with_such_a_name_is_undone_when_it_is_open(engine: Engine) -> None:
    """Only what is beside a database belongs to it."""
    engine.write("notes", "mine\n")
    engine.by("s1", turn="t1")
    engine.write("notes-journal", "agent\n")
    engine.write("empty", "")
    with open(engine.root / "notes-journal"), open(engine.root / "empty"):
        assert engine.oops().status == "reversed"
    assert not engine.exists("notes-journal")


def test_recording_drops_no_lock_of_its_own_process(
    engine: Engine, program: Callable[[str], Program]
) -> None:
    """POSIX drops the locks of a process when it closes any descriptor of the file."""
    with closing(sqlite3.connect(engine.root / "a.db", isolation_level=None)) as db:
        db.execute("CREATE TABLE t (x)")
        engine.record()
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO t VALUES (1)")
        for _ in range(3):
            os.utime(engine.root / "a.db")
            engine.record()
        other = program("a.db")
        answer = other.run("PRAGMA busy_timeout=0", "BEGIN IMMEDIATE")
        assert answer == "database is locked\n"
        db.execute("COMMIT")
        other.close()
    engine.oops()
    assert not [
        one for one in open_files() if one.startswith(str(engine.root / "a.db"))
    ]


def open_files() -> list[str]:
    """Return what the descriptors of this process lead to."""
    links = [Path("/dev/fd", name) for name in os.listdir("/dev/fd")]
    return [os.readlink(one) for one in links if os.path.lexists(one)]
