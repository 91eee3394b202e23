"""The pulse: whether this process stood still while others wrote.

Invariant: only a gap in which the process used no processor time counts; one whose other threads
were busy had the kernel's queue emptied all the same.
"""

import time

# The kernel's queue holds what a quick writer does in some 50 ms; a step is 4 or 25 ms.
_STALL_S = 0.06


class Pulse:
    """Be asked by watchfiles at every step: to end, and to notice a standstill.

    A stopped process (SIGSTOP, a suspended machine) reads no events, and the kernel drops what
    its queue cannot hold.
    """

    def __init__(self) -> None:
        self.stopping = False
        self.stalled = False
        self._beat = time.monotonic()
        self._used = time.process_time()

    def is_set(self) -> bool:
        """Tell whether to end; watchfiles asks this of an event."""
        now, used = time.monotonic(), time.process_time()
        gap = now - self._beat
        if gap > _STALL_S and used - self._used < gap / 2:
            self.stalled = True
        self._beat, self._used = now, used
        return self.stopping
