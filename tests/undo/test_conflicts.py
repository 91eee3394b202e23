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
from tests.support.engine import Engine
from tests.support.repo import ten_lines
from tests.undo.words import reasons


def link(engine: Engine, path: str, target: str) -> None:
    if engine.exists(path):
        os.unlink(engine.path(path))
    os.symlink(target, engine.path(path))
    engine.record()


@pytest.mark.parametrize("choice", ["skip", "overwrite", "markers"])
def test_a_deleted_file_that_somebody_made_anew(engine: Engine, choice: str) -> None:
    engine.by("s1").remove("a")
    engine.by("human").write("a", "mine\n")
    report = engine.oops(on_conflict=choice)
    if choice == "skip":
        assert reasons(report) == [("a", "conflict")]
        assert engine.read("a") == b"mine\n"
    elif choice == "overwrite":
        assert engine.read("a").decode() == ten_lines("a")
    else:
        assert (
            engine.read("a")
            .decode()
            .endswith("a line 10\n=======\nmine\n>>>>>>> now\n")
        )
    if choice != "skip":
        engine.redo()
        assert engine.read("a") == b"mine\n"


@pytest.mark.parametrize("choice", ["skip", "overwrite"])
def test_a_changed_file_that_somebody_deleted(engine: Engine, choice: str) -> None:
    engine.by("s1").write("a", "agent\n")
    engine.by("human").remove("a")
    report = engine.oops(on_conflict=choice)
    if choice == "skip":
        assert reasons(report) == [("a", "conflict")]
        assert not engine.exists("a")
    else:
        assert engine.read("a").decode() == ten_lines("a")


def test_a_created_file_that_somebody_deleted_has_no_effect(engine: Engine) -> None:
    engine.by("s1").write("n", "agent\n")
    engine.by("human").remove("n")
    report = engine.oops()
    assert [item.state.value for item in report.items] == ["no_effect"]
    assert report.status == "nothing_to_do"


@pytest.mark.parametrize("choice", ["skip", "overwrite", "markers"])
def test_a_link_that_both_changed_has_no_lines(engine: Engine, choice: str) -> None:
    engine.by("human")
    link(engine, "l", "a")
    engine.by("s1")
    link(engine, "l", "b")
    engine.by("human")
    link(engine, "l", "c")
    report = engine.oops(on_conflict=choice)
    target = os.readlink(engine.path("l"))
    assert target == (b"a" if choice == "overwrite" else b"c")
    assert (report.status == "reversed") is (choice == "overwrite")


def test_a_file_that_became_a_link_is_a_type_clash(engine: Engine) -> None:
    engine.by("s1").write("a", "agent\n")
    engine.by("human")
    link(engine, "a", "b")
    assert reasons(engine.oops()) == [("a", "type_clash")]
    assert os.readlink(engine.path("a")) == b"b"


def test_a_file_that_the_unit_made_a_link_comes_back_with_its_mode(
    engine: Engine,
) -> None:
    engine.by("human").write("f", "x\n", 0o600)
    engine.by("s1")
    link(engine, "f", "a")
    assert engine.oops().status == "reversed"
    assert (engine.read("f"), engine.mode("f")) == (b"x\n", 0o600)
    engine.redo()
    assert os.readlink(engine.path("f")) == b"a"


def test_a_mode_that_somebody_changed_since_stays(engine: Engine) -> None:
    engine.by("s1").write("a", "agent\n", 0o755)
    engine.by("human")
    os.chmod(engine.path("a"), 0o600)
    engine.record()
    engine.oops()
    assert (engine.read("a").decode(), engine.mode("a")) == (ten_lines("a"), 0o600)


def test_a_name_that_somebody_gave_since_stays(engine: Engine) -> None:
    engine.by("s1").write("a", "agent\n")
    engine.by("human").move("a", "kept")
    engine.oops()
    assert engine.read("kept").decode() == ten_lines("a")
    assert not engine.exists("a")


@pytest.mark.parametrize("choice", ["skip", "overwrite"])
def test_half_of_a_swap_stays_where_the_other_half_is_skipped(
    engine: Engine, choice: str
) -> None:
    """What the skipped file held before would be in no file until a redo."""
    first, second = engine.read("a"), engine.read("b")
    engine.by("s1", "t1")
    engine.write("a", second)
    engine.write("b", first)
    engine.by("human").write("a", "mine\n")
    report = engine.oops(on_conflict=choice)
    if choice == "skip":
        assert reasons(report) == [("a", "conflict"), ("b", "conflict")]
        assert (engine.read("a"), engine.read("b")) == (b"mine\n", first)
    else:
        assert (engine.read("a"), engine.read("b")) == (first, second)


