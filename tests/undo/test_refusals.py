"""What undo leaves alone, refuses or rolls back."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from gitshadow.capture.drafts import Draft
from gitshadow.errors import RefusedError, StoreError
from gitshadow.model import (
    EventKind,
    Oid,
    Op,
    OpStatus,
    RepoPath,
)
from gitshadow.store import refs
from gitshadow.store.files import Reading, WorkFiles
from gitshadow.store.journal import events, ops
from gitshadow.store.purge import stand_in
from gitshadow.undo.engine import UndoEngine
from tests.support.engine import Engine
from tests.support.repo import ten_lines
from tests.undo.words import reasons


def test_oops_leaves_what_changes_while_it_runs(engine: Engine) -> None:
    """UNDO-29: a write in the middle is left and named, and recorded as its own."""
    engine.by("s1", "t1").write("a", "agent\n")
    engine.write("b", "agent\n")

    def meddle(step: str) -> None:
        if step == "write b'b'":
            Path(engine.root, "b").write_text("human\n")

    report = engine.oops(hook=meddle)
    assert reasons(report) == [("a", None), ("b", "conflict")]
    assert engine.read("b") == b"human\n"
    engine.flush()
    newest = engine.changes()[0]
    assert (newest.path, newest.op) == (b"b", None)
    assert engine.litter() == []


@pytest.mark.parametrize("call", ["publish", "unlink"])
def test_write_in_the_last_moment_is_kept(engine: Engine, call: str) -> None:
    """UNDO-29: between the last look at a file and its change, by whoever has it open."""
    engine.by("s1", "t1").write("a", "agent\n")
    engine.write("n", "agent\n")
    path = {"publish": "a", "unlink": "n"}[call]

    class Late(WorkFiles):
        def publish(self, temp: RepoPath, at: RepoPath) -> None:
            self._write("publish", at)
            super().publish(temp, at)

        def unlink(self, at: RepoPath) -> None:
            self._write("unlink", at)
            super().unlink(at)

        def _write(self, name: str, at: RepoPath) -> None:
            nonlocal call
            if (call, path.encode()) == (name, at):
                call = ""
                Path(engine.root, path).write_text("human\n")

    engine.use_files(Late)
    report = engine.oops()
    assert dict(reasons(report))[path] == "conflict"
    assert report.counts["reversed"] == 1
    assert engine.read(path) == b"human\n"
    assert engine.litter() == []
    engine.redo()
    assert engine.read(path) == b"human\n"


def test_oops_goes_on_when_one_file_cannot_be_replaced(engine: Engine) -> None:
    """UNDO-30: two come back, one has the system's reason."""
    engine.by("s1", "t1")
    for name in ("a", "b", "c"):
        engine.write(name, "agent\n")

    class Refusing(WorkFiles):
        def publish(self, temp: RepoPath, path: RepoPath) -> None:
            if path == b"b":
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
            super().publish(temp, path)

    engine.use_files(Refusing)
    report = engine.oops()
    assert report.status == "partial"
    assert reasons(report) == [("a", None), ("b", "io_error"), ("c", None)]
    assert report.items[1].detail == "Operation not permitted"
    assert report.counts["reversed"] == 2
    assert engine.read("b") == b"agent\n"
    assert engine.litter() == []


def test_directory_that_made_room_for_a_file_that_failed_is_there_again(
    engine: Engine,
) -> None:
    """UNDO-30: with its permissions; only the item that failed is left as it is."""
    engine.by("s1", "t1")
    os.unlink(engine.path("a"))
    engine.record()
    os.makedirs(engine.path("a/b"))
    os.chmod(engine.path("a/b"), 0o750)
    engine.write("b", "agent\n")

    class Refusing(WorkFiles):
        def publish(self, temp: RepoPath, path: RepoPath) -> None:
            if path == b"a":
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
            super().publish(temp, path)

    engine.use_files(Refusing)
    report = engine.oops()
    assert reasons(report) == [("a", "io_error"), ("b", None)]
    assert {"a", "a/b"} <= engine.directories()
    assert engine.mode("a/b") == 0o750
    assert engine.litter() == []


