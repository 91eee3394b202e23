"""A worktree that is recorded in the test's own process, and a journal alone."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gitshadow.store.journal.db import Db
from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Db]:
    """Return an empty journal on the disk."""
    with closing(Db.open(str(tmp_path / "journal.db"), create=True)) as opened:
        yield opened


@pytest.fixture
def open_studio() -> Iterator[Callable[[Repo], Studio]]:
    """Return a function that opens a repository, initialised where it is not."""
    with ExitStack() as stack:
        yield lambda repo: stack.enter_context(studio_of(repo))


@pytest.fixture
def studio(repo: Repo, open_studio: Callable[[Repo], Studio]) -> Studio:
    """Return R, recorded from now on."""
    return open_studio(repo)


@pytest.fixture
def server(repo: Repo, make_repo: Callable[..., Repo]) -> Repo:
    """Return a bare repository that both sides know."""
    bare = make_repo("server", files=())
    bare.git("config", "core.bare", "true")
    return bare


@pytest.fixture
def ann(repo: Repo, server: Repo, open_studio: Callable[[Repo], Studio]) -> Studio:
    """Return a machine that records, with the server as origin."""
    repo.git("remote", "add", "origin", str(server.root))
    return open_studio(repo)


@pytest.fixture
def bob(
    ann: Studio,
    server: Repo,
    make_repo: Callable[..., Repo],
    open_studio: Callable[[Repo], Studio],
) -> Studio:
    """Return a colleague's clone of what Ann has committed so far."""
    ann.repo.git("push", "--quiet", "origin", "HEAD:refs/heads/main")
    other = make_repo("bob", files=())
    other.git("remote", "add", "origin", str(server.root))
    other.git("fetch", "--quiet", "origin")
    other.git("reset", "--quiet", "--hard", "origin/main")
    return open_studio(other)
