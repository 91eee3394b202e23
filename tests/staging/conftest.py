"""A worktree whose turns are staged, without a daemon."""

from collections.abc import Iterator

import pytest

from tests.staging.ground import Ground
from tests.support.engine import Engine
from tests.support.repo import Repo


@pytest.fixture
def ground(repo: Repo) -> Iterator[Ground]:
    """Return R, recorded from now on."""
    made = Engine.open(repo.root)
    yield Ground(made)
    made.close()
