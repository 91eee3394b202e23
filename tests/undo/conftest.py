"""A worktree under undo, without a daemon."""

from collections.abc import Iterator

import pytest

from tests.support.engine import Engine
from tests.support.repo import Repo


@pytest.fixture
def engine(repo: Repo) -> Iterator[Engine]:
    """Return R, recorded from now on."""
    made = Engine.open(repo.root)
    yield made
    made.close()
