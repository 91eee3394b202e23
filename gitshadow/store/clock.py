"""The clock of the file system: the only clock that file times can be compared with.

Since Linux 6.13 a file that was looked at since its last change gets a fine-grained stamp at the
next one, so stamps are strictly ordered; before it they lag by up to a tick (4 to 10 ms).
Invariant: a stamp is never older than a write that ended before it was taken; where stamps are
strictly ordered it is newer.
"""

import os
import time
from itertools import pairwise
from typing import Protocol

from gitshadow.errors import StoreError

COARSE_TICK_NS = 10_000_000
_PROBES = 4


class EpochClock(Protocol):
    """Tell the time in nanoseconds since the epoch."""

    def now_ns(self) -> int:
        """Return the present moment."""
        ...

    @property
    def tolerance_ns(self) -> int:
        """Return by how much two stamps of one moment may differ."""
        ...


class StampClock:
    """Tell the time by writing a stamp file and reading its ctime."""

    def __init__(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise StoreError(
                f"could not open {path}: {error.strerror}",
                hint="check that it is a file, and free space and permissions",
            ) from error
        os.fstat(self._fd)
        self._tolerance_ns = self._probe()

    def now_ns(self) -> int:
        """Return the ctime that a change made at this moment gets."""
        try:
            # The first change may get the tick's own time, as a write just before it may have;
            # the second, made after a look at the first, is fine-grained and newer than both.
            os.utime(self._fd)
            os.fstat(self._fd)
            os.utime(self._fd)
        except (
            OSError
        ):  # a full or read-only file system: the kernel's clock is near enough
            return time.time_ns()
        return os.fstat(self._fd).st_ctime_ns

    @property
    def tolerance_ns(self) -> int:
        """Return 0 where stamps are strictly ordered, else one coarse tick."""
        return self._tolerance_ns

    def close(self) -> None:
        """Give the stamp file back."""
        os.close(self._fd)

    def _probe(self) -> int:
        stamps = [self.now_ns() for _ in range(_PROBES)]
        ordered = all(a < b for a, b in pairwise(stamps))
        return 0 if ordered else COARSE_TICK_NS
