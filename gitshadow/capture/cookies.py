"""Cookies: numbered files whose events prove that every earlier event has come.

Invariant: a number is used once, in rising order, and no file stays.
"""

import contextlib
import os
import threading
import time


class Cookies:
    """Drop cookies in one directory, which every watch includes."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._next = time.time_ns() // 1_000_000

    def number(self) -> int:
        """Return the number of the next cookie."""
        with self._lock:
            self._next += 1
            return self._next

    def drop(self, number: int | None = None) -> int:
        """Make a file and remove it: its events stay in the queue, in order.

        On a full disk no cookie comes, and whoever waits for it finds that out.

        Returns:
            Its number.
        """
        number = self.number() if number is None else number
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        path = os.path.join(self._directory, str(number))
        with contextlib.suppress(OSError):
            os.close(os.open(path, flags, 0o600))
            os.unlink(path)
        return number
