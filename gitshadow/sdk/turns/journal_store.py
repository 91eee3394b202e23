"""The session store that lasts: rows in the journal, artifacts' bytes in Git, a lock file.

Invariant: the holder of a session's lock sees the present journal, also after a `reindex` has
put a new file in its place.
"""

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from gitshadow.errors import JournalError, LockedError
from gitshadow.model import Oid
from gitshadow.sdk.turns.blob_store import Vault
from gitshadow.sdk.turns.protocols import SessionLock
from gitshadow.store.journal import saga
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.saga_rows import (
    CallName,
    Held,
    Marker,
    SagaCall,
    SagaLogRow,
    SagaOp,
    SagaRow,
    SagaTurn,
    SessionEvent,
    Version,
)
from gitshadow.store.layout import Layout
from gitshadow.store.lock import WriterLock
from gitshadow.store.safe_files import make_dir

_NAME_BYTES = 8
_PROBE_S = 1.0


class SessionTables:
    """The rows of a `SessionStore` in the tables of a journal."""

    def __init__(self, db: Db) -> None:
        self.db = db

    def store_id(self) -> str:
        return saga.store_id(self.db)

    def save(self, rows: Iterable[SagaRow]) -> None:
        saga.save(self.db, rows)

    def claim(
        self,
        call: CallName,
        owner: str,
        now_ns: int,
        until_ns: int,
        *,
        rows: Iterable[SagaRow] = (),
        then: Iterable[SagaRow] = (),
    ) -> bool:
        with self.db.write():
            saga.save(self.db, rows)
            is_ours = saga.claim(self.db, call, owner, now_ns, until_ns)
            if is_ours:
                saga.save(self.db, then)
            return is_ours

    def free_leases(self, session: str) -> None:
        saga.free_leases(self.db, session)

    def due(self, session: str, now_ns: int) -> list[Held]:
        return saga.held_due(self.db, session, now_ns)

    def waiting(self, session: str) -> list[Held]:
        return saga.held_waiting(self.db, session)

    def take_out(self, call: CallName, owner: str, now_ns: int, until_ns: int) -> bool:
        return saga.take_held(self.db, call, owner, now_ns, until_ns)

    def withdraw(self, call: CallName) -> bool:
        return saga.withdraw_held(self.db, call)

    def turn(self, session: str, turn: str) -> SagaTurn | None:
        return saga.turn(self.db, session, turn)

    def last_turn(self, session: str) -> SagaTurn | None:
        return saga.last_turn(self.db, session)

    def turns(self, session: str) -> list[SagaTurn]:
        return saga.turns(self.db, session)

    def calls(self, session: str, turn: str) -> list[SagaCall]:
        return saga.calls(self.db, session, turn)

    def standing(
        self, session: str, digest: str, first: int, last: int
    ) -> SagaCall | None:
        return saga.standing(self.db, session, digest, first, last)

    def unsettled(self, session: str) -> list[SagaCall]:
        return saga.unsettled(self.db, session)

    def op(self, op: str) -> SagaOp | None:
        return saga.op(self.db, op)

    def ops(self, session: str) -> list[SagaOp]:
        return saga.ops(self.db, session)

    def log(self, session: str, turn: str | None = None) -> Iterator[SagaLogRow]:
        return iter(saga.log(self.db, session, turn))

    def broken_at(self) -> int | None:
        return saga.broken_at(self.db)

    def last_seq(self, session: str) -> int:
        return saga.last_seq(self.db, session)

    def events(self, session: str) -> list[SessionEvent]:
        return saga.events(self.db, session)

    def first_of(self, session: str, invocation: str) -> int | None:
        return saga.first_of(self.db, session, invocation)

    def invocations_since(self, session: str, seq: int) -> list[str]:
        return saga.invocations_since(self.db, session, seq)

    def markers(self, session: str) -> list[Marker]:
        return saga.markers(self.db, session)

    def state_before(self, session: str, seq: int) -> dict[str, str]:
        return saga.state_before(self.db, session, seq)

    def state_delta(self, session: str, seq: int) -> dict[str, str | None]:
        return saga.state_delta(self.db, session, seq)

    def versions(self, session: str, name: str) -> list[Version]:
        return saga.versions(self.db, session, name)

    def artifacts(self, session: str) -> dict[str, Version]:
        return saga.artifacts(self.db, session)

    def artifact_delta(self, session: str, seq: int) -> dict[str, Version | None]:
        return saga.artifact_delta(self.db, session, seq)

    def next_version(self, session: str, name: str) -> int:
        return saga.next_version(self.db, session, name)


class JournalStore(SessionTables):
    """Keep sessions in a repository's journal; see `SessionStore` for what each method does."""

    def __init__(self, layout: Layout) -> None:
        # What recording loses in a power cut is still on the disk as files. An effect outside has
        # no such second source, so these transactions wait for the disk.
        super().__init__(Db.open(layout.journal, create=False, durable=True))
        self.layout = layout
        self.vault = Vault(layout)
        self._identity = _identity(layout.journal)

    def lock(self, session: str) -> SessionLock:
        """Return the lock of a session, which holds between processes."""
        return _JournalLock(self, session)

    def close(self) -> None:
        """Close the journal and the repository."""
        self.db.close()
        self.vault.close()

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
        return self.vault.keep(session, name, version, data, now_ns)

    def read(self, oid: Oid) -> bytes:
        return self.vault.read(oid)

    def has(self, oid: Oid) -> bool:
        return self.vault.has(oid)


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
    name = blake2b(session.encode(), digest_size=_NAME_BYTES).hexdigest()
    return os.path.join(directory, f"{name}.lock")
