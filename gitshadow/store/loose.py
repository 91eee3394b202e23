"""Loose objects, read without libgit2: its reader never returns from a file that is cut short.

A power cut leaves such files, and so does a full disk. The format is gitformat-loose(5): zlib of
`<kind> <size>`, a NUL byte and the content.
Invariant: what is returned has the size that its header says and the hash that is its name.
"""

import os
import re
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha1

from gitshadow.errors import StoreError
from gitshadow.model import Oid

_OID = re.compile(r"[0-9a-f]{40}")
_FAN = re.compile(r"[0-9a-f]{2}")
_HEADER = re.compile(rb"(commit|tree|blob|tag) (0|[1-9][0-9]{0,18})\0")
_LONGEST_HEADER = 32
_PIECE = 1 << 20
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def oid_of(kind: str, content: bytes) -> Oid:
    """Return the oid that Git gives an object of these bytes (SHA-1 repositories)."""
    header = f"{kind} {len(content)}\0".encode("ascii")
    return Oid(sha1(header + content, usedforsecurity=False).hexdigest())


class BrokenObjectError(StoreError):
    """Report a loose object whose file is empty, cut short or has other bytes than its name."""


class LooseObjects:
    """Read the loose objects of one object directory."""

    def __init__(self, objects_dir: str) -> None:
        self._dir = objects_dir

    def path(self, oid: Oid) -> str:
        """Return the file of an object, whether it is there or not.

        Raises:
            StoreError: that is no object id.
        """
        if not _OID.fullmatch(oid):
            raise StoreError(f"could not read object {oid!r}: not an object id")
        return os.path.join(self._dir, oid[:2], oid[2:])

    def read(self, oid: Oid) -> tuple[str, bytes] | None:
        """Return kind and content of an object, None where it is not loose.

        Raises:
            BrokenObjectError: its file is broken.
            StoreError: its file cannot be opened.
        """
        try:
            file = os.open(self.path(oid), _READ)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"could not read object {oid}: {error.strerror}"
            ) from error
        try:
            whole = b"".join(_unpacked(oid, file))
        except OSError as error:
            raise _broken(oid, error.strerror or str(error)) from error
        finally:
            os.close(file)
        header, _, content = whole.partition(b"\0")
        return header[: header.index(b" ")].decode("ascii"), content

    def is_broken(self, oid: Oid) -> bool:
        """Whether an object is loose and its file is broken; the content is not kept."""
        try:
            file = os.open(self.path(oid), _READ)
        except (OSError, StoreError):
            return False
        try:
            deque(_unpacked(oid, file), maxlen=0)
        except (BrokenObjectError, OSError):
            return True
        finally:
            os.close(file)
        return False

    def all_broken(self) -> list[Oid]:
        """Return every object of the directory whose file is broken."""
        return [oid for oid in self._all() if self.is_broken(oid)]

    def with_prefix(self, prefix: str) -> list[Oid]:
        """Return the loose objects whose id begins like that; at least two digits are needed."""
        return [oid for oid in self._in(prefix[:2]) if oid.startswith(prefix)]

    def remove(self, oid: Oid) -> None:
        """Remove the file of an object, which must be broken; one that is gone is fine."""
        if self.is_broken(oid):
            with suppress(FileNotFoundError):
                os.unlink(self.path(oid))

    def _all(self) -> Iterator[Oid]:
        for fan in sorted(filter(_FAN.fullmatch, os.listdir(self._dir))):
            yield from self._in(fan)

    def _in(self, fan: str) -> list[Oid]:
        try:
            names = os.listdir(os.path.join(self._dir, fan))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [Oid(fan + name) for name in names if _OID.fullmatch(fan + name)]


def _unpacked(oid: Oid, file: int) -> Iterator[bytes]:
    """Yield header and content in pieces; a lie of the header about its size takes no memory.

    Raises:
        BrokenObjectError: it turns out that the file is broken.
    """
    unzip, digest, length = zlib.decompressobj(), sha1(usedforsecurity=False), 0
    head = b""
    while not unzip.eof:
        packed = unzip.unconsumed_tail or os.read(file, _PIECE)
        if not packed:
            raise _broken(oid, "it is cut short" if length else "it is empty")
        try:
            piece = unzip.decompress(packed, _PIECE)
        except zlib.error as error:
            raise _broken(oid, str(error)) from error
        digest.update(piece)
        head = head or piece[:_LONGEST_HEADER]
        length += len(piece)
        yield piece
    found = _HEADER.match(head)
    if found is None or length != found.end() + int(found[2]):
        raise _broken(oid, "its header is wrong")
    if digest.hexdigest() != oid or unzip.unused_data or os.read(file, 1):
        raise _broken(oid, "its content does not match its name")


def _broken(oid: Oid, why: str) -> BrokenObjectError:
    return BrokenObjectError(
        f"could not read object {oid}: {why}", hint="git agent-undo doctor --fix"
    )
