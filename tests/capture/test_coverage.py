"""What is recorded and what is not, in real repositories."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitshadow.capture.coverage import Coverage
from gitshadow.capture.reconcile import walk
from gitshadow.model import RepoPath
from gitshadow.recording.index import IndexView
from gitshadow.recording.workspace import read_config, rules_of
from gitshadow.store.files import WorkFiles
from gitshadow.store.git import Git
from gitshadow.store.object_format import SHA1
from gitshadow.store.repo import Repo as Store
from tests.support.repo import Repo
from tests.support.studio import layout_of

LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Place:
    repo: Repo
    files: WorkFiles
    coverage: Coverage

    def why(self, path: str | bytes) -> str | None:
        """Return why a path is not covered, None where it is."""
        at = RepoPath(os.fsencode(path))
        look, ask = self.files.look(at), self.coverage
        assert look is not None
        found = ask.enters(at) if look.is_dir else ask.verdict(at, look)
        return found.reason if found is not None else None

    def covered(self) -> set[bytes]:
        return set(walk(self.files, self.coverage).files)

    def excluded(self) -> dict[bytes, str]:
        found = walk(self.files, self.coverage).excluded
        return {item.path: item.reason for item, _ in found}


def open_place(repo: Repo, *include: str) -> Place:
    layout = layout_of(repo)
    files = WorkFiles(layout.root, SHA1)
    store = Store.open(layout)
    index = IndexView(layout, Git(layout, dict(os.environ)), store)
    rules = rules_of(read_config(store, os.environ), store, layout)
    rules = rules._replace(max_file_size=LIMIT, include=include)
    return Place(repo, files, Coverage(files, index, rules))


def test_git_is_not_asked_about_a_path_that_no_rule_excludes(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An undo asks for each of its files, and each answer reads HEAD and looks at the index."""
    repo.write(".gitignore", "build/\n")
    repo.write("x/build/z", "x")
    place = open_place(repo)
    asked: list[RepoPath] = []
    monkeypatch.setattr(IndexView, "contains", lambda _, path: asked.append(path))
    for path in (b"a", b"x/y", b"x/build/z"):
        place.coverage.excluded_above(RepoPath(path))
    assert asked == [b"x/build/z"]


def test_directory_patterns_cover_their_contents(repo: Repo) -> None:
    """CAP-03: nothing deep inside an ignored directory is covered."""
    repo.write(".gitignore", "node_modules/\ntarget/\n/build/\n")
    for path in ("node_modules/a/b/c", "x/target/y", "build/z", "x/build/z"):
        repo.write(path, "x")
    place = open_place(repo)
    assert place.why("node_modules/a/b/c") == "ignored"
    assert place.covered() == {b"a", b"b", b"c", b".gitignore", b"x/build/z"}
    assert place.excluded() == {
        b"node_modules": "ignored",
        b"x/target": "ignored",
        b"build": "ignored",
    }


def test_rules_come_from_every_file_that_git_reads(repo: Repo, sealed: Path) -> None:
    """CAP-04: nested files, `info/exclude`, the user's excludes, and `!` across files."""
    repo.write(".gitignore", "*.log\n!keep.log\n")
    repo.write("sub/.gitignore", "!debug.log\nsecret\n")
    repo.write(".git/info/exclude", "local\n")
    (sealed / "config" / "git").mkdir(parents=True)
    (sealed / "config" / "git" / "ignore").write_text("*.swp\n*.tmp\n")
    repo.write("sub/deep/.gitignore", "!x.tmp\n")
    names = ("x.log", "keep.log", "debug.log", "secret", "local", "x.swp", "x.tmp")
    for name in names:
        for directory in ("", "sub", "sub/deep"):
            repo.write(os.path.join(directory, name), "x")
    place = open_place(repo)
    listed = repo.git("ls-files", "-o", "-c", "--exclude-standard").split("\n")
    assert place.covered() == {path.encode() for path in listed}


