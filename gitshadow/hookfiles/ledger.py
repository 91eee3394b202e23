"""What we wrote where, and the bytes that stood there before: what `uninstall` goes by.

One record and one backup per file, readable by their owner alone. A record is written before
the file it is about, so that whatever a crash leaves is known.
Invariant: a record whose file could not be written says what the file really held.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from gitshadow.errors import ShadowError
from gitshadow.hookfiles import files

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """Hold what we know of one file that we wrote.

    `before` and `after` are SHA-256 of its content, `before` None where there was no file;
    `made` are the directories that were made for it, outermost first.
    """

    path: str
    agent: str
    before: str | None
    after: str
    mode: int | None
    made: tuple[str, ...] = ()


def sha256(data: bytes) -> str:
    """Return the name of a content."""
    return hashlib.sha256(data).hexdigest()


class Ledger:
    """Keep the records of one scope in one directory."""

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
        """Return the bytes that stood in a file before us; None where there was none.

        Raises:
            ShadowError: they are lost.
        """
        if record.before is None:
            return None
        found = files.read(self._name(record.path, "before"))
        if found is None or sha256(found.data) != record.before:
            raise ShadowError(f"could not read the backup of {record.path}")
        return found.data

    def remember(self, record: LedgerRecord, before: bytes | None) -> None:
        """Keep a record and the bytes it is about, in place of an older one.

        Raises:
            ShadowError: they could not be written.
        """
        made = self._missing_above()
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
        """Drop a record; directories that are left go to all whose files lie in them."""
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
        """Remove our directories and those above them that we made, as far as they are empty."""
        kept = files.read(self._made)
        above = json.loads(kept.data) if kept is not None else []
        files.delete(self._made)
        own = [os.path.dirname(self._directory), self._directory]
        files.remove_directories([*above, *own])

    @property
    def _made(self) -> str:
        return os.path.join(self._directory, "made")

    def _missing_above(self) -> list[str]:
        """Return the directories above ours that are not there, outermost first."""
        missing: list[str] = []
        above = os.path.dirname(os.path.dirname(self._directory))
        while not os.path.isdir(above):
            missing.insert(0, above)
            above = os.path.dirname(above)
        return missing

    def _all(self) -> Iterator[LedgerRecord]:
        for name in sorted(os.listdir(self._directory)):
            if name.endswith(".json"):
                found = files.read(os.path.join(self._directory, name))
                if found is not None:
                    yield self._parsed(found.data, name)

    def _name(self, path: str, suffix: str) -> str:
        stem = hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
        return os.path.join(self._directory, f"{stem}.{suffix}")
