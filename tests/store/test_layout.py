"""Where things lie: found as Git finds them, without making anything."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gitshadow.store.layout import Layout, discover, is_bare, recorded
from tests.support.repo import Repo

_HEAVY = {"pygit2", "sqlite3", "click", "dataclasses", "subprocess", "json"}


def real(path: Path) -> str:
    return os.path.realpath(path)


def found_at(place: Path) -> Layout:
    found = discover(str(place))
    assert found is not None
    return found


def test_discover_finds_the_worktree_from_below(repo: Repo) -> None:
    repo.mkdir("d/e")
    for start in (repo.root, repo.root / "d" / "e", repo.root / "d" / "gone" / "x"):
        found = found_at(start)
        assert (found.root, found.git_dir) == (real(repo.root), real(repo.git_dir))
        assert (found.common_dir, found.worktree) == (found.git_dir, "main")


def test_discover_agrees_with_git_when_worktrees_are_linked(
    repo: Repo, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "w 2"), "-b", "side")
    linked = Repo(tmp_path / "w 2")
    found = found_at(linked.root)
    assert found.git_dir == real(linked.git_dir)
    assert found.common_dir == real(repo.git_dir)
    assert found.worktree == "w-2"
    assert found.state_dir == os.path.join(real(repo.git_dir), "agent-undo")
    main = found_at(repo.root)
    assert main.journal == found.journal
    assert main.lock != found.lock
    assert main.socket != found.socket


def test_discover_follows_a_git_file_when_the_git_dir_is_elsewhere(
    tmp_path: Path,
) -> None:
    elsewhere = tmp_path / "elsewhere"
    root = tmp_path / "root"
    Repo(tmp_path).git("init", "-q", f"--separate-git-dir={elsewhere}", str(root))
    found = found_at(root)
    assert (found.git_dir, found.common_dir) == (real(elsewhere), real(elsewhere))
    (root / ".git").write_text("gitdir: ../elsewhere\n")
    assert found_at(root).git_dir == real(elsewhere)


def test_discover_gives_the_real_path_when_reached_by_a_link(
    repo: Repo, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(repo.root)
    assert found_at(tmp_path / "link").root == real(repo.root)


def test_discover_finds_the_inner_repository_first(
    repo: Repo, make_repo: Callable[..., Repo]
) -> None:
    inner = make_repo("repo/inner")
    assert found_at(inner.root).root == real(inner.root)


def test_discover_passes_over_a_git_directory_that_is_none(repo: Repo) -> None:
    repo.mkdir("d/.git")
    repo.write("e/.git", "nonsense")
    for name in ("d", "e"):
        assert found_at(repo.root / name).root == real(repo.root)


def test_discover_is_none_outside_a_worktree(tmp_path: Path) -> None:
    assert discover(str(tmp_path)) is None
    Repo(tmp_path).git("init", "-q", "--bare", "bare.git")
    assert discover(str(tmp_path / "bare.git")) is None
    assert is_bare(str(tmp_path / "bare.git"))
    assert is_bare(str(tmp_path / "bare.git" / "objects"))
    assert not is_bare(str(tmp_path))


def test_everything_of_ours_lies_in_the_state_directory(repo: Repo) -> None:
    found = found_at(repo.root)
    ours = (
        found.journal,
        found.spool_dir,
        found.wt_dir,
        found.lock,
        found.socket,
        found.stamp,
        found.log,
        found.reports_dir,
    )
    assert all(path.startswith(found.state_dir + os.sep) for path in ours)
    assert len(set(ours)) == len(ours)
    assert not os.path.exists(found.state_dir)
    assert not found.initialised


def test_recorded_are_the_worktrees_that_have_a_directory_and_still_stand(
    repo: Repo, tmp_path: Path
) -> None:
    for name in ("one", "two", "three"):
        repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "w" / name))
    for name in ("main", "one", "three", "gone"):
        repo.write(f".git/agent-undo/wt/{name}/lock", "")
    repo.git("worktree", "remove", str(tmp_path / "w" / "three"))
    found = found_at(tmp_path / "w" / "two")
    known = {one.worktree: one.root for one in recorded(found)}
    assert known == {"main": str(repo.root), "one": str(tmp_path / "w" / "one")}


def test_initialised_when_there_is_a_journal(repo: Repo) -> None:
    found = found_at(repo.root)
    repo.write(".git/agent-undo/journal.db", "")
    assert found.initialised


def test_import_is_cheap() -> None:
    code = "import sys, gitshadow.store.layout; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=True,
    )
    assert _HEAVY & set(done.stdout.decode().split()) == set()
