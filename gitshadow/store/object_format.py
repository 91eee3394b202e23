"""The hash algorithms of Git repositories: how long their object ids are, and how one is computed.

This is the only module that knows a length. gitformat-pack(5), hash-function-transition.txt.
"""

import hashlib
import re
from collections.abc import Callable
from typing import Final

from gitshadow.errors import UnsupportedError
from gitshadow.model import Oid


class ObjectFormat:
    """One hash algorithm, by the name that `extensions.objectFormat` has for it.

    Attributes:
        name: That name.
        size: The bytes of an object id.
        digits: The lower-case hex digits with which an object id is written.
        null: The id that stands for no object.
        empty_blob: The id of the blob without bytes.
        empty_tree: The id of the tree without entries, which Git knows without having it.
    """

    # Only `SHA1` and `SHA256` exist, so formats are compared by identity.
    def __init__(self, name: str, new: Callable[..., "hashlib._Hash"]) -> None:
        # `hashlib.new` would look the algorithm up by name each time: a fifth of a small hash.
        self._new: Final = new
        self.name: Final = name
        self.size: Final = len(self.hasher().digest())
        self.digits: Final = 2 * self.size
        self.null: Final = Oid("0" * self.digits)
        self.empty_blob: Final = self.blob(b"")
        self.empty_tree: Final = self.oid("tree", b"")
        self._whole: Final = re.compile(f"[0-9a-f]{{{self.digits}}}")

    def __repr__(self) -> str:
        return f"ObjectFormat({self.name!r})"

    def is_oid(self, text: str) -> bool:
        """Return whether a text is a whole object id of this format."""
        return self._whole.fullmatch(text) is not None

    def hasher(self, data: bytes = b"") -> "hashlib._Hash":
        """Return a hash of this kind that has taken some bytes."""
        return self._new(data, usedforsecurity=False)

    def oid(self, kind: str, content: bytes) -> Oid:
        """Return the id that Git gives an object of these bytes."""
        digest = self._new(object_header(kind, content), usedforsecurity=False)
        digest.update(content)
        return Oid(digest.hexdigest())

    def blob(self, data: bytes) -> Oid:
        """Return the id that Git gives a blob of these bytes."""
        digest = self._new(b"blob %d\0" % len(data), usedforsecurity=False)
        digest.update(data)
        return Oid(digest.hexdigest())


def object_header(kind: str, content: bytes) -> bytes:
    """Return what Git puts before the bytes of an object to hash it, and to store it loose."""
    return b"%b %d\0" % (kind.encode("ascii"), len(content))


SHA1 = ObjectFormat("sha1", hashlib.sha1)
SHA256 = ObjectFormat("sha256", hashlib.sha256)
_ALL = (SHA1, SHA256)
_BY_DIGITS = {one.digits: one for one in _ALL}
_EMPTY_BLOBS = frozenset(one.empty_blob for one in _ALL)

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


def is_empty_blob(oid: Oid) -> bool:
    """Return whether an id is that of the blob without bytes, in its format."""
    return oid in _EMPTY_BLOBS


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
