"""The clock of the file system: the only clock that file times can be compared with.

A stamp is never older than a write that ended before it was taken; where stamps are strictly
ordered, it is newer.
"""

import os
import time
from itertools import pairwise
from typing import Protocol

from gitshadow.errors import StoreError
from gitshadow.platform.stamps import step_ns

# The kernel stamps files with the time of its last timer tick: 4 ms before now at 250 Hz, 10 ms at
# 100 Hz. Since Linux 6.13 a file that was looked at since its last change gets a fine-grained stamp
# at the next one (Documentation/filesystems/multigrain-ts.rst).
COARSE_TICK_NS = 10_000_000
_PROBES = 4


class EpochClock(Protocol):
    """A clock in nanoseconds since the epoch."""

    def now_ns(self) -> int:
        """Return the present moment."""
        ...

    @property
    def tolerance_ns(self) -> int:
        """Return by how much two stamps of one moment may differ."""
        ...


class StampClock:
    """The ctime of a stamp file that is changed for each question."""

    def __init__(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise StoreError(
                f"could not open {path}: {error.strerror}",
                hint="check that it is a file, and free space and permissions",
            ) from error
        # A look, so that the first change gets a fine-grained stamp where there are any.
        os.fstat(self._fd)
        # Measured instead of asking for the kernel's version: the file system must support it too,
        # and distributions backport.
        stamps = [self.now_ns() for _ in range(_PROBES)]
        ordered = all(a < b for a, b in pairwise(stamps))
        coarse_ns = max(COARSE_TICK_NS, *map(step_ns, stamps))
        self._tolerance_ns = 0 if ordered else coarse_ns

    def now_ns(self) -> int:
        """Return the ctime that a change made at this moment gets."""
        try:
            # The first change may get the tick's own time, as a write just before it may have. The
            # second, made after a look at the first, is fine-grained and newer than both.
            os.utime(self._fd)
            os.fstat(self._fd)
            os.utime(self._fd)
        except OSError:
            # On a full or read-only file system the kernel's clock is near enough.
            return time.time_ns()
        return os.fstat(self._fd).st_ctime_ns

    @property
    def tolerance_ns(self) -> int:
        """Return 0 where stamps are strictly ordered, else one tick or step."""
        return self._tolerance_ns

    def close(self) -> None:
        """Close the stamp file."""
        os.close(self._fd)