def test_oops_names_what_stays_when_a_created_and_moved_file_cannot_go(
    engine: Engine,
) -> None:
    """UNDO-30: the item is the file that stands there, and says that it still does."""
    engine.by("s1", "t1").write("n", "new\n")
    engine.move("n", "m")

    class Refusing(WorkFiles):
        def unlink(self, path: RepoPath) -> None:
            if path == b"m":
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
            super().unlink(path)

    engine.use_files(Refusing)
    assert reasons(engine.oops()) == [("m", "io_error")]
    assert engine.read("m") == b"new\n"
    engine.use_files(WorkFiles)
    assert reasons(engine.undo("s1")) == [("m", None)]
    assert not engine.exists("m")


def test_oops_puts_back_what_it_cannot_read_again(engine: Engine) -> None:
    """UNDO-30: what is not verified does not stay, and is not called reversed."""
    engine.by("s1", "t1").write("a", "agent\n")
    engine.write("b", "agent\n")
    failing = [False]

    class Unreadable(WorkFiles):
        def publish(self, temp: RepoPath, path: RepoPath) -> None:
            super().publish(temp, path)
            failing[0] = path == b"b"

        def read(self, path: RepoPath) -> Reading | None:
            if failing[0]:
                failing[0] = False
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().read(path)

    engine.use_files(Unreadable)
    assert reasons(engine.oops()) == [("a", None), ("b", "io_error")]
    assert engine.read("b") == b"agent\n"


def test_oops_follows_no_link_that_comes_while_it_runs(
    engine: Engine, tmp_path: Path
) -> None:
    """FID-03: a path and a directory become links between plan and apply; outside nothing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("theirs\n")
    engine.by("human").write("d/x", "old\n")
    engine.by("s1", "t1").write("d/x", "agent\n")
    engine.write("a", "agent\n")

    def relink(step: str) -> None:
        if step == "begun":
            os.rename(engine.path("d"), engine.path("moved"))
            os.symlink(outside, engine.path("d"))
            os.unlink(engine.path("a"))
            os.symlink(outside / "x", engine.path("a"))

    report = engine.oops(hook=relink)
    assert reasons(report) == [("a", "conflict"), ("d/x", "type_clash")]
    assert [path.name for path in outside.iterdir()] == ["x"]
    assert (outside / "x").read_text() == "theirs\n"
    assert os.readlink(engine.path("a")) == os.fsencode(outside / "x")
    assert engine.read("moved/x") == b"agent\n"
    assert engine.litter() == []


def test_oops_leaves_an_open_file_to_its_reader(engine: Engine) -> None:
    """FID-12: whoever holds the agent's file open goes on reading that."""
    engine.by("s1", "t1").write("a", "agent\n")
    with open(engine.path("a"), "rb") as held:
        assert engine.oops().status == "reversed"
        assert held.read() == b"agent\n"
    assert engine.read("a").decode() == ten_lines("a")


@pytest.mark.parametrize("path", [b"../x", b"/etc/x", b".git/config", b".GIT/hooks/p"])
def test_undo_refuses_unsafe_paths(engine: Engine, path: bytes) -> None:
    """ROB-10: refused and named, nothing outside is written."""
    engine.by("s1").write("a", "1\n")
    row = engine.changes()[0]
    seq = events.reserve(engine.db, 1)
    bad = row._replace(seq=seq, path=RepoPath(path), after=None, kind=EventKind.DELETE)
    with engine.db.write():
        events.insert(engine.db, [bad])
    report = engine.undo("s1")
    assert (refs.display_path(RepoPath(path)), "unsafe_path") in reasons(report)
    assert not os.path.lexists(engine.path(b"../x"))


def test_undo_names_the_object_that_is_missing(engine: Engine) -> None:
    """Nobody purged it: the repository is damaged, and that is said."""
    engine.by("human").write("k", "secret\n")
    oid = engine.changes()[0].after
    assert oid is not None
    engine.by("s1").write("k", "agent\n")
    os.unlink(Path(engine.root, ".git/objects", oid.oid[:2], oid.oid[2:]))
    engine.repo.refresh()
    report = engine.undo("s1")
    assert reasons(report) == [("k", "io_error")]
    assert report.items[0].detail == (
        f"object {oid.oid} is missing; run: git agent-undo doctor"
    )


