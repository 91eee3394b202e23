"""Where nothing watches, a look at what may differ finds the same as a walk of everything."""

import os
import shutil
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitshadow.capture import reconcile
from gitshadow.model import RepoPath
from gitshadow.recording import index, walker
from gitshadow.recording.context import RecorderContext
from tests.conftest import FULL
from tests.support.context import desk_of
from tests.support.repo import Repo

_SECOND_NS = 1_000_000_000


@pytest.fixture(autouse=True)
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the smallest index count as a large one."""
    monkeypatch.setattr(index, "_SMALL", 0)


@pytest.fixture
def large(repo: Repo) -> Repo:
    """Return R with some directories, files that are not tracked, and an index that is no news."""
    for path in ("d/one", "d/two", "d/e/three", "f/four"):
        repo.write(path, f"{path}\n")
    repo.write(".gitignore", "*.log\nout/\n")
    repo.commit("all of it")
    repo.write("d/new", "not tracked\n")
    repo.write("d/x.log", "ignored\n")
    repo.write("out/built", "ignored\n")
    age(repo)
    return repo


def age(repo: Repo) -> None:
    """Wait for the second after that in which Git wrote the index: it compares whole ones."""
    written_ns = os.stat(repo.path(".git/index")).st_mtime_ns
    while time.time_ns() // _SECOND_NS <= written_ns // _SECOND_NS:
        time.sleep(0.02)
    time.sleep(0.02)  # the file system's clock may be a tick late


def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which every walk of everything is added."""
    made: list[int] = []
    whole = reconcile.walk

    def counted(*args: object) -> reconcile.Walk:
        made.append(1)
        return whole(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(walker, "walk", counted)
    return made


def states(context: RecorderContext) -> dict[bytes, tuple[str, int]]:
    held = context.workspace.states.all()
    return {path: (one.version.oid, one.version.mode) for path, one in held.items()}


def test_a_second_barrier_walks_no_more(
    large: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk_of(large) as context:
        context.observer.settle()
    made = walks(monkeypatch)
    with desk_of(large) as context:
        context.observer.settle()
        found = [one.path for one in context.walker.excluded_now()]
    assert (made, found) == ([], [b"d/x.log", b"out"])


def _rewrite(repo: Repo) -> None:
    repo.write("d/one", "changed\n")


def _same_size(repo: Repo) -> None:
    stat = os.stat(repo.path("d/one"))
    repo.write("d/one", "D/ONE\n")
    os.utime(repo.path("d/one"), ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _untracked(repo: Repo) -> None:
    repo.write("d/new", "changed\n")


def _chmod(repo: Repo) -> None:
    repo.chmod("d/two", 0o600)


def _chmod_untracked(repo: Repo) -> None:
    repo.chmod("d/new", 0o700)


def _delete(repo: Repo) -> None:
    repo.delete("d/e/three")


def _delete_untracked(repo: Repo) -> None:
    repo.delete("d/new")


def _create(repo: Repo) -> None:
    repo.write("d/e/deep/er/new", "new\n")


def _file_for_directory(repo: Repo) -> None:
    shutil.rmtree(repo.path("f"))
    repo.write("f", "a file\n")


def _link_for_file(repo: Repo) -> None:
    repo.delete("d/one")
    os.symlink("two", repo.path("d/one"))


def _move_directory(repo: Repo) -> None:
    os.rename(repo.path("d/e"), repo.path("moved"))


def _delete_moved(repo: Repo) -> None:
    shutil.rmtree(repo.path("moved"))


def _new_rules(repo: Repo) -> None:
    repo.write("d/.gitignore", "new\n")


def _other_rules(repo: Repo) -> None:
    repo.write(".gitignore", "out/\n")


def _rules_of_the_clone(repo: Repo) -> None:
    repo.write(".git/info/exclude", "new\n")


def _nested(repo: Repo) -> None:
    subprocess.run(["git", "init", "-q", repo.path("d")], check=True)


def _staged(repo: Repo) -> None:
    repo.write("a", "changed\n")
    repo.git("add", "a")


def _refreshed_mode(repo: Repo) -> None:
    """Git's index has the same mode before and after."""
    repo.chmod("b", 0o640)
    repo.git("update-index", "--refresh", check=False)


def _ends_converted(repo: Repo) -> None:
    """Git's index has the same blob before and after."""
    repo.git("config", "core.autocrlf", "input")
    repo.write("c", repo.read("c").replace(b"\n", b"\r\n"))
    repo.git("add", "c")


_CHANGES = (
    _rewrite,
    _same_size,
    _untracked,
    _chmod,
    _chmod_untracked,
    _delete,
    _delete_untracked,
    _create,
    _file_for_directory,
    _link_for_file,
    _rules_of_the_clone,
    _new_rules,
    _move_directory,
    _delete_moved,
    _nested,
    _other_rules,
    _staged,
    _refreshed_mode,
    _ends_converted,
)


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_look_at_less_records_what_a_walk_would(large: Repo, rounds: int) -> None:
    """A walk of everything finds nothing more, after each of many changes."""
    for change in _CHANGES:
        for _ in range(rounds):
            with desk_of(large) as context:
                context.observer.settle()
        change(large)
        with desk_of(large) as context:
            context.observer.settle()
            quick = states(context)
            excluded = {one.path for one in context.walker.excluded_now()}
            context.walker.full()
            assert states(context) == quick, change.__name__
            found = {one.path for one in context.walker.excluded_now()}
            assert found == excluded, change.__name__


def test_a_look_at_less_finds_a_deleted_directory(large: Repo) -> None:
    with desk_of(large) as context:
        context.observer.settle()
    shutil.rmtree(large.path("d"))
    with desk_of(large) as context:
        context.observer.settle()
        assert sorted(states(context)) == [b".gitignore", b"a", b"b", b"c", b"f/four"]


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_what_git_does_not_compare_is_walked(large: Repo, flag: str) -> None:
    large.git("update-index", flag, "d/one")
    age(large)
    with desk_of(large) as context:
        context.observer.settle()
    large.write("d/one", "changed\n")
    with desk_of(large) as context:
        context.observer.settle()
        held = context.workspace.states.all()[RepoPath(b"d/one")]
        assert context.workspace.repo.read_blob(held.version.oid) == b"changed\n"


def test_a_clone_that_ignores_ctime_is_looked_at_with_it(large: Repo) -> None:
    large.git("config", "core.trustctime", "false")
    large.git("config", "core.checkStat", "minimal")
    with desk_of(large) as context:
        context.observer.settle()
    _same_size(large)
    with desk_of(large) as context:
        context.observer.settle()
        held = context.workspace.states.all()[RepoPath(b"d/one")]
        assert context.workspace.repo.read_blob(held.version.oid) == b"D/ONE\n"


def test_an_index_that_was_just_written_is_no_witness(
    large: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk_of(large) as context:
        os.utime(large.path(".git/index"))
        context.observer.settle()
    made = walks(monkeypatch)
    with desk_of(large) as context:
        context.observer.settle()
    assert made == [1]


def test_nothing_vouches_for_states_that_are_dropped(
    large: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk_of(large) as context:
        context.observer.settle()
        with context.workspace.db.write():
            context.workspace.states.take_out()
    made = walks(monkeypatch)
    with desk_of(large) as context:
        context.observer.settle()
    assert made


class _Changes:
    """Change a worktree at random places."""

    paths = ("a", "d/one", "d/new", "d/e/three", "d/x.log", "g/h/i", "out/built")

    def __init__(self, repo: Repo) -> None:
        self._repo = repo

    def write(self, path: str, text: str) -> None:
        self.remove(path, text)
        parts = path.split("/")
        for depth in range(1, len(parts)):
            above = self._repo.path("/".join(parts[:depth]))
            if os.path.isfile(above):
                os.unlink(above)
        self._repo.write(path, text)

    def remove(self, path: str, _: str) -> None:
        there = self._repo.path(path)
        if os.path.isdir(there):
            shutil.rmtree(there)
        elif os.path.lexists(there):
            os.unlink(there)

    def chmod(self, path: str, _: str) -> None:
        if os.path.isfile(self._repo.path(path)):
            self._repo.chmod(path, 0o600)


_STEP = st.tuples(
    st.sampled_from(["write", "write", "remove", "chmod"]),
    st.sampled_from([*_Changes.paths, "d", "g"]),
    st.sampled_from(["x\n", "y\n", "longer\n"]),
)


@settings(max_examples=100 if FULL else 5)  # each waits for a second to end
@given(rounds=st.lists(st.lists(_STEP, max_size=3), max_size=5))
def test_looks_at_less_record_what_walks_would(
    tmp_path_factory: pytest.TempPathFactory,
    rounds: list[list[tuple[str, str, str]]],
) -> None:
    repo = Repo.create(tmp_path_factory.mktemp("last"))
    repo.write(".gitignore", "*.log\nout/\n")
    repo.write("d/one", "1\n")
    repo.commit("some")
    age(repo)
    changes = _Changes(repo)
    for steps in rounds:
        for name, path, text in steps:
            getattr(changes, name)(path, text)
        with desk_of(repo) as context:
            context.observer.settle()
    with desk_of(repo) as context:
        context.observer.settle()
        quick = states(context)
        context.walker.full()
        assert states(context) == quick
