"""Remotes that would get the recorded history, and remedies that keep it here."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.sharing.remotes import Leak, leaks, remedy, warning
from gitshadow.store.repo import Repo as Store
from tests.support.repo import Repo
from tests.support.studio import layout_of

OURS = "refs/agent-undo/s1"
SHOWN = "refs/remotes/agent-undo/s1"


@pytest.fixture
def store(repo: Repo) -> Iterator[Store]:
    opened = Store.open(layout_of(repo))
    yield opened
    opened.close()


@pytest.fixture
def there(repo: Repo, tmp_path: Path) -> Repo:
    """Return a bare repository that is the remote `there is`."""
    bare = Repo(tmp_path / "there.git")
    repo.git("init", "-q", "--bare", str(bare.root))
    repo.git("config", "remote.there is.url", str(bare.root))
    repo.git("update-ref", OURS, "HEAD")
    repo.git("tag", "v1")
    return bare


@pytest.mark.parametrize(
    ("key", "value", "mirrors"),
    [("mirror", "true", True), ("push", "+refs/*:refs/*", False)],
)
def test_remedy_keeps_our_refs_here_and_sends_the_others(
    repo: Repo, store: Store, there: Repo, key: str, value: str, mirrors: bool
) -> None:
    repo.git("config", f"remote.there is.{key}", value)
    (leak,) = leaks(store)
    assert leak == Leak("there is", mirrors)
    commands, _, told = remedy(leak).partition("; then ")
    assert bool(told) is mirrors
    subprocess.run(["sh", "-ec", commands], cwd=repo.root, check=True)
    assert leaks(store) == []
    repo.git("push", "-q", "there is")
    assert sorted(there.git("for-each-ref", "--format=%(refname)").split()) == [
        "refs/heads/main",
        "refs/tags/v1",
    ]


def test_shown_session_counts_as_long_as_it_is_shown(
    repo: Repo, store: Store, there: Repo
) -> None:
    repo.git("config", "--add", "remote.there is.push", "+refs/*:refs/*")
    repo.git("config", "--add", "remote.there is.push", "^refs/agent-undo/*")
    assert leaks(store) == []
    repo.git("update-ref", SHOWN, "HEAD")
    assert [leak.remote for leak in leaks(store)] == ["there is"]


def test_warning_says_which_and_why() -> None:
    assert warning(Leak("backup", True)) == (
        "a push to backup would send the recorded history: it mirrors all refs"
    )
    assert "its push refspecs cover all refs" in warning(Leak("backup", False))