def test_negated_rule_takes_back_one_of_another_file(repo: Repo) -> None:
    repo.write(".git/info/exclude", "*\n")
    repo.write(".gitignore", "!keep\n")
    repo.write("keep", "x")
    repo.write("other", "x")
    place = open_place(repo)
    assert (place.why("keep"), place.why("other")) == (None, "ignored")


def test_negated_rule_does_not_reach_into_an_ignored_directory(repo: Repo) -> None:
    repo.write(".gitignore", "logs/\n!logs/keep\n")
    repo.write("logs/.gitignore", "!keep\n")
    repo.write("logs/keep", "x")
    assert open_place(repo).why("logs/keep") == "ignored"


def test_configured_excludes_file_counts(repo: Repo, sealed: Path) -> None:
    (sealed / "mine").write_text("*.mine\n")
    repo.git("config", "core.excludesFile", "~/mine")
    repo.write("x.mine", "x")
    assert open_place(repo).why("x.mine") == "ignored"


def test_tracked_files_are_never_ignored(repo: Repo) -> None:
    """CAP-06: a tracked file that a pattern matches is covered, its neighbours are not."""
    repo.write(".gitignore", "build/\n*.log\n")
    for path in ("build/deep/kept", "build/deep/other", "build/n/x", "t.log", "u.log"):
        repo.write(path, "x")
    repo.git("add", "--force", "build/deep/kept", "t.log")
    place = open_place(repo)
    assert place.why("build") is None
    assert place.covered() == {
        *(b"a", b"b", b"c", b".gitignore"),
        *(b"build/deep/kept", b"t.log"),
    }
    assert place.excluded() == {
        b"build/deep/other": "ignored",
        b"build/n": "ignored",
        b"u.log": "ignored",
    }


def test_rules_ignore_what_is_tracked_or_below_an_ignored_directory(repo: Repo) -> None:
    repo.write(".gitignore", "build/\n*.log\n!keep.log\n")
    for path in ("build/deep/kept", "t.log", "keep.log"):
        repo.write(path, "x")
    repo.git("add", "--force", "build/deep/kept", "t.log")
    asked = (b"build/deep/kept", b"t.log", b"keep.log", b"a")
    found = [open_place(repo).coverage.ignores(RepoPath(path)) for path in asked]
    assert found == [True, True, False, False]


def test_file_of_head_counts_as_tracked_when_the_index_lost_it(repo: Repo) -> None:
    repo.write("build/kept", "x")
    repo.commit("kept")
    repo.git("rm", "--quiet", "--cached", "build/kept")
    repo.write(".gitignore", "build/\n")
    assert b"build/kept" in open_place(repo).covered()


def test_own_rules_exclude_and_included_files_are_covered(repo: Repo) -> None:
    """CAP-07: `.agent-undoignore` leaves out, `agent-undo.include` takes in."""
    repo.write(".agent-undoignore", "big/\n*.bin\n!keep.bin\n")
    repo.write(".gitignore", ".env\nkeep.bin\n")
    for path in ("big/x", ".env", "sub/.env", "a.bin", "keep.bin"):
        repo.write(path, "x")
    place = open_place(repo, ".env")
    assert place.why("big/x") == place.why("a.bin") == "agent-undoignore"
    assert place.why(".env") is None
    assert place.why("sub/.env") is None
    assert place.why("keep.bin") == "ignored"
    assert place.excluded()[b"big"] == "agent-undoignore"


