"""A worktree under undo, without daemon and engine."""

from collections.abc import Iterator

import pytest

from tests.support.repo import Repo
from tests.undo.recorder_world import Yard


@pytest.fixture
def yard(repo: Repo) -> Iterator[Yard]:
    """Return R with a recorder."""
    made = Yard.open(repo.root)
    yield made
    made.close()
