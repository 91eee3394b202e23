"""V1 and V3 as one sentence: `with kept(repo, "a"):` nothing but `a` may change."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.repo import PathLike, Repo


@contextmanager
def kept(repo: Repo, *named: PathLike) -> Iterator[None]:
    """Check that the block leaves the user's Git state and all other paths alone.

    A directory among the named paths stands for everything below it.
    """
    git, tree = repo.snapshot(), repo.tree_snapshot(exclude=named)
    yield
    assert repo.snapshot() == git
    assert repo.tree_snapshot(exclude=named) == tree
