"""Sessions in this process: for tests, which then need no repository and no disk."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any

from gitshadow.errors import LockedError, StoreError
from gitshadow.model import Oid
from gitshadow.sdk.turns.protocols import SessionLock
from gitshadow.store.journal.db import Db, Row, Value
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.object_format import SHA1


class MemoryStore(SagaTables):
    """Keep sessions in memory; `SessionStore` describes each method.

    Any number of sessions may use one store, one after the other or in several threads. It ends
    with the process: nothing can be recovered from it.
    """

    def __init__(self) -> None:
        super().__init__(_SharedDb.in_memory())
        self._blobs: dict[Oid, bytes] = {}
        self._locks: dict[str, Lock] = {}

    def lock(self, session: str) -> SessionLock:
        """Return the lock of a session; it is valid for this store only."""
        return _MemoryLock(self._locks.setdefault(session, Lock()), session)

    def close(self) -> None:
        """Do nothing: another session may use the store."""

    def keep(
        self, session: str, name: str, version: int, data: bytes, now_ns: int
    ) -> Oid:
        """Keep bytes under the id that Git gives to a blob."""
        oid = SHA1.blob(data)
        self._blobs[oid] = bytes(data)
        return oid

    def read(self, oid: Oid) -> bytes:
        """Return bytes; raise StoreError where none are kept under an id."""
        if oid not in self._blobs:
            raise StoreError(f"could not read blob {oid}")
        return self._blobs[oid]

    def has(self, oid: Oid) -> bool:
        """Return whether bytes are kept under an id."""
        return oid in self._blobs


class _SharedDb(Db):
    """A journal that several threads use through one connection.

    A database in memory belongs to its connection, and SQLite knows one transaction per
    connection. So a thread keeps the others out until its transaction has ended: they would write
    into it, and lose their rows if it is rolled back.
    """

    def __init__(self, connection: Any, path: str) -> None:
        super().__init__(connection, path)
        self._mutex = RLock()

    @contextmanager
    def write(self) -> Iterator[None]:
        with self._mutex, super().write():
            yield

    def run(self, sql: str, values: Sequence[Value] = ()) -> int:
        with self._mutex:
            return super().run(sql, values)

    def run_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        with self._mutex:
            super().run_many(sql, rows)

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        with self._mutex:
            return super().rows(sql, values)

    def each(self, sql: str, values: Sequence[Value] = ()) -> Iterator[Row]:
        # All rows at once: other threads use the connection while a cursor is open.
        return iter(self.rows(sql, values))

    def row(self, sql: str, values: Sequence[Value] = ()) -> Row | None:
        with self._mutex:
            return super().row(sql, values)


class _MemoryLock:
    """The lock of one session among the users of one store."""

    def __init__(self, lock: Lock, session: str) -> None:
        self._lock = lock
        self._session = session
        self._held = False

    def take(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise LockedError(f"could not lock session {self._session}: it is taken")
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            self._lock.release()
