"""Locks that a killed process left on our refs, and locks that somebody holds."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.repo import SHADOW_REFS, Repo
from tests.support.studio import studio_of


def locked(repo: Repo) -> Path:
    """Record one write, and return a lock file on its ref as a killed process leaves it."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", "one\n")
    names = repo.git("for-each-ref", "--format=%(refname)", SHADOW_REFS).split()
    (ref,) = [one for one in names if "/claude-code" in one]
    lock = repo.root / ".git" / f"{ref}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    return lock


def ref_of(lock: Path) -> str:
    """Return the name of the ref that a lock is for."""
    return f"{SHADOW_REFS}{lock.stem}"


@contextmanager
def git_in(place: Path) -> Iterator[None]:
    """Run a git that waits for its input, in a directory."""
    git = subprocess.Popen(["git", "cat-file", "--batch"], cwd=place, stdin=-1)
    try:
        yield
    finally:
        git.communicate(timeout=60)


def test_lock_that_a_killed_process_left_is_removed_at_the_next_start(
    repo: Repo,
) -> None:
    lock = locked(repo)
    with studio_of(repo) as studio:
        assert not lock.exists()
        tip = repo.git("rev-parse", ref_of(lock))
        studio.write("S1", "a", "two\n")
        assert repo.git("rev-parse", f"{ref_of(lock)}~") == tip


def test_lock_that_a_process_has_open_stays(repo: Repo) -> None:
    lock = locked(repo)
    with lock.open("wb"), studio_of(repo):
        assert lock.exists()


def test_lock_stays_while_a_git_runs_in_the_repository(repo: Repo) -> None:
    """Git closes the locks of a transaction before it writes the refs."""
    lock = locked(repo)
    with git_in(repo.root), studio_of(repo):
        assert lock.exists()


def test_git_of_another_repository_keeps_no_lock(repo: Repo, tmp_path: Path) -> None:
    lock = locked(repo)
    other = Repo.create(tmp_path / "other")
    with git_in(other.root), studio_of(repo):
        assert not lock.exists()
