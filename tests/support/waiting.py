"""Waiting for what another thread or process is about to do, however slow the machine is.

No test passes or fails by the time that something takes: a limit only ends what hangs.
"""

import time
from collections.abc import Callable

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
