"""A search of every object of a repository, reachable or not, for texts.

Invariant: reads only; what is too large to be read whole is counted, never passed over.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gitshadow.model import Oid
from gitshadow.store.git import Git
from gitshadow.store.purged import holds
from gitshadow.store.repo import Repo

_MOST_BYTES = 256 * 1024 * 1024


class Holding(NamedTuple):
    """Hold the objects with a text in them; of trees it stands in the name of a file."""

    blobs: frozenset[Oid] = frozenset()
    commits: frozenset[Oid] = frozenset()
    trees: frozenset[Oid] = frozenset()
    unsearched: int = 0


def search(git: Git, repo: Repo, forms: Sequence[bytes]) -> Holding:
    """Return every object that holds one of the forms of some texts.

    Raises:
        StoreError: an object could not be read.
    """
    found: dict[str, set[Oid]] = {"blob": set(), "commit": set(), "tree": set()}
    unsearched = 0
    for oid, kind, size in git.all_objects():
        if size > _MOST_BYTES:
            unsearched += 1
        elif kind in found and holds(repo.raw(oid), forms):
            found[kind].add(oid)
    return Holding(
        frozenset(found["blob"]),
        frozenset(found["commit"]),
        frozenset(found["tree"]),
        unsearched,
    )