def test_own_rules_win_over_tracked_and_included(repo: Repo) -> None:
    repo.write(".agent-undoignore", "a\n.env\n")
    repo.write(".gitignore", ".env\n")
    repo.write(".env", "x")
    place = open_place(repo, ".env")
    assert place.why("a") == place.why(".env") == "agent-undoignore"


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("build/keep", {b"build/keep"}),
        ("/build/sub/", {b"build/sub/keep", b"build/sub/x"}),
        ("build", {b"build/keep", b"build/sub/keep", b"build/sub/x"}),
        ("build/**/keep", {b"build/keep", b"build/sub/keep"}),
        ("build/s*/[k]eep", {b"build/sub/keep"}),
        ("build/**", {b"build/keep", b"build/sub/keep", b"build/sub/x"}),
        ("**/keep", set[bytes]()),
        ("keep", set[bytes]()),
    ],
)
def test_include_reaches_into_ignored_directories_when_it_names_them(
    repo: Repo, pattern: str, covered: set[bytes]
) -> None:
    repo.write(".gitignore", "build/\n")
    for path in ("build/keep", "build/sub/keep", "build/sub/x"):
        repo.write(path, "x")
    place = open_place(repo, pattern)
    assert place.covered() - {b"a", b"b", b"c", b".gitignore"} == covered
    for path in ("build/keep", "build/sub/keep", "build/sub/x"):
        assert (place.why(path) is None) == (path.encode() in covered)


def test_file_over_the_limit_is_too_large(repo: Repo) -> None:
    """CAP-08: the limit itself is covered, one byte more is not; links do not count."""
    repo.write("fits", "x" * LIMIT)
    repo.write("large", "x" * (LIMIT + 1))
    repo.symlink("link", "large")
    place = open_place(repo)
    assert [place.why(path) for path in ("fits", "large", "link")] == [
        None,
        "too large",
        None,
    ]


