"""Where artifacts' bytes are: Git's object store, opened when it is first needed.

Invariant: nothing of pygit2 is loaded before that, it takes 100 ms.
"""

from typing import TYPE_CHECKING

from gitshadow.model import Oid
from gitshadow.store.layout import Layout

if TYPE_CHECKING:
    from gitshadow.store.repo import Repo


class Vault:
    """Store bytes and return them."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._opened: Repo | None = None

    def keep(
        self, session: str, name: str, version: int, data: bytes, now_ns: int
    ) -> Oid:
        """Store one version of an artifact.

        Raises:
            StoreError: it could not be written.
            UnsupportedError: the repository cannot be read.
        """
        from gitshadow.store import artifacts

        path = artifacts.path_of(name, version)
        return artifacts.keep(self._repo, session, path, data, now_ns)

    def read(self, oid: Oid) -> bytes:
        """Return the bytes of a version; raise StoreError where they are gone."""
        return self._repo.read_blob(oid)

    def has(self, oid: Oid) -> bool:
        """Return whether the bytes of a version are there."""
        return self._repo.has(oid)

    def close(self) -> None:
        """Close the repository."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _repo(self) -> "Repo":
        from gitshadow.store.repo import Repo

        if self._opened is None:
            self._opened = Repo.open(self._layout)
        return self._opened
