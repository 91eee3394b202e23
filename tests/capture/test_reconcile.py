"""The disk against the recorded state."""

import os
from collections.abc import Iterable

import pytest

from gitshadow.capture.coverage import TOO_LARGE
from gitshadow.capture.reconcile import (
    ObservedChanges,
    Suspects,
    observe,
    suspects,
    walk,
)
from gitshadow.model import FileState, FileVersion, Oid, RepoPath
from gitshadow.store.files import Reading
from gitshadow.store.journal.state import States
from tests.capture.test_coverage import Place, open_place
from tests.support.repo import Repo

NOW = 7
A = RepoPath(b"a")
B = RepoPath(b"b")
C = RepoPath(b"c")


def recorded(place: Place) -> dict[RepoPath, FileState]:
    """Return the state of every covered path as if it had been recorded long ago."""
    states: dict[RepoPath, FileState] = {}
    for path in walk(place.files, place.coverage).files:
        reading = place.files.read(path)
        assert reading is not None
        version = FileVersion(Oid(place.repo.blob(path)), reading.mode)
        states[path] = FileState(version, reading.stat, 1)
    return states


def seen(
    place: Place, states: dict[RepoPath, FileState], paths: Iterable[RepoPath]
) -> ObservedChanges:
    return observe(place.files, place.coverage, states, paths, NOW)


def compared(
    place: Place, states: dict[RepoPath, FileState], skipped: Iterable[RepoPath] = ()
) -> Suspects:
    found = walk(place.files, place.coverage)
    return suspects(found, States.of(states), place.files, skipped)


def changed(found: ObservedChanges) -> dict[bytes, bytes | None]:
    return {
        change.path: change.after.data if change.after else None
        for change in found.changes
    }


