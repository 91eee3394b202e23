"""The most memory that a block had at once, as Python's allocator sees it."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Peak:
    """The most bytes that a block added to what was there; 0 while it runs."""

    size_bytes: int = 0


@contextmanager
def measured_peak() -> Iterator[Peak]:
    """Measure a block; its last value that is kept counts, too."""
    peak = Peak()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield peak
        peak.size_bytes = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
