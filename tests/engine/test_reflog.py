"""What Git's log of HEAD says of how it moved."""

import pytest

from gitshadow.engine.reflog import only_commits
from gitshadow.model import Oid
from tests.support.repo import Repo


def head(repo: Repo) -> Oid:
    return Oid(repo.git("rev-parse", "HEAD").strip())


def moved(repo: Repo, *commands: str) -> bool:
    """Run git commands; tell what is said of the move of HEAD that they made."""
    old = head(repo)
    for command in commands:
        repo.git(*command.split())
    return only_commits(str(repo.git_dir), old, head(repo))


@pytest.fixture
def changed(repo: Repo) -> Repo:
    repo.git("branch", "other")
    repo.write("a", "changed\n")
    return repo


@pytest.mark.parametrize(
    "commands",
    [
        ("commit -qam x",),
        ("commit -qam x", "commit -q --amend -m y"),
        ("checkout -qb new", "commit -qam x"),
        ("stash -q", "stash pop -q", "commit -qam x"),
        ("commit -qam x", "commit -q --allow-empty -m y"),
        # There and back again changes no file.
        ("commit -qam x", "checkout -q other", "commit -q --allow-empty -m y"),
        ("commit -qam x", "reset -q --hard HEAD~1", "commit -q --allow-empty -m y"),
    ],
)
def test_commits_alone_are_told(changed: Repo, commands: tuple[str, ...]) -> None:
    assert moved(changed, *commands)


@pytest.mark.parametrize(
    "commands",
    [
        ("commit -qam x", "checkout -q other", "merge -q main"),
        ("commit -qam x", "checkout -q other", "cherry-pick main"),
        ("commit -qam x", "revert --no-edit HEAD"),
        ("commit -qam x", "reset -q --hard HEAD~1", "merge -q main@{1}"),
    ],
)
def test_anything_else_is_not(changed: Repo, commands: tuple[str, ...]) -> None:
    assert not moved(changed, *commands)


def test_first_commit_is_one(make_unborn: Repo) -> None:
    repo = make_unborn
    repo.write("a", "1\n")
    repo.git("add", "a")
    repo.git("commit", "-qm", "first")
    assert only_commits(str(repo.git_dir), None, head(repo))


@pytest.fixture
def make_unborn(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return Repo.create(tmp_path_factory.mktemp("unborn") / "repo", ())


def test_nothing_is_claimed_without_a_log(changed: Repo) -> None:
    changed.git("config", "core.logAllRefUpdates", "false")
    old = head(changed)
    (changed.git_dir / "logs" / "HEAD").unlink()
    changed.git("commit", "-qam", "x")
    assert not only_commits(str(changed.git_dir), old, head(changed))


def test_nothing_is_claimed_of_another_head(changed: Repo) -> None:
    changed.git("commit", "-qam", "x")
    assert not only_commits(str(changed.git_dir), Oid("1" * 40), head(changed))
    assert not only_commits(str(changed.git_dir), head(changed), Oid("1" * 40))
