"""Places that are not recorded, and who writes there next."""

import os
import shutil
import subprocess
from typing import NoReturn

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitshadow.capture.coverage import Coverage
from gitshadow.capture.reconcile import walk
from gitshadow.config import WatchBackend
from gitshadow.model import Excluded, RepoPath
from gitshadow.platform import current
from gitshadow.platform.watching import Hints
from gitshadow.recording import walker
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import state
from tests.support.context import desk_of
from tests.support.repo import Repo
from tests.support.reports import items
from tests.support.studio import studio_of


def test_a_file_that_replaced_a_fifo_is_created_by_who_wrote_it(repo: Repo) -> None:
    os.mkfifo(repo.path("pipe"))
    with studio_of(repo) as studio:
        studio.context.observer.settle()
        repo.delete("pipe")
        studio.write("S1", "pipe", "agent\n")
        report = studio.run("undo", verb="oops", yes=True)
        assert (report["status"], repo.exists("pipe")) == ("reversed", False)


def test_ignore_file_that_hides_itself_comes_back_with_what_it_hid(repo: Repo) -> None:
    """The files are Git's to ignore, so only what is not tracked leaves the recording.

    What the same unit wrote while it was hidden is the unit's, too.
    """
    repo.write(".gitignore", "*.log\n")
    repo.write("draft", "mine\n")
    with studio_of(repo) as studio:
        studio.write("S1", "draft", "agent\n")
        studio.write("S1", "made", "agent\n")
        studio.write("S1", ".gitignore", "*\n")
        studio.write("S1", "made", "hidden\n")
        report = studio.run("undo", verb="oops", yes=True)
        found = {path: item["reason"] for path, item in items(report).items()}
        assert found == {"draft": None, ".gitignore": None, "made": None}
        assert repo.read(".gitignore") == b"*.log\n"
        assert repo.read("draft") == b"mine\n"
        assert not repo.exists("made")
        studio.run("undo", verb="redo", yes=True)
        assert repo.read("made") == b"hidden\n"


def test_plan_restores_what_a_nested_rule_file_hid(repo: Repo) -> None:
    """The rule file that is restored uncovers another one, which is restored too."""
    repo.write("sub/.gitignore", "x\n")
    repo.write("sub/y", "mine\n")
    with studio_of(repo) as studio:
        studio.write("S1", "sub/y", "agent\n")
        studio.write("S1", "sub/.gitignore", "y\n")
        studio.write("S1", ".agent-undoignore", "sub/\n")
        report = studio.run("undo", verb="oops", yes=True)
        assert report["status"] == "reversed"
        assert repo.read("sub/.gitignore") == b"x\n"
        assert repo.read("sub/y") == b"mine\n"
        assert not repo.exists(".agent-undoignore")


class _Steps:
    """Change a worktree in ways that make paths covered or uncovered."""

    names = st.sampled_from(
        ["a", "b", "d/a", "d/e/a", "n", "n/e/a", "x.log", "d/x.log"]
    )

    def __init__(self, repo: Repo) -> None:
        self._repo = repo

    def write(self, name: str) -> None:
        self._clear(name)
        self._repo.write(name, "text\n")

    def grow(self, name: str) -> None:
        self._clear(name)
        self._repo.write(name, "x" * 3000)

    def pipe(self, name: str) -> None:
        self._clear(name)
        os.mkfifo(self._repo.path(name))

    def ignore(self, name: str) -> None:
        self._clear(f"{name}/.gitignore")
        self._repo.write(f"{name}/.gitignore", "*.log\nn\n")

    def nest(self, name: str) -> None:
        self._clear(f"{name}/.git")
        subprocess.run(["git", "init", "-q", self._repo.path(name)], check=True)

    def unnest(self, name: str) -> None:
        self.remove(f"{name}/.git")

    def remove(self, name: str) -> None:
        path = self._repo.path(name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)

    def rename(self, name: str) -> None:
        self.remove("moved")
        path = self._repo.path(name.partition("/")[0])
        if os.path.lexists(path):
            os.rename(path, self._repo.path("moved"))

    def _clear(self, name: str) -> None:
        """Make room for a path."""
        self.remove(name)
        parent = os.path.dirname(name)
        if parent:
            if not os.path.isdir(self._repo.path(parent)):
                self._clear(parent)
            os.makedirs(self._repo.path(parent), exist_ok=True)


