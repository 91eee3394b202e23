"""The session store that lasts: rows in the journal, artifacts' bytes in Git, a lock file.

Invariant: the holder of a session's lock sees the present journal, also after a `reindex` has
put a new file in its place. Nothing of pygit2 is loaded before bytes are needed: it takes 100 ms.
"""

import os
from typing import TYPE_CHECKING

from gitshadow.errors import JournalError, LockedError
from gitshadow.model import Oid
from gitshadow.sdk.turns.protocols import SessionLock
from gitshadow.store.digests import digest
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.layout import Layout
from gitshadow.store.lock import WriterLock
from gitshadow.store.safe_files import make_dir

if TYPE_CHECKING:
    from gitshadow.store.repo import Repo
_NAME_BYTES = 8
_PROBE_S = 1.0


class JournalStore(SagaTables):
    """Keep sessions in a repository's journal; see `SessionStore` for what each method does."""

    def __init__(self, layout: Layout) -> None:
        # What recording loses in a power cut is still on the disk as files. An effect outside has
        # no such second source, so these transactions wait for the disk.
        super().__init__(Db.open(layout.journal, create=False, durable=True))
        self.layout = layout
        self._opened: Repo | None = None
        self._identity = _identity(layout.journal)

    def lock(self, session: str) -> SessionLock:
        """Return the lock of a session, which holds between processes."""
        return _JournalLock(self, session)

    def close(self) -> None:
        """Close the journal and the repository."""
        self.db.close()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def follow(self) -> None:
        """Open the journal again where a `reindex` has put a new file in its place."""
        if _identity(self.layout.journal) != self._identity:
            # The old file was set aside, and rows written to it would be lost.
            self.db.close()
            self.db = Db.open(self.layout.journal, create=False, durable=True)
            self._identity = _identity(self.layout.journal)

    def keep(
        self, session: str, name: str, version: int, data: bytes, now_ns: int
    ) -> Oid:
        from gitshadow.store import artifacts

        path = artifacts.path_of(name, version)
        return artifacts.keep(self._repo, session, path, data, now_ns)

    def read(self, oid: Oid) -> bytes:
        return self._repo.read_blob(oid)

    def has(self, oid: Oid) -> bool:
        return self._repo.has(oid)

    @property
    def _repo(self) -> "Repo":
        from gitshadow.store.repo import Repo

        if self._opened is None:
            self._opened = Repo.open(self.layout)
        return self._opened


class _JournalLock:
    """The lock file of one session."""

    def __init__(self, store: JournalStore, session: str) -> None:
        self._store = store
        self._session = session
        self._lock = WriterLock(_lock_path(store.layout, session))

    def take(self) -> None:
        if self._lock.held:
            raise LockedError(f"could not lock session {self._session}: it is taken")
        try:
            self._lock.acquire(0)
            # Held by a `reindex`, which is about to replace the journal.
            with WriterLock(self._store.layout.sagas_lock) as everybody:
                everybody.acquire(_PROBE_S)
            # A `reindex` may have replaced the file after this store opened it.
            self._store.follow()
        except (LockedError, JournalError):
            self._lock.release()
            raise

    def release(self) -> None:
        self._lock.release()


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _lock_path(layout: Layout, session: str) -> str:
    directory = layout.sagas_dir
    make_dir(layout, "sagas")
    # A session's id may be any text, also one that is not a file name.
    return os.path.join(directory, f"{digest(session, _NAME_BYTES)}.lock")
