"""SQLite databases that a program has open: an undo neither replaces nor deletes them.

SQLite goes on with the files that it has opened, whatever their names lead to, so all that a
program commits later would be lost: sqlite.org/howtocorrupt.html, section 2.4.
Invariant: a database and the files beside it are one thing: all are undone, or none.
"""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gitshadow.messages.undo import CLOSE_FIRST
from gitshadow.model import RepoPath
from gitshadow.platform import current
from gitshadow.store import sqlite_files
from gitshadow.store.files import WorkFiles
from gitshadow.store.sqlite_files import BESIDE, HEADER, database_of, parts_of

_LOCKED_BYTES = (0x4000_0000, 512)

FindDatabases: TypeAlias = Callable[[Collection[RepoPath]], Mapping[RepoPath, str]]
"""`Databases.among`, or what stands in for it."""


def may_be_part(path: RepoPath, data: bytes | None) -> bool:
    """Return whether a file may belong to a database, by its name and its present content."""
    # A database is empty until its first transaction ends.
    return path.endswith(BESIDE) or (
        data is not None and data[: len(HEADER)] in (b"", HEADER)
    )


@dataclass(frozen=True, slots=True)
class Databases:
    """The databases in the working tree at `root`."""

    files: WorkFiles
    root: str

    def among(self, paths: Collection[RepoPath]) -> Mapping[RepoPath, str]:
        """Return the databases to which some paths belong, each with why it must stay.

        The text is empty where no process is seen to have any part of it open.
        """
        found = [one for one in {*map(database_of, paths)} if self._is_database(one)]
        if not found:
            return {}
        sqlite_files.close_kept()
        parts = {self._real(part): one for one in found for part in parts_of(one)}
        why = dict.fromkeys(found, "")
        facts = current().process_facts()
        for real, pids in sorted(facts.holders(parts).items()):
            why[parts[real]] = _words(pids)
        for database in found:
            if not why[database] and self._is_locked(database):
                why[database] = f"a process has this database open: {CLOSE_FIRST}"
        return why

    def _is_database(self, path: RepoPath) -> bool:
        head = self.files.head(path)
        if head == b"":
            return any(self.files.looks(*parts_of(path)[1:]))
        return head == HEADER

    def _is_locked(self, database: RepoPath) -> bool:
        """Return whether SQLite has a lock on a database, also in a process that is not seen."""
        # In WAL mode for as long as it is open, else in a transaction: os_unix.c of SQLite.
        return self.files.is_locked(database, *_LOCKED_BYTES)

    def _real(self, path: RepoPath) -> str:
        return os.path.join(self.root, os.fsdecode(path))


def _words(pids: Collection[int]) -> str:
    """Return who has a database open, and what to do."""
    pid = next(iter(pids))
    if pid == os.getpid():
        who = "this program has"
    else:
        name = os.path.basename(current().process_facts().executable(pid))
        who = f"process {pid} ({name}) has" if name else f"process {pid} has"
    return f"{who} this database open: {CLOSE_FIRST}"
