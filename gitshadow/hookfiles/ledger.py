"""Which files we wrote, and their bytes before that: the basis of `uninstall`.

There is one record and one backup per file, readable only by their owner. A record is written
before its file, so that the state after a crash is known.
Invariant: a record whose file could not be written has the real content of the file.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from gitshadow.errors import ShadowError
from gitshadow.hookfiles import files
from gitshadow.store.digests import digest

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """What is known of one file that we wrote.

    Attributes:
        before: The digest of its content before, None if there was no file.
        after: The digest of what we wrote.
        made: The directories that were created for it, outermost first.
    """

    path: str
    agent: str
    before: str | None
    after: str
    mode: int | None
    made: tuple[str, ...] = ()

    def has(self, data: bytes) -> bool:
        """Return whether a content is what we wrote."""
        return self.after == digest(data)


class Ledger:
    """The records of one scope, in one directory."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def find(self, path: str) -> LedgerRecord | None:
        """Return the record of a file.

        Raises:
            ShadowError: it cannot be read.
        """
        found = files.read(self._name(path, "json"))
        return None if found is None else self._parsed(found.data, path)

    def _parsed(self, data: bytes, path: str) -> LedgerRecord:
        try:
            fields = json.loads(data)
            fields.pop("version")
            fields["made"] = tuple(fields["made"])
            return LedgerRecord(**fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            name = self._name(path, "json")
            raise ShadowError(f"could not read the record {name}") from error

    def backup(self, record: LedgerRecord) -> bytes | None:
        """Return the bytes of a file before the installation; None if there was no file.

        Raises:
            ShadowError: they are lost.
        """
        if record.before is None:
            return None
        found = files.read(self._name(record.path, "before"))
        if found is None or digest(found.data) != record.before:
            raise ShadowError(f"could not read the backup of {record.path}")
        return found.data

    def remember(self, record: LedgerRecord, before: bytes | None) -> None:
        """Write a record and the former bytes of its file, in place of an older record.

        Raises:
            ShadowError: they could not be written.
        """
        # Asked before ours are made: an uninstallation removes what it did not find here.
        made = files.missing_from(os.path.dirname(os.path.dirname(self._directory)))
        for directory in (os.path.dirname(self._directory), self._directory):
            self._make(directory)
        if made:
            files.write(self._made, json.dumps(made).encode(), 0o600)
        if before is not None:
            files.write(self._name(record.path, "before"), before, 0o600)
        self._write(record)

    def _make(self, directory: str) -> None:
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ShadowError(f"could not create {directory}: {reason}") from error

    def _write(self, record: LedgerRecord) -> None:
        document = json.dumps({"version": _VERSION, **asdict(record)}, indent=1)
        files.write(self._name(record.path, "json"), document.encode(), 0o600)

    def forget(self, record: LedgerRecord, left: list[str]) -> None:
        """Delete a record; others get the directories that are left and contain their files."""
        for suffix in ("json", "before"):
            files.delete(self._name(record.path, suffix))
        for other in self._all() if left else ():
            below = [name for name in left if other.path.startswith(name + os.sep)]
            new = [name for name in below if name not in other.made]
            if new:
                made = sorted({*new, *other.made}, key=len)
                self._write(replace(other, made=tuple(made)))
        if os.path.isdir(self._directory) and next(self._all(), None) is None:
            self._remove_directories()

    def _remove_directories(self) -> None:
        """Remove our directories, and those above them that we created, if they are empty."""
        kept = files.read(self._made)
        above = json.loads(kept.data) if kept is not None else []
        files.delete(self._made)
        own = [os.path.dirname(self._directory), self._directory]
        files.remove_directories([*above, *own])

    @property
    def _made(self) -> str:
        return os.path.join(self._directory, "made")

    def _all(self) -> Iterator[LedgerRecord]:
        for name in sorted(os.listdir(self._directory)):
            if name.endswith(".json"):
                found = files.read(os.path.join(self._directory, name))
                if found is not None:
                    yield self._parsed(found.data, name)

    def _name(self, path: str, suffix: str) -> str:
        # A hash, because a path may be longer than a file name can be.
        return os.path.join(self._directory, f"{digest(path)}.{suffix}")
