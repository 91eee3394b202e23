"""What undo leaves alone, refuses or rolls back."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

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
from gitshadow.store.layout import discover
from gitshadow.store.purge import stand_in
from gitshadow.store.repo import Repo as StoreRepo
from gitshadow.undo.apply import Applied
from gitshadow.undo.report import Reason
from tests.undo.recorder_world import Yard
from tests.undo.words import lines, reasons


def test_oops_leaves_what_changes_while_it_runs(yard: Yard) -> None:
    """UNDO-29: a write in the middle is left and named, and recorded as its own."""
    yard.by("s1", "t1").write("a", "agent\n")
    yard.write("b", "agent\n")

    def meddle(step: str) -> None:
        if step == "write b'b'":
            Path(yard.root, "b").write_text("human\n")

    report = yard.oops(hook=meddle)
    assert reasons(report) == [("a", None), ("b", "conflict")]
    assert yard.read("b") == b"human\n"
    yard.flush()
    newest = yard.changes()[0]
    assert (newest.path, newest.op) == (b"b", None)
    assert yard.litter() == []


@pytest.mark.parametrize("call", ["publish", "unlink"])
def test_write_in_the_last_moment_is_kept(yard: Yard, call: str) -> None:
    """UNDO-29: between the last look at a file and its change, by whoever has it open."""
    yard.by("s1", "t1").write("a", "agent\n")
    yard.write("n", "agent\n")
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
                Path(yard.root, path).write_text("human\n")

    yard.files = Late(str(yard.root))
    report = yard.oops()
    assert dict(reasons(report))[path] == "conflict"
    assert report.counts["reversed"] == 1
    assert yard.read(path) == b"human\n"
    assert yard.litter() == []
    yard.redo()
    assert yard.read(path) == b"human\n"


def test_oops_goes_on_when_one_file_cannot_be_replaced(yard: Yard) -> None:
    """UNDO-30: two come back, one has the system's reason."""
    yard.by("s1", "t1")
    for name in ("a", "b", "c"):
        yard.write(name, "agent\n")

    class Refusing(WorkFiles):
        def publish(self, temp: RepoPath, path: RepoPath) -> None:
            if path == b"b":
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
            super().publish(temp, path)

    yard.files = Refusing(str(yard.root))
    report = yard.oops()
    assert report.status == "partial"
    assert reasons(report) == [("a", None), ("b", "io_error"), ("c", None)]
    assert report.items[1].detail == "Operation not permitted"
    assert report.counts["reversed"] == 2
    assert yard.read("b") == b"agent\n"
    assert yard.litter() == []


def test_directory_that_made_room_for_a_file_that_failed_is_there_again(
    yard: Yard,
) -> None:
    """UNDO-30: with its permissions; only the item that failed is left as it is."""
    yard.by("s1", "t1")
    os.unlink(yard.path("a"))
    yard.record()
    os.makedirs(yard.path("a/b"))
    os.chmod(yard.path("a/b"), 0o750)
    yard.write("b", "agent\n")

    class Refusing(WorkFiles):
        def publish(self, temp: RepoPath, path: RepoPath) -> None:
            if path == b"a":
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
            super().publish(temp, path)

    yard.files = Refusing(str(yard.root))
    report = yard.oops()
    assert reasons(report) == [("a", "io_error"), ("b", None)]
    assert {"a", "a/b"} <= yard.directories()
    assert yard.mode("a/b") == 0o750
    assert yard.litter() == []


def test_oops_names_what_stays_when_a_created_and_moved_file_cannot_go(
    yard: Yard,
) -> None:
    """UNDO-30: the item is the file that stands there, and says that it still does."""
    yard.by("s1", "t1").write("n", "new\n")
    yard.move("n", "m")

    class Refusing(WorkFiles):
        def unlink(self, path: RepoPath) -> None:
            if path == b"m":
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
            super().unlink(path)

    yard.files = Refusing(str(yard.root))
    assert reasons(yard.oops()) == [("m", "io_error")]
    assert yard.read("m") == b"new\n"
    yard.files = WorkFiles(str(yard.root))
    assert reasons(yard.undo("s1")) == [("m", None)]
    assert not yard.exists("m")


def test_oops_puts_back_what_it_cannot_read_again(yard: Yard) -> None:
    """UNDO-30: what is not verified does not stay, and is not called reversed."""
    yard.by("s1", "t1").write("a", "agent\n")
    yard.write("b", "agent\n")
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

    yard.files = Unreadable(str(yard.root))
    assert reasons(yard.oops()) == [("a", None), ("b", "io_error")]
    assert yard.read("b") == b"agent\n"


def test_oops_follows_no_link_that_comes_while_it_runs(
    yard: Yard, tmp_path: Path
) -> None:
    """FID-03: a path and a directory become links between plan and apply; outside nothing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("theirs\n")
    yard.by("human").write("d/x", "old\n")
    yard.by("s1", "t1").write("d/x", "agent\n")
    yard.write("a", "agent\n")

    def relink(step: str) -> None:
        if step == "begun":
            os.rename(yard.path("d"), yard.path("moved"))
            os.symlink(outside, yard.path("d"))
            os.unlink(yard.path("a"))
            os.symlink(outside / "x", yard.path("a"))

    report = yard.oops(hook=relink)
    assert reasons(report) == [("a", "conflict"), ("d/x", "type_clash")]
    assert [path.name for path in outside.iterdir()] == ["x"]
    assert (outside / "x").read_text() == "theirs\n"
    assert os.readlink(yard.path("a")) == os.fsencode(outside / "x")
    assert yard.read("moved/x") == b"agent\n"
    assert yard.litter() == []


def test_oops_leaves_an_open_file_to_its_reader(yard: Yard) -> None:
    """FID-12: whoever holds the agent's file open goes on reading that."""
    yard.by("s1", "t1").write("a", "agent\n")
    with open(yard.path("a"), "rb") as held:
        assert yard.oops().status == "reversed"
        assert held.read() == b"agent\n"
    assert yard.read("a").decode() == lines("a")