def test_copy_of_an_empty_file_is_deleted_though_that_is_skipped(
    engine: Engine,
) -> None:
    engine.by("human").write("n", "")
    engine.by("s1", "t1").write("n", "agent\n")
    engine.write("m", "")
    engine.by("human").write("n", "mine\n")
    assert reasons(engine.oops()) == [("m", None), ("n", "conflict")]
    assert not engine.exists("m")


def test_half_of_a_rename_is_put_back(engine: Engine) -> None:
    engine.by("s1", "t1").move("a", "d")
    engine.write("b", "agent\n")

    class Stuck(WorkFiles):
        def unlink(self, path: RepoPath) -> None:
            if path == b"d":
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            super().unlink(path)

    engine.use_files(Stuck)
    report = engine.oops()
    assert reasons(report) == [("a", "io_error"), ("b", None)]
    assert not engine.exists("a")
    assert engine.read("d").decode() == ten_lines("a")
    assert engine.read("b").decode() == ten_lines("b")


def test_a_mode_that_cannot_be_set_is_put_back(engine: Engine) -> None:
    engine.by("human").write("f", "x\n", 0o640)
    engine.by("s1").write("f", "agent\n")

    class Flat(WorkFiles):
        def stage(self, path: RepoPath, data: bytes, mode: int) -> RepoPath:
            return super().stage(path, data, 0o100600)

    engine.use_files(Flat)
    report = engine.oops()
    assert reasons(report) == [("f", "io_error")]
    assert report.items[0].detail == "the mode could not be set"


def test_files_that_exclude_each_other_are_both_left(engine: Engine) -> None:
    engine.by("s1", "t1").remove("a")
    engine.by("s1", "t2").write("a/x", "x\n")
    engine.by("s1", "t3").remove("a/x")
    report = engine.undo("t1", "t3")
    assert ("a/x", "type_clash") in reasons(report)
    assert not os.path.isdir(engine.path("a/x"))


def test_a_socket_in_the_way_is_left(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.by("s1").remove("a")
    monkeypatch.chdir(engine.root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a")
        assert reasons(engine.oops()) == [("a", "excluded")]
    os.unlink(engine.path("a"))


def test_a_file_above_the_path_is_left(engine: Engine) -> None:
    engine.by("human").write("d/x", "x\n")
    engine.by("s1").remove("d/x")
    os.rmdir(engine.path("d"))
    engine.by("human").write("d", "mine\n")
    assert reasons(engine.oops()) == [("d/x", "type_clash")]
    assert engine.read("d") == b"mine\n"


def test_a_link_above_the_path_is_never_followed(
    engine: Engine, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    engine.by("human").write("d/x", "x\n")
    engine.by("s1").write("d/x", "agent\n")
    os.unlink(engine.path("d/x"))
    os.rmdir(engine.path("d"))
    os.symlink(outside, engine.path("d"))
    engine.by("human").record()
    assert engine.oops(on_conflict="overwrite").status == "partial"
    assert list(outside.iterdir()) == []


def test_a_link_that_comes_while_apply_runs_is_never_followed(
    engine: Engine, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("agent\n")
    engine.by("human").write("d/x", "x\n")
    engine.by("s1").write("d/x", "agent\n")

    def swap(step: str) -> None:
        if step == "write b'd/x'":
            os.rename(engine.path("d"), tmp_path / "gone")
            os.symlink(outside, engine.path("d"))

    assert engine.oops(hook=swap).status == "partial"
    assert (outside / "x").read_text() == "agent\n"
    assert [one.name for one in outside.iterdir()] == ["x"]


def test_what_stands_behind_the_dashes_is_a_path(engine: Engine) -> None:
    engine.by("a", "t1").write("a", "1\n")
    engine.write("b", "1\n")
    typed = Target("a", RepoPath(b"a"), path_only=True)
    engine.by("human")
    run(engine.port, ResolvedUndo(FileUndoRequest(yes=True), (typed,)))
    assert (engine.read("a").decode(), engine.read("b")) == (ten_lines("a"), b"1\n")
    for path in (RepoPath(b"never"), None):
        odd = Target("never", path, path_only=True)
        with pytest.raises(UsageError):
            run(engine.port, ResolvedUndo(FileUndoRequest(), (odd,)))


def test_deletion_comes_back_when_what_took_its_place_went_elsewhere(
    engine: Engine,
) -> None:
    """UNDO-16: another session created the name anew, moved that away and was undone."""
    before = engine.read("c")
    engine.by("s1").remove("c")
    engine.by("s2").write("c", "other\n")
    engine.move("c", "d/c")
    assert engine.undo("s2").status == "reversed"
    assert engine.undo("s1").status == "reversed"
    assert engine.read("c") == before
    assert not engine.exists("d/c")
