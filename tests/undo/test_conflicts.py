"""What stands in the way: types, other people's deletions, half of a rename, odd things."""

import errno
import os
import socket
from pathlib import Path

import pytest

from gitshadow.errors import UsageError
from gitshadow.messages.undo import FileUndoRequest
from gitshadow.model import RepoPath
from gitshadow.store.files import WorkFiles
from gitshadow.undo.run import ResolvedUndo, run
from gitshadow.undo.targets import Target
from tests.undo.recorder_world import Yard
from tests.undo.words import lines, reasons


def link(yard: Yard, path: str, target: str) -> None:
    if yard.exists(path):
        os.unlink(yard.path(path))
    os.symlink(target, yard.path(path))
    yard.record()


@pytest.mark.parametrize("choice", ["skip", "overwrite", "markers"])
def test_a_deleted_file_that_somebody_made_anew(yard: Yard, choice: str) -> None:
    yard.by("s1").remove("a")
    yard.by("human").write("a", "mine\n")
    report = yard.oops(on_conflict=choice)
    if choice == "skip":
        assert reasons(report) == [("a", "conflict")]
        assert yard.read("a") == b"mine\n"
    elif choice == "overwrite":
        assert yard.read("a").decode() == lines("a")
    else:
        assert (
            yard.read("a").decode().endswith("a line 10\n=======\nmine\n>>>>>>> now\n")
        )
    if choice != "skip":
        yard.redo()
        assert yard.read("a") == b"mine\n"


@pytest.mark.parametrize("choice", ["skip", "overwrite"])
def test_a_changed_file_that_somebody_deleted(yard: Yard, choice: str) -> None:
    yard.by("s1").write("a", "agent\n")
    yard.by("human").remove("a")
    report = yard.oops(on_conflict=choice)
    if choice == "skip":
        assert reasons(report) == [("a", "conflict")]
        assert not yard.exists("a")
    else:
        assert yard.read("a").decode() == lines("a")


def test_a_created_file_that_somebody_deleted_has_no_effect(yard: Yard) -> None:
    yard.by("s1").write("n", "agent\n")
    yard.by("human").remove("n")
    report = yard.oops()
    assert [item.state.value for item in report.items] == ["no_effect"]
    assert report.status == "nothing_to_do"


@pytest.mark.parametrize("choice", ["skip", "overwrite", "markers"])
def test_a_link_that_both_changed_has_no_lines(yard: Yard, choice: str) -> None:
    yard.by("human")
    link(yard, "l", "a")
    yard.by("s1")
    link(yard, "l", "b")
    yard.by("human")
    link(yard, "l", "c")
    report = yard.oops(on_conflict=choice)
    target = os.readlink(yard.path("l"))
    assert target == (b"a" if choice == "overwrite" else b"c")
    assert (report.status == "reversed") is (choice == "overwrite")


def test_a_file_that_became_a_link_is_a_type_clash(yard: Yard) -> None:
    yard.by("s1").write("a", "agent\n")
    yard.by("human")
    link(yard, "a", "b")
    assert reasons(yard.oops()) == [("a", "type_clash")]
    assert os.readlink(yard.path("a")) == b"b"


def test_a_file_that_the_unit_made_a_link_comes_back_with_its_mode(yard: Yard) -> None:
    yard.by("human").write("f", "x\n", 0o600)
    yard.by("s1")
    link(yard, "f", "a")
    assert yard.oops().status == "reversed"
    assert (yard.read("f"), yard.mode("f")) == (b"x\n", 0o600)
    yard.redo()
    assert os.readlink(yard.path("f")) == b"a"


def test_a_mode_that_somebody_changed_since_stays(yard: Yard) -> None:
    yard.by("s1").write("a", "agent\n", 0o755)
    yard.by("human")
    os.chmod(yard.path("a"), 0o600)
    yard.record()
    yard.oops()
    assert (yard.read("a").decode(), yard.mode("a")) == (lines("a"), 0o600)


def test_a_name_that_somebody_gave_since_stays(yard: Yard) -> None:
    yard.by("s1").write("a", "agent\n")
    yard.by("human").move("a", "kept")
    yard.oops()
    assert yard.read("kept").decode() == lines("a")
    assert not yard.exists("a")


