"""The hash algorithms of Git repositories: how long their object ids are, and how one is computed.

This is the only module that knows a length. gitformat-pack(5), hash-function-transition.txt.
"""

import hashlib
import re
from typing import NamedTuple, Protocol

from gitshadow.errors import UnsupportedError
from gitshadow.model import Oid


class Digest(Protocol):
    """A hash that is being computed, as hashlib has it."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""
        ...

    def digest(self) -> bytes:
        """Return the hash of all bytes added."""
        ...

    def hexdigest(self) -> str:
        """Return that hash in hex digits."""
        ...


class ObjectFormat(NamedTuple):
    """One hash algorithm, by the name that `extensions.objectFormat` has for it.

    An object id is `size` bytes, written as `digits` lower-case hex digits.
    """

    name: str
    size: int

    @property
    def digits(self) -> int:
        """Return the number of hex digits of an object id."""
        return 2 * self.size

    @property
    def null(self) -> Oid:
        """Return the id that stands for no object."""
        return Oid("0" * self.digits)

    @property
    def empty_blob(self) -> Oid:
        """Return the id of the blob without bytes."""
        return self.oid("blob", b"")

    @property
    def empty_tree(self) -> Oid:
        """Return the id of the tree without entries, which Git knows without having it."""
        return self.oid("tree", b"")

    def hasher(self, data: bytes = b"") -> Digest:
        """Return a hash of this kind that has taken some bytes."""
        return hashlib.new(self.name, data, usedforsecurity=False)

    def oid(self, kind: str, content: bytes) -> Oid:
        """Return the id that Git gives an object of these bytes."""
        digest = self.hasher(b"%b %d\0" % (kind.encode("ascii"), len(content)))
        digest.update(content)
        return Oid(digest.hexdigest())

    def blob(self, data: bytes) -> Oid:
        """Return the id that Git gives a blob of these bytes."""
        return self.oid("blob", data)


SHA1 = ObjectFormat("sha1", 20)
SHA256 = ObjectFormat("sha256", 32)
_ALL = (SHA1, SHA256)
_BY_DIGITS = {one.digits: one for one in _ALL}

OID_PATTERN = f"(?:[0-9a-f]{{{SHA256.digits}}}|[0-9a-f]{{{SHA1.digits}}})"
"""A whole object id of any format, as a regular expression without groups."""
_OID = re.compile(OID_PATTERN)
FEWEST_DIGITS = 7
ABBREVIATED_OID_PATTERN = f"[0-9a-f]{{{FEWEST_DIGITS},{SHA256.digits}}}"
"""An object id or its beginning, as a regular expression without groups."""


def is_oid(text: str) -> bool:
    """Return whether a text is a whole object id of any format."""
    return _OID.fullmatch(text) is not None


def is_null(oid: str) -> bool:
    """Return whether an id stands for no object."""
    return not oid.strip("0")


def format_of(oid: Oid) -> ObjectFormat:
    """Return the format of a whole object id.

    Raises:
        UnsupportedError: no format has ids of this length.
    """
    found = _BY_DIGITS.get(len(oid))
    if found is None:
        raise UnsupportedError(f"could not read object id {oid!r}: unknown length")
    return found


def format_named(name: str) -> ObjectFormat:
    """Return the format of a name, `sha1` or `sha256`.

    Raises:
        UnsupportedError: there is no such format.
    """
    for one in _ALL:
        if one.name == name:
            return one
    raise UnsupportedError(
        f"could not read objects of the format {name!r}",
        hint="update gitshadow",
    )
