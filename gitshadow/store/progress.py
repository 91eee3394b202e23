"""How far the first reading of a worktree is: written by who reads, read by the command that waits.

Invariant: it is for a person's eyes only. Where it cannot be written, nothing is shown.
"""

import os
import time
from contextlib import suppress
from typing import NamedTuple

from gitshadow.store.layout import Layout

_EVERY_S = 0.25


class Progress(NamedTuple):
    """What has been read, of how much, and how long it took in seconds."""

    files: int
    size: int
    of_files: int
    of_size: int
    seconds: float

    @property
    def left_s(self) -> float | None:
        """Return how many seconds are left at this pace, None where there is no pace yet."""
        return (
            self.seconds * (self.of_size - self.size) / self.size if self.size else None
        )


def read(layout: Layout) -> Progress | None:
    """Return how far the process is that reads a worktree; None where none says so."""
    try:
        with open(_path(layout), encoding="ascii") as stream:
            files, size, of_files, of_size, seconds = map(float, stream.read().split())
    except (OSError, ValueError):
        return None
    return Progress(int(files), int(size), int(of_files), int(of_size), seconds)


class Teller:
    """Say how far one reading of a worktree is."""

    def __init__(self, layout: Layout, of_files: int, of_size: int) -> None:
        self._path = _path(layout)
        self._of = of_files, of_size
        self._began = self._told = time.monotonic()
        self._files = self._size = 0
        # What a killed one has left.
        self.end()

    def add(self, size: int) -> None:
        """Count one file of so many bytes."""
        self._files += 1
        self._size += size
        now = time.monotonic()
        if now - self._told > _EVERY_S:
            self._told = now
            told = (self._files, self._size, *self._of, f"{now - self._began:.2f}")
            with suppress(OSError), open(self._path, "w", encoding="ascii") as stream:
                stream.write(" ".join(map(str, told)))

    def end(self) -> None:
        """Say no more."""
        with suppress(OSError):
            os.unlink(self._path)


def _path(layout: Layout) -> str:
    return os.path.join(layout.wt_dir, "reading")