def test_half_of_a_rename_is_put_back(yard: Yard) -> None:
    yard.by("s1", "t1").move("a", "d")
    yard.write("b", "agent\n")

    class Stuck(WorkFiles):
        def unlink(self, path: RepoPath) -> None:
            if path == b"d":
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            super().unlink(path)

    yard.files = Stuck(str(yard.root))
    report = yard.oops()
    assert reasons(report) == [("a", "io_error"), ("b", None)]
    assert not yard.exists("a")
    assert yard.read("d").decode() == lines("a")
    assert yard.read("b").decode() == lines("b")


def test_a_mode_that_cannot_be_set_is_put_back(yard: Yard) -> None:
    yard.by("human").write("f", "x\n", 0o640)
    yard.by("s1").write("f", "agent\n")

    class Flat(WorkFiles):
        def stage(self, path: RepoPath, data: bytes, mode: int) -> RepoPath:
            return super().stage(path, data, 0o100600)

    yard.files = Flat(str(yard.root))
    report = yard.oops()
    assert reasons(report) == [("f", "io_error")]
    assert report.items[0].detail == "the mode could not be set"


def test_files_that_exclude_each_other_are_both_left(yard: Yard) -> None:
    yard.by("s1", "t1").remove("a")
    yard.by("s1", "t2").write("a/x", "x\n")
    yard.by("s1", "t3").remove("a/x")
    report = yard.undo("t1", "t3")
    assert ("a/x", "type_clash") in reasons(report)
    assert not os.path.isdir(yard.path("a/x"))


def test_a_socket_in_the_way_is_left(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.by("s1").remove("a")
    monkeypatch.chdir(yard.root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a")
        assert reasons(yard.oops()) == [("a", "type_clash")]
    os.unlink(yard.path("a"))


def test_a_file_above_the_path_is_left(yard: Yard) -> None:
    yard.by("human").write("d/x", "x\n")
    yard.by("s1").remove("d/x")
    os.rmdir(yard.path("d"))
    yard.by("human").write("d", "mine\n")
    assert reasons(yard.oops()) == [("d/x", "type_clash")]
    assert yard.read("d") == b"mine\n"


def test_a_link_above_the_path_is_never_followed(yard: Yard, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    yard.by("human").write("d/x", "x\n")
    yard.by("s1").write("d/x", "agent\n")
    os.unlink(yard.path("d/x"))
    os.rmdir(yard.path("d"))
    os.symlink(outside, yard.path("d"))
    yard.by("human").record()
    assert yard.oops(on_conflict="overwrite").status == "partial"
    assert list(outside.iterdir()) == []


def test_a_link_that_comes_while_apply_runs_is_never_followed(
    yard: Yard, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("agent\n")
    yard.by("human").write("d/x", "x\n")
    yard.by("s1").write("d/x", "agent\n")

    def swap(step: str) -> None:
        if step == "write b'd/x'":
            os.rename(yard.path("d"), tmp_path / "gone")
            os.symlink(outside, yard.path("d"))

    assert yard.oops(hook=swap).status == "partial"
    assert (outside / "x").read_text() == "agent\n"
    assert [one.name for one in outside.iterdir()] == ["x"]


def test_what_stands_behind_the_dashes_is_a_path(yard: Yard) -> None:
    yard.by("a", "t1").write("a", "1\n")
    yard.write("b", "1\n")
    typed = Target("a", RepoPath(b"a"), path_only=True)
    yard.by("human")
    run(yard, ResolvedUndo(FileUndoRequest(yes=True), (typed,)))
    assert (yard.read("a").decode(), yard.read("b")) == (lines("a"), b"1\n")
    for path in (RepoPath(b"never"), None):
        odd = Target("never", path, path_only=True)
        with pytest.raises(UsageError):
            run(yard, ResolvedUndo(FileUndoRequest(), (odd,)))


def test_deletion_comes_back_when_what_took_its_place_went_elsewhere(
    yard: Yard,
) -> None:
    """UNDO-16: another session created the name anew, moved that away and was undone."""
    before = yard.read("c")
    yard.by("s1").remove("c")
    yard.by("s2").write("c", "other\n")
    yard.move("c", "d/c")
    assert yard.undo("s2").status == "reversed"
    assert yard.undo("s1").status == "reversed"
    assert yard.read("c") == before
    assert not yard.exists("d/c")
