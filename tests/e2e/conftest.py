"""What the acceptance rows share: the check after every row."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.repo import Repo


@pytest.fixture
def untouched(repo: Repo) -> Iterator[Callable[[], None]]:
    """Check V1 over the whole test; call it after a Git action of the row's own."""
    kept = [repo.snapshot()]

    def renew() -> None:
        kept[0] = repo.snapshot()

    yield renew
    assert repo.snapshot() == kept[0]
