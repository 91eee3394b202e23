"""Objects that a partial clone does not have because its remote has them (git-clone(1), --filter).

Git calls them promised: an object that came from the remote refers to them.
"""

import re
from collections.abc import Iterable

from gitshadow.model import Oid
from gitshadow.store.git import Git
from gitshadow.store.object_format import OID_PATTERN

_PARTIAL = r"^(extensions\.partialclone|remote\..*\.promisor)$"
_MISSING = re.compile(rf"^missing \w+ ({OID_PATTERN})$", re.MULTILINE)
# What git-fsck(1) ends with where objects are missing, or errors were found.
_FOUND = (0, *range(1, 16))


def is_partial(git: Git) -> bool:
    """Return whether a repository has a remote that keeps objects for it.

    Raises:
        StoreError: the configuration cannot be read.
    """
    return bool(git.run("config", "--get-regexp", _PARTIAL, ok=(0, 1)))


def lost(git: Git, missing: Iterable[Oid]) -> list[Oid]:
    """Return which of some missing objects no remote has promised: those are really lost.

    Raises:
        StoreError: Git could not be started, or ended with another error.
    """
    found = [*missing]
    unpromised = not_promised(git) if found else None
    return found if unpromised is None else [oid for oid in found if oid in unpromised]


def not_promised(git: Git) -> frozenset[str] | None:
    """Return all missing objects of a partial clone that no remote has promised; None elsewhere.

    That takes as long as to list all objects, because only git-fsck(1) says it.

    Raises:
        StoreError: Git could not be started, or ended with another error.
    """
    if not is_partial(git):
        return None
    how = ("--connectivity-only", "--no-dangling", "--no-progress")
    said = git.run("fsck", *how, ok=_FOUND).decode("utf-8", "replace")
    return frozenset(_MISSING.findall(said))
