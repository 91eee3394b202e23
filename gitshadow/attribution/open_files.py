"""Which processes hold a file open for writing: what speaks for or against a shell's window.

Linux tells nobody who wrote, but /proc/PID/fd tells who may write still: a server with its log,
a database, a command that goes on. Readers are no writers: only the flags of the handle count.
Invariant: /proc is read only, once a second at most, and for no more than a hundredth of the time.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping

INTERVAL_S = 1.0
_SHARE = 100
_MAX_HANDLES = 1024
_WRITING = (os.O_WRONLY, os.O_RDWR)


class OpenFiles:
    """Answer who holds a file below one directory open for writing, up to a second ago."""

    def __init__(
        self,
        root: str,
        proc: str = "/proc",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._top = os.fsencode(root).rstrip(b"/") + b"/"
        self._proc = proc
        self._clock = clock
        self._writers: Mapping[bytes, tuple[int, ...]] = {}
        self._next_s: float | None = None

    def writers(
        self, path: bytes, pids: Callable[[], Iterable[int]]
    ) -> tuple[int, ...]:
        """Return the processes that hold a file open for writing, in the order of their pids.

        Args:
            path: Its absolute path, links followed.
            pids: Gives the processes to look at, where it is time to look again.
        """
        now_s = self._clock()
        if self._next_s is None or now_s >= self._next_s:
            self._writers = self._look(pids())
            cost_s = self._clock() - now_s
            self._next_s = now_s + max(INTERVAL_S, _SHARE * cost_s)
        return self._writers.get(path, ())

    def _look(self, pids: Iterable[int]) -> Mapping[bytes, tuple[int, ...]]:
        found: dict[bytes, dict[int, None]] = {}
        for pid in sorted(pids):
            for name, target in self._handles(pid):
                if self._is_for_writing(pid, name):
                    found.setdefault(target, {})[pid] = None
        return {path: tuple(holders) for path, holders in found.items()}

    def _handles(self, pid: int) -> Iterable[tuple[str, bytes]]:
        """Yield the handles of a process that lead below the directory, by number and path."""
        directory = f"{self._proc}/{pid}/fd"
        try:
            names = os.listdir(directory)[:_MAX_HANDLES]
        except OSError:
            return
        for name in names:
            try:
                target = os.fsencode(os.readlink(f"{directory}/{name}"))
            except OSError:
                continue
            if target.startswith(self._top):
                yield name, target

    def _is_for_writing(self, pid: int, name: str) -> bool:
        """Tell from `/proc/PID/fdinfo/FD` how a file was opened; proc(5)."""
        try:
            with open(f"{self._proc}/{pid}/fdinfo/{name}", "rb", buffering=0) as handle:
                lines = handle.read(4096).split(b"\n")
        except OSError:
            return False
        for line in lines:
            if line.startswith(b"flags:"):
                return int(line.partition(b":")[2], 8) & os.O_ACCMODE in _WRITING
        return False
