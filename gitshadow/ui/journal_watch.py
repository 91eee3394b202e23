"""A look at the journal once a second, on a thread that does nothing else.

Without a daemon a question changes the journal's files itself. So a change that brought nothing
makes the next one wait twice as long, and one that brought something ends that.
Invariant: a change is told late, never lost. While nothing changes nobody else is woken: a worker
of textual's for each look took 20 ms of CPU.
"""

import threading
import time
from collections.abc import Callable

_LONGEST_S = 30.0


class Watch:
    """Tell when a mark becomes another one."""

    def __init__(self, mark: Callable[[], object], changed: Callable[[], None]) -> None:
        self._mark, self._changed = mark, changed
        self._ended = threading.Event()
        self._again = threading.Event()
        self._pause_s = 0.0

    def start(self, seconds: float) -> None:
        """Look so often from now on; `changed` is called on the thread that looks."""
        thread = threading.Thread(target=self._run, args=(seconds,), daemon=True)
        thread.start()

    def again(self) -> None:
        """Have the next look count as a change, whatever it finds."""
        self._again.set()

    def brought(self, something: bool) -> None:
        """Say whether what was told brought something."""
        longer = min(_LONGEST_S, max(1.0, 2 * self._pause_s))
        self._pause_s = 0.0 if something else longer

    def stop(self) -> None:
        """Look no more; a look that is being taken may still tell."""
        self._ended.set()

    def _run(self, seconds: float) -> None:
        known, told = self._mark(), time.monotonic()
        while not self._ended.wait(seconds):
            found = self._mark()
            waited = time.monotonic() - told >= self._pause_s
            if self._again.is_set() or (found != known and waited):
                known, told = found, time.monotonic()
                self._again.clear()
                self._changed()