@pytest.mark.parametrize("path", [b"../x", b"/etc/x", b".git/config", b".GIT/hooks/p"])
def test_undo_refuses_unsafe_paths(yard: Yard, path: bytes) -> None:
    """ROB-10: refused and named, nothing outside is written."""
    yard.by("s1").write("a", "1\n")
    row = yard.changes()[0]
    seq = events.reserve(yard.db, 1)
    bad = row._replace(seq=seq, path=RepoPath(path), after=None, kind=EventKind.DELETE)
    with yard.db.write():
        events.insert(yard.db, [bad])
    report = yard.undo("s1")
    assert (refs.display_path(RepoPath(path)), "unsafe_path") in reasons(report)
    assert not os.path.lexists(yard.path(b"../x"))


def test_undo_names_the_object_that_is_missing(yard: Yard) -> None:
    """Nobody purged it: the repository is damaged, and that is said."""
    yard.by("human").write("k", "secret\n")
    oid = yard.changes()[0].after
    assert oid is not None
    yard.by("s1").write("k", "agent\n")
    os.unlink(Path(yard.root, ".git/objects", oid.oid[:2], oid.oid[2:]))
    yard.repo.close()
    layout = discover(str(yard.root))
    assert layout is not None
    yard.repo = StoreRepo.open(layout)
    report = yard.undo("s1")
    assert reasons(report) == [("k", "io_error")]
    assert report.items[0].detail == (
        f"object {oid.oid} is missing; run: git agent-undo doctor"
    )


def test_undo_says_purged_when_the_content_was_purged(yard: Yard) -> None:
    """KEEP-09: left and named."""
    yard.by("human").write("k", stand_in(Oid("1" * 40), b"salt"))
    yard.by("s1").write("k", "agent\n")
    assert reasons(yard.undo("s1")) == [("k", "purged")]


def test_undo_says_that_a_directory_is_there_now(yard: Yard) -> None:
    yard.by("s1").write("a", "agent\n")
    yard.by("human").remove("a")
    yard.write("a/x", "mine\n")
    assert reasons(yard.undo("s1")) == [("a", "type_clash")]
    assert yard.read("a/x") == b"mine\n"


def test_undo_does_not_say_that_lines_stay_which_it_overwrites(yard: Yard) -> None:
    yard.by("s1").write("a", "agent\n")
    yard.by("human").write("a", "mine\n")
    plan = yard.undo("s1", apply=False)
    assert any("later edits to 1 file are kept" in note for note in plan.notes)
    forced = yard.undo("s1", on_conflict="overwrite")
    assert forced.status == "reversed"
    assert not any("later edits" in note for note in forced.notes)


def test_undo_leaves_what_is_not_covered_any_more(yard: Yard) -> None:
    """GIT-08: another repository's file stays."""
    yard.by("s1").write("vendor/x", "1\n")
    yard.ignored[RepoPath(b"vendor/x")] = Reason.OTHER_REPOSITORY
    assert ("vendor/x", "other_repository") in reasons(yard.undo("s1"))
    assert yard.read("vendor/x") == b"1\n"


def test_undo_names_what_had_no_baseline(yard: Yard) -> None:
    """CAP-09: what was never recorded cannot come back, and nothing is deleted."""
    yard.by("s1").write("x", "1\n")
    row = yard.changes()[0]
    seq = events.reserve(yard.db, 1)
    bad = row._replace(seq=seq, path=RepoPath(b"y"), kind=EventKind.MODIFY)
    Path(yard.root, "y").write_text("1\n")
    with yard.db.write():
        events.insert(yard.db, [bad])
    assert ("y", "no_baseline") in reasons(yard.undo(str(seq)))
    assert yard.exists("y")


@pytest.mark.parametrize("late", [False, True])
def test_a_full_disk_rolls_everything_back(yard: Yard, late: bool) -> None:
    """ROB-08: refused, and as before; also where only hardening finds that there is no room."""
    yard.by("s1", "t1").write("a", "1\n")
    yard.write("b", "2\n")
    yard.remove("c")
    before = yard.tree_now()

    class Full(WorkFiles):
        def stage(self, path: RepoPath, data: bytes, mode: int) -> RepoPath:
            if path == b"c" and not late:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().stage(path, data, mode)

        def harden(self, temp: RepoPath) -> None:
            if late:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().harden(temp)

    yard.files = Full(str(yard.root))
    with pytest.raises(RefusedError, match="not enough disk space"):
        yard.oops()
    yard.files = WorkFiles(str(yard.root))
    assert yard.tree_now() == before
    assert yard.litter() == []
    assert ops.list_ops(yard.db)[0].status is OpStatus.ROLLED_BACK
    assert yard.oops().status == "reversed"


def test_an_op_that_cannot_be_recorded_is_rolled_back(yard: Yard) -> None:
    yard.by("s1", "t1").write("a", "1\n")
    before = yard.tree_now()

    class Failing(Yard):
        def record_restore(self, op: Op, applied: Sequence[Applied]) -> Oid | None:
            raise StoreError("could not write to the object store")

    broken = Failing(
        yard.root,
        yard.repo,
        yard.db,
        yard.clock,
        yard.files,
        yard.states_table,
        yard.recorder,
    )
    with pytest.raises(StoreError):
        broken.oops()
    assert yard.tree_now() == before
