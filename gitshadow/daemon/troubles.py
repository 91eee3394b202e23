"""What went wrong in the daemon: a line in the log, a report for what nobody expected.

Invariant: noting a trouble never makes another one, and one that stays does not fill the disk.
"""

import contextlib
import os
import time
import traceback

from gitshadow.errors import ShadowError
from gitshadow.store.layout import Layout

QUIET_S = 60.0
_MAX_REPORTS = 50


class Troubles:
    """Note what went wrong in one worktree."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._noted: dict[str, float] = {}

    def note(self, error: Exception) -> bool:
        """Note an error; tell whether it is news: the same one counts once a minute."""
        said, now = f"{type(error).__name__}: {error}", time.monotonic()
        self._noted = {k: v for k, v in self._noted.items() if now - v < QUIET_S}
        if said in self._noted:
            return False
        self._noted[said] = now
        with contextlib.suppress(OSError):
            self._write(error, said)
        return True

    def _write(self, error: Exception, said: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _append(self._layout.log, f"{stamp} daemon: {said!a}\n")
        if isinstance(error, ShadowError):
            return
        if len(os.listdir(self._layout.reports_dir)) < _MAX_REPORTS:
            name = f"{time.time_ns()}-daemon.txt"
            trace = "".join(traceback.format_exception(error))
            _append(os.path.join(self._layout.reports_dir, name), trace)


def _append(path: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    with open(fd, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
