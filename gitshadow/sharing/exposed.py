"""Sessions that are exposed as remote branches, and how their refs are recognised."""

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.store.repo import FORMAT_MARK, Repo


def is_ours(repo: Repo, tip: Oid) -> bool:
    """Return whether a commit is a shadow commit; False where it cannot be read."""
    try:
        return FORMAT_MARK in repo.commit(tip).message
    except StoreError:
        return False