def test_undo_says_purged_when_the_content_was_purged(engine: Engine) -> None:
    """KEEP-09: left and named."""
    engine.by("human").write("k", stand_in(Oid("1" * 40), b"salt"))
    engine.by("s1").write("k", "agent\n")
    assert reasons(engine.undo("s1")) == [("k", "purged")]


def test_undo_says_that_a_directory_is_there_now(engine: Engine) -> None:
    engine.by("s1").write("a", "agent\n")
    engine.by("human").remove("a")
    engine.write("a/x", "mine\n")
    assert reasons(engine.undo("s1")) == [("a", "type_clash")]
    assert engine.read("a/x") == b"mine\n"


def test_undo_does_not_say_that_lines_stay_which_it_overwrites(engine: Engine) -> None:
    engine.by("s1").write("a", "agent\n")
    engine.by("human").write("a", "mine\n")
    plan = engine.undo("s1", apply=False)
    # The file is skipped as a whole, and its row says why.
    assert not any("later edits" in note for note in plan.notes)
    forced = engine.undo("s1", on_conflict="overwrite")
    assert forced.status == "reversed"
    assert not any("later edits" in note for note in forced.notes)


def test_undo_leaves_what_is_not_covered_any_more(engine: Engine) -> None:
    """GIT-08: another repository's file stays."""
    engine.by("s1").write("vendor/x", "1\n")
    engine.git("init", "-q", "vendor")
    assert ("vendor/x", "other_repository") in reasons(engine.undo("s1"))
    assert engine.read("vendor/x") == b"1\n"


def test_undo_names_what_had_no_baseline(engine: Engine) -> None:
    """CAP-09: what was never recorded cannot come back, and nothing is deleted."""
    engine.by("s1").write("x", "1\n")
    row = engine.changes()[0]
    seq = events.reserve(engine.db, 1)
    bad = row._replace(seq=seq, path=RepoPath(b"y"), kind=EventKind.MODIFY)
    Path(engine.root, "y").write_text("1\n")
    with engine.db.write():
        events.insert(engine.db, [bad])
    assert ("y", "no_baseline") in reasons(engine.undo(str(seq)))
    assert engine.exists("y")


@pytest.mark.parametrize("late", [False, True])
def test_a_full_disk_rolls_everything_back(engine: Engine, late: bool) -> None:
    """ROB-08: refused, and as before; also where only hardening finds that there is no room."""
    engine.by("s1", "t1").write("a", "1\n")
    engine.write("b", "2\n")
    engine.remove("c")
    before = engine.tree_now()

    class Full(WorkFiles):
        def stage(self, path: RepoPath, data: bytes, mode: int) -> RepoPath:
            if path == b"c" and not late:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().stage(path, data, mode)

        def harden(self, temp: RepoPath) -> None:
            if late:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().harden(temp)

    engine.use_files(Full)
    with pytest.raises(RefusedError, match="not enough disk space"):
        engine.oops()
    engine.use_files(WorkFiles)
    assert engine.tree_now() == before
    assert engine.litter() == []
    assert ops.list_ops(engine.db)[0].status is OpStatus.ROLLED_BACK
    assert engine.oops().status == "reversed"


def test_an_undo_without_room_changes_no_file(engine: Engine) -> None:
    """ROB-08: some room is left for others."""
    engine.by("s1", "t1").write("new/a", "1\n")
    engine.remove("b")
    engine.remove("new/a")
    (engine.root / "new").rmdir()
    before = engine.tree_now(), engine.directories()

    class Small(WorkFiles):
        def free_bytes(self) -> int:
            return 1 << 20

    engine.use_files(Small)
    with pytest.raises(RefusedError, match="not enough disk space"):
        engine.oops()
    assert (engine.tree_now(), engine.directories()) == before
    assert engine.litter() == []


def test_an_op_that_cannot_be_recorded_is_rolled_back(engine: Engine) -> None:
    engine.by("s1", "t1").write("a", "1\n")
    before = engine.tree_now()

    class Failing(UndoEngine):
        def record_restore(self, op: Op, applied: Sequence[Draft]) -> Oid | None:
            raise StoreError("could not write to the object store")

    engine.port_type = Failing
    with pytest.raises(StoreError):
        engine.oops()
    assert engine.tree_now() == before