def test_file_that_grows_before_it_is_read_is_judged_by_what_was_read(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = open_place(repo)
    repo.write("new", "x")
    repo.write("late", "x")
    read = place.files.read

    def grow(path: RepoPath) -> Reading | None:
        repo.write(os.fsdecode(path), "x" * {b"new": 20, b"late": 2000}[path])
        return read(path)

    monkeypatch.setattr(place.files, "read", grow)
    found = seen(place, {}, [RepoPath(b"new"), RepoPath(b"late")])
    assert changed(found) == {b"new": b"x" * 20}
    assert [(path, one.reason) for path, one in found.excluded] == [
        (b"late", TOO_LARGE)
    ]


def test_suspects_are_what_differs_by_stat(repo: Repo) -> None:
    place = open_place(repo)
    states = recorded(place)
    assert compared(place, states) == Suspects([], [], [])
    repo.write("a", "other")
    repo.delete("b")
    repo.write("new", "x")
    assert compared(place, states) == Suspects([A, RepoPath(b"new")], [B], [])


def test_racy_file_is_suspect_although_its_stat_is_the_same(repo: Repo) -> None:
    place = open_place(repo)
    states = recorded(place)
    old = states[A]
    states[A] = FileState(old.version, old.stat, 1, racy=True)
    assert compared(place, states).read == [A]


def test_path_left_coverage_when_a_rule_hides_it(repo: Repo) -> None:
    repo.write("x", "x")
    repo.write("big", "x")
    place = open_place(repo)
    states = recorded(place)
    repo.write(".agent-undoignore", "x\n")
    repo.write("big", "x" * 2000)
    place.coverage.reload()
    found = compared(place, states)
    assert found.left_coverage == [b"big", b"x"]
    assert found.gone == []


def test_path_left_coverage_when_its_directory_became_a_repository(
    repo: Repo,
) -> None:
    """GIT-08: also what vanished in it leaves by coverage, never by deletion."""
    repo.write("vendor/x", "x")
    repo.write("vendor/y", "y")
    place = open_place(repo)
    states = recorded(place)
    repo.git("init", "--quiet", "vendor")
    repo.delete("vendor/y")
    found = compared(place, states)
    assert found.left_coverage == [b"vendor/x", b"vendor/y"]
    assert found.gone == []
    assert changed(seen(place, states, [RepoPath(b"vendor/y")])) == {}


def test_ignored_directory_that_is_deleted_is_gone(repo: Repo) -> None:
    repo.write("build/x", "x")
    place = open_place(repo)
    states = recorded(place)
    repo.write(".gitignore", "build/\n")
    repo.delete("build")
    assert compared(place, states).gone == [b"build/x"]


def test_sparse_paths_are_not_deleted(repo: Repo) -> None:
    """GIT-10: what a sparse checkout removes leaves coverage."""
    repo.write("in/x", "x")
    repo.write("out/x", "x")
    repo.commit("two directories")
    place = open_place(repo)
    states = recorded(place)
    repo.git("sparse-checkout", "set", "--cone", "in")
    assert not repo.exists("out/x")
    place = open_place(repo)
    found = compared(place, states, place.coverage.left_out())
    assert (found.gone, found.left_coverage) == ([], [b"out/x"])
    assert changed(seen(place, states, [RepoPath(b"out/x")])) == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads files whatever their mode")
def test_nothing_is_said_of_what_an_unreadable_directory_hides(repo: Repo) -> None:
    repo.write("closed/x", "x")
    place = open_place(repo)
    states = recorded(place)
    repo.chmod("closed", 0)
    found = compared(place, states)
    repo.chmod("closed", 0o755)
    assert found == Suspects([], [], [])


def test_covered_file_that_a_walk_missed_is_read(repo: Repo) -> None:
    place = open_place(repo)
    states = recorded(place)
    found = walk(place.files, place.coverage)
    del found.files[A]
    assert suspects(found, States.of(states), place.files) == Suspects([A], [], [])


def test_observe_finds_writes_creations_and_deletions(repo: Repo) -> None:
    place = open_place(repo)
    states = recorded(place)
    repo.write("a", b"\xff\r\n")
    repo.delete("b")
    repo.write("new", "")
    found = seen(place, states, [A, B, C, RepoPath(b"new"), RepoPath(b"never")])
    assert changed(found) == {b"a": b"\xff\r\n", b"b": None, b"new": b""}
    assert [change.before for change in found.changes] == [states[A], states[B], None]


def test_observe_tells_a_mode_from_a_touch(repo: Repo) -> None:
    """CAP-17: `chmod` is a change; `touch` and the same bytes again are new stats only."""
    place = open_place(repo)
    states = recorded(place)
    repo.chmod("a", 0o755)
    os.utime(repo.path("b"))
    repo.write("c", repo.read("c"))
    found = seen(place, states, [A, B, C])
    assert [change.path for change in found.changes] == [A]
    assert [path for path, _ in found.restat] == [B, C]
    fresh = dict(found.restat)[B]
    assert (fresh.version, fresh.seen_ns) == (states[B].version, NOW)


def test_file_that_became_a_directory_is_deleted_and_to_be_listed(repo: Repo) -> None:
    place = open_place(repo)
    states = recorded(place)
    repo.delete("a")
    repo.write("a/x", "x")
    found = seen(place, states, [A])
    assert changed(found) == {b"a": None}
    assert found.directories == [A]


def test_path_below_a_link_is_absent(repo: Repo) -> None:
    repo.write("d/x", "x")
    place = open_place(repo)
    states = recorded(place)
    repo.rename("d", "e")
    repo.symlink("d", "e")
    found = seen(place, states, [RepoPath(b"d"), RepoPath(b"d/x")])
    assert changed(found) == {b"d": b"e", b"d/x": None}


def test_file_replaced_by_a_pipe_is_deleted_and_named(repo: Repo) -> None:
    place = open_place(repo)
    states = recorded(place)
    repo.delete("a")
    os.mkfifo(repo.path("a"))
    found = seen(place, states, [A])
    assert changed(found) == {b"a": None}
    assert [item.reason for _, item in found.excluded] == ["fifo"]


def test_excluded_path_is_named_and_not_read(repo: Repo) -> None:
    """CAP-08: the write that is too large is seen, never recorded."""
    repo.write(".gitignore", "x.o\n")
    repo.write("x.o", "x")
    place = open_place(repo)
    states = recorded(place)
    repo.write("a", "x" * 2000)
    found = seen(place, states, [A, RepoPath(b"x.o")])
    assert changed(found) == {}
    assert [item.reason for _, item in found.excluded] == ["too large", "ignored"]


def test_new_rule_counts_for_files_that_come_with_it(repo: Repo) -> None:
    place = open_place(repo)
    states = recorded(place)
    repo.write("secret", "x")
    repo.write(".gitignore", "secret\n")
    paths = [RepoPath(b".gitignore"), RepoPath(b"secret")]
    assert changed(seen(place, states, paths)) == {b".gitignore": b"secret\n"}


def test_tracked_file_in_an_ignored_directory_is_deleted_with_it(repo: Repo) -> None:
    repo.write("build/kept", "x")
    repo.commit("kept")
    repo.write(".gitignore", "build/\n")
    place = open_place(repo)
    states = recorded(place)
    repo.git("rm", "--quiet", "build/kept")
    repo.commit("gone")
    assert changed(seen(place, states, [RepoPath(b"build/kept")])) == {
        b"build/kept": None
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads files whatever their mode")
def test_unreadable_file_stops_no_other(repo: Repo) -> None:
    """CAP-20: the bad one has its reason, the others are recorded."""
    place = open_place(repo)
    states = recorded(place)
    for name in ("a", "b", "c"):
        repo.write(name, "new")
    repo.chmod("b", 0)
    found = seen(place, states, [A, B, C])
    assert changed(found) == {b"a": b"new", b"c": b"new"}
    assert found.unreadable == [(B, "Permission denied")]