_STEP = st.tuples(
    st.sampled_from(
        ["write", "grow", "pipe", "ignore", "nest", "unnest", "remove", "rename"]
    ),
    _Steps.names,
)


def _walked(context: RecorderContext, coverage: Coverage) -> list[Excluded]:
    found = walk(context.workspace.files, coverage).excluded
    return sorted((item for item, _ in found), key=lambda one: one.path)


@pytest.mark.parametrize("backend", [WatchBackend.INOTIFY, WatchBackend.WATCHFILES])
@given(batches=st.lists(st.lists(_STEP, min_size=1, max_size=4), max_size=4))
@example([[("nest", "n")], [("unnest", "n")]])
@example([[("nest", "n")], [("rename", "n")], [("grow", "n/e/a")]])
@example([[("nest", "n")], [("write", "d/x.log"), ("rename", "n")], [("ignore", "n")]])
@example([[("nest", "n/e/a")], [("write", "n"), ("ignore", "n/e/a")]])
@example([[("nest", "d")], [("write", "d/a")], [("remove", "d")]])
@example([[("grow", "d/a")], [("write", "d/a")], [("rename", "d/a")]])
@example([[("ignore", "d")], [("write", "d/x.log")], [("remove", "d/.gitignore")]])
def test_what_is_known_to_be_excluded_is_what_a_walk_finds(
    tmp_path_factory: pytest.TempPathFactory,
    backend: WatchBackend,
    batches: list[list[tuple[str, str]]],
) -> None:
    repo = Repo.create(tmp_path_factory.mktemp("excluded"))
    repo.git("config", "agent-undo.maxFileSize", "2000")
    repo.write(".gitignore", "*.log\n")
    steps = _Steps(repo)
    with desk_of(repo) as context:
        ws = context.workspace
        watcher = current().open_watcher(backend, ws.layout, lambda: None)
        try:
            context.observer.start(watcher)
            for batch in batches:
                for step, name in batch:
                    getattr(steps, step)(name)
                context.observer.settle()
                found, coverage = context.walker.excluded_now(), ws.coverage
                # An ignored repository is one or the other, whichever was seen first.
                paths = [one.path for one in _walked(context, coverage.under({}))]
                assert [one.path for one in found] == paths
                assert list(found) == _walked(context, coverage)
        finally:
            watcher.close()


def test_status_beside_a_watcher_walks_nothing(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write(".gitignore", "*.log\n")
    with studio_of(repo) as studio:
        layout = studio.context.workspace.layout
        watcher = current().open_watcher(WatchBackend.INOTIFY, layout, lambda: None)
        try:
            studio.context.observer.start(watcher)
            studio.run("status")  # what was new before the watcher is listed once more
            repo.write("new.log", "1\n")
            monkeypatch.setattr(walker, "walk", _fail)
            answer = studio.run("status")
        finally:
            watcher.close()
    assert isinstance(answer["coverage"], dict)
    assert [row["path"] for row in answer["coverage"]["excluded"]] == ["new.log"]


def _fail(*_: object) -> NoReturn:
    raise AssertionError("status walked")


def test_what_is_in_the_git_directory_of_an_inner_repository_is_no_place_of_its_own(
    repo: Repo,
) -> None:
    """CAP-05: the repository alone is named, and not `inner/.git/info` as another one."""
    with desk_of(repo) as context:
        context.observer.settle()
        context.walker.excluded_now()
        inner = Repo.create(repo.root / "inner")
        deep = [b"inner/.git/info", b"inner/.git/info/exclude", b"inner/.git/hooks"]
        inner.write(".git/info/exclude", "*.log\n")
        context.observer.hints(Hints(frozenset(map(RepoPath, deep))))
        context.pipeline.capture([RepoPath(deep[1])])  # later, as a file just written
        seen = context.pipeline.uncovered.reasons
        assert seen is not None
        assert set(seen) == {b"inner"}
        ws = context.workspace
        assert set(state.load_excluded(ws.db, ws.layout.worktree)) == {b"inner"}
        assert [one.reason for one in context.walker.excluded_now()] == [
            "another repository"
        ]
