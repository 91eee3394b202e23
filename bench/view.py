"""The terminal view over a long history: the first screen, keys, scrolling, and doing nothing.

Invariant: what is measured is the installed command on a terminal of its own, from outside.
"""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.measure import Row, cpu_s, ms
from bench.million import fill
from bench.places import Place, program, repository

_SIZE = struct.pack("HHHH", 40, 140, 0, 0)
_BURST = 8
_IDLE_S = 10.0
_QUIET_S = 0.15
"""So long nothing is drawn when a key is done with."""
_LIMIT_S = 30.0


def view(scale: float) -> Iterator[Row]:
    """The view over 100,000 events in 12,500 blocks, and beside it over almost none."""
    times = max(3, int(7 * scale))
    with repository(100) as place:
        place.shadow("init")
        yield from _first(place, "almost no events", times)
        place.shadow("stop")
        count = int(100_000 * scale)
        fill(place, count, _BURST)
        place.shadow("start")
        yield from _first(place, f"{count:,} events", times)
        with _terminal(place) as shown:
            shown.until(b"claude")
            yield from _keys(shown, max(50, int(400 * scale)))
            shown.quiet()
            before = cpu_s(shown.pid)
            time.sleep(_IDLE_S)
            used = (cpu_s(shown.pid) - before) / _IDLE_S * 100
            yield Row("`ui`, idle, CPU", "–", [used], "%")
        place.shadow("stop")


def _first(place: Place, what: str, times: int) -> Iterator[Row]:
    values = []
    for _ in range(times):
        begun = time.perf_counter()
        with _terminal(place) as shown:
            shown.until(b"help")
            shown.until(b"claude" if "almost no" not in what else b"recorded")
            values.append(time.perf_counter() - begun)
    yield Row(f"`ui`, start to first rows, {what}", "–", ms(values), "ms")


class _Terminal(NamedTuple):
    pid: int
    end: int

    def read(self, seconds: float) -> bytes:
        """Return what is drawn within some time, as soon as there is something."""
        ready, _, _ = select.select([self.end], [], [], seconds)
        return os.read(self.end, 1 << 16) if ready else b""

    def until(self, words: bytes) -> None:
        """Wait until something is drawn."""
        seen, deadline = b"", time.monotonic() + _LIMIT_S
        while words not in seen:
            assert time.monotonic() < deadline, seen[-2000:]
            seen += self.read(0.5)

    def quiet(self) -> None:
        """Wait until nothing is drawn any more."""
        while self.read(_QUIET_S):
            pass

    def press(self, key: bytes) -> float:
        """Press a key; return how long it took until something was drawn."""
        begun = time.perf_counter()
        os.write(self.end, key)
        assert self.read(_LIMIT_S)
        return time.perf_counter() - begun


def _keys(shown: _Terminal, times: int) -> Iterator[Row]:
    shown.quiet()
    for name, key in (("a line", b"j"), ("a page", b"\x04")):
        values = []
        for _ in range(times):
            values.append(shown.press(key))
            while shown.read(0.01):
                pass
        yield Row(f"`ui`, {name} down, key to screen", "–", ms(values), "ms")
    shown.quiet()
    yield Row("`ui`, to the oldest (`G`)", "–", ms([shown.press(b"G")]), "ms")


@contextmanager
def _terminal(place: Place) -> Iterator[_Terminal]:
    pid, end = pty.fork()
    if pid == 0:
        os.chdir(place.root)
        environ = {**place.env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        os.execve(program(), [program(), "ui"], environ)
    fcntl.ioctl(end, termios.TIOCSWINSZ, _SIZE)
    try:
        yield _Terminal(pid, end)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(end)
