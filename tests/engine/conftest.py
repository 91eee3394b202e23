"""A worktree that is recorded in the test's own process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of


@pytest.fixture
def open_studio() -> Iterator[Callable[[Repo], Studio]]:
    """Return a function that opens a repository, initialised where it is not."""
    with ExitStack() as stack:
        yield lambda repo: stack.enter_context(studio_of(repo))


@pytest.fixture
def studio(repo: Repo, open_studio: Callable[[Repo], Studio]) -> Studio:
    """Return R, recorded from now on."""
    return open_studio(repo)