def test_everything_that_is_no_file_has_its_reason(repo: Repo) -> None:
    """CAP-21: socket, fifo, other repositories and submodules are named, never entered."""
    os.mkfifo(repo.path("pipe"))
    here = os.open(repo.root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/sock")
    os.close(here)
    nested = Repo.create(repo.root / "nested" / "inner")
    Repo.create(repo.root / "unborn", ())
    repo.write("unborn/x", "x")
    repo.write("linked/.git", "gitdir: /nowhere\n")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{nested.blob('a')},mod")
    repo.write("mod/x", "x")
    place = open_place(repo)
    assert place.excluded() == {
        b"pipe": "fifo",
        b"sock": "socket",
        b"nested/inner": "another repository",
        b"unborn": "another repository",
        b"linked": "another repository",
        b"mod": "submodule",
    }
    assert place.why("nested/inner/a") == "another repository"
    assert place.why("mod/x") == "submodule"


@pytest.mark.parametrize(
    "name",
    [".GIT", ".git.", "git~1", ".git\u200c", "a\\.git", ".agent-undo-tmp-1"],
)
def test_names_that_no_git_may_write_are_unsafe(repo: Repo, name: str) -> None:
    repo.write(f"{name}/x", "x")
    repo.write(f"sub/{name}", "x")
    place = open_place(repo)
    assert place.why(f"sub/{name}") == "unsafe name"
    if not name.startswith(".agent"):
        assert place.why(f"{name}/x") == "unsafe name"


@pytest.mark.parametrize("name", [".gitmodules", "sub/.GITMODULES", "GITMOD~1"])
def test_list_of_submodules_is_covered_as_a_file_alone(repo: Repo, name: str) -> None:
    """Git takes no such link, and `git fsck` would refuse our history with it."""
    repo.write(name, "")
    assert open_place(repo).why(name) is None
    repo.delete(name)
    repo.symlink(name, "a")
    assert open_place(repo).why(name) == "unsafe name"
    assert name.encode() not in open_place(repo).covered()


def test_paths_of_the_git_directory_are_unsafe(repo: Repo) -> None:
    assert open_place(repo).why(".git/config") == "unsafe name"


def test_rule_files_are_covered_when_rules_hide_them(repo: Repo) -> None:
    repo.write(".agent-undoignore", "*\n")
    assert open_place(repo).covered() == {b".agent-undoignore"}
    repo.write(".agent-undoignore", "")
    repo.write(".gitignore", "*\n!sub/\n")
    repo.write("sub/.gitignore", "x\n")
    assert b".gitignore" in open_place(repo).covered()
    assert b"sub/.gitignore" in open_place(repo).covered()


def test_rule_file_is_not_covered_when_it_hides_its_own_directory(repo: Repo) -> None:
    """Tools write `*` into their caches: to undo that would uncover all that is in them."""
    repo.write(".venv/.gitignore", "*\n")
    repo.write(".venv/lib", "x")
    repo.write(".gitignore", "build/\n")
    repo.write("build/.gitignore", "x\n")
    place = open_place(repo)
    assert place.why(".venv/.gitignore") == "ignored"
    assert place.why("build/.gitignore") == "ignored"


def _write_own(repo: Repo) -> None:
    repo.write(".agent-undoignore", "a\n")


def _write_top(repo: Repo) -> None:
    repo.write(".gitignore", "a\n")


def _write_exclude(repo: Repo) -> None:
    repo.write(".git/info/exclude", "a\n")


@pytest.mark.parametrize("change", [_write_own, _write_top, _write_exclude])
def test_coverage_is_stale_when_a_rule_file_changed(
    repo: Repo, change: Callable[[Repo], None]
) -> None:
    place = open_place(repo)
    assert not place.coverage.stale()
    change(repo)
    assert place.coverage.stale()
    place.coverage.reload()
    assert not place.coverage.stale()


def test_reload_reads_own_rules_again(repo: Repo) -> None:
    """CAP-09: what a removed rule left out is covered after `reload`."""
    repo.write(".agent-undoignore", "x\n")
    repo.write("x", "x")
    place = open_place(repo)
    assert place.why("x") == "agent-undoignore"
    repo.delete(".agent-undoignore")
    place.coverage.reload()
    assert place.why("x") is None


def test_walk_goes_by_rules_that_changed_meanwhile(repo: Repo) -> None:
    repo.write("sub/x", "x")
    repo.write("sub/deep/x", "x")
    place = open_place(repo)
    assert b"sub/deep/x" in place.covered()
    repo.write("sub/.gitignore", "x\n")
    assert place.covered() == {b"a", b"b", b"c", b"sub/.gitignore"}
    repo.delete("sub/.gitignore")
    assert b"sub/deep/x" in place.covered()


def test_refresh_finds_a_directory_that_became_a_repository(repo: Repo) -> None:
    """GIT-08: `git init vendor` over covered files ends their coverage."""
    repo.write("vendor/deep/x", "x")
    place = open_place(repo)
    assert place.why("vendor/deep/x") is None
    repo.git("init", "--quiet", "vendor")
    place.coverage.refresh([RepoPath(b"vendor/deep/x")])
    assert place.why("vendor/deep/x") == "another repository"
    assert place.coverage.stale()
    repo.delete("vendor/.git")
    place.coverage.refresh([RepoPath(b"vendor/deep/x")])
    assert place.why("vendor/deep/x") is None


def test_refresh_finds_nested_rules_that_changed(repo: Repo) -> None:
    repo.write("sub/x", "x")
    place = open_place(repo)
    assert place.why("sub/x") is None
    repo.write("sub/.gitignore", "x\n")
    place.coverage.refresh([RepoPath(b"sub/x")])
    assert place.why("sub/x") == "ignored"


def test_submodule_ends_coverage_when_it_is_added(repo: Repo) -> None:
    repo.write("mod/x", "x")
    place = open_place(repo)
    assert place.why("mod/x") is None
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.blob('a')},mod")
    assert b"mod/x" not in place.covered()
    assert place.why("mod/x") == "submodule"


def test_path_counts_as_rule_file_when_it_can_change_coverage(repo: Repo) -> None:
    coverage = open_place(repo).coverage
    paths = [b".gitignore", b"x/.gitignore", b".agent-undoignore", b"vendor/.git"]
    assert all(coverage.is_rule_file(RepoPath(path)) for path in paths)
    others = [b"a", b"x/.agent-undoignore", b".gitignore/x", b"x.gitignore"]
    assert not any(coverage.is_rule_file(RepoPath(path)) for path in others)
