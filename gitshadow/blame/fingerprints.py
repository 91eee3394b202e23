"""Fingerprints: eight bytes for a content, a line or a change, and sets of them.

Invariant: pure; two things with one mark are taken as one, which chance brings about once in 2^64.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b

from gitshadow.model import Oid

BYTES = 8


def mark_of(data: bytes) -> int:
    """Return the mark of some bytes."""
    return int.from_bytes(blake2b(data, digest_size=BYTES).digest(), "big")


def mark_of_oid(oid: Oid) -> int:
    """Return the mark of an object: the front of its id."""
    return int(oid[: 2 * BYTES], 16)


class FingerprintSet:
    """A set of marks that needs no decoding: sorted, in bytes."""

    __slots__ = ("_cells", "data")

    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        self._cells = memoryview(data).cast("Q")

    @classmethod
    def of(cls, marks: Iterable[int]) -> "FingerprintSet":
        """Return the set of some marks."""
        made = array("Q", sorted(set(marks)))
        return cls(made.tobytes())

    def __contains__(self, mark: int) -> bool:
        at = bisect_left(self._cells, mark)
        return at < len(self._cells) and self._cells[at] == mark

    def __len__(self) -> int:
        return len(self._cells)

    def with_more(self, marks: Iterable[int]) -> "FingerprintSet":
        """Return this set and some more."""
        return FingerprintSet.of((*self._cells, *marks))


NO_MARKS = FingerprintSet()
