"""Waiting for what another thread or process is about to do, however slow the machine is.

No test passes or fails by the time that something takes: a limit only ends what hangs.
"""

import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HANGS_S = 120.0


def until(
    condition: Callable[[], bool], *, between: Callable[[], None] | None = None
) -> None:
    """Wait until something is so; `between` is done before each further look."""
    deadline = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        if between is not None:
            between()
        time.sleep(0.005)


def readable(fd: int, seconds: float = HANGS_S) -> bool:
    """Wait until a descriptor can be read, or has ended; tell whether it did in time."""
    waiting = select.poll()  # select(2) knows no descriptor from 1024 on
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


@contextmanager
def steadily(write: Callable[[], object]) -> Iterator[Callable[[], int]]:
    """Write every two milliseconds in a thread; give a function that says how often so far."""
    stop, times = threading.Event(), [0]

    def go_on() -> None:
        while not stop.wait(0.002):
            write()
            times[0] += 1

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        yield lambda: times[0]
    finally:
        stop.set()
        writer.join()
