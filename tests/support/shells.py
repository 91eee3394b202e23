"""A shell on a terminal of its own, in which keys are pressed.

Invariant: whoever presses a key waits for what it shows, never for time to pass.
"""

import fcntl
import os
import pty
import struct
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.waiting import HANGS_S, readable

_PROMPT = "READY> "


@dataclass(slots=True)
class Shell:
    """One shell; `shown` is everything since the last line began."""

    terminal: int
    shown: str = ""
    pending: bytes = field(default=b"")

    def press(self, keys: str, *, until: str) -> str:
        """Press keys and wait until the line shows a text; return what it shows."""
        os.write(self.terminal, keys.encode())
        deadline = time.monotonic() + HANGS_S
        while until not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0, f"{until!r} never came: {self.shown!r}"
            if readable(self.terminal, left):
                self.pending += os.read(self.terminal, 4096)
                self.shown += self.pending.decode("utf-8", "ignore")
                self.pending = b""
        return self.shown

    def run(self, line: str) -> str:
        """Run a line; return what was shown up to the next prompt."""
        self.shown = ""
        # The line itself is shown too: the mark is put together by the shell alone.
        shown = self.press(f"{line}; echo EN''D\n", until="END")
        self.press("", until=_PROMPT)
        self.shown = ""
        return shown


@contextmanager
def shell(
    words: Sequence[str], start: str, cwd: Path, env: Mapping[str, str]
) -> Iterator[Shell]:
    """Start a shell and have it read its first lines; it ends with the block.

    Args:
        words: The program, absolute, and its options.
        start: What it is to run first.
        cwd: Where.
        env: Its whole environment; terminal and prompt are added.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(words[0], list(words), {**env, "TERM": "dumb"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
    made = Shell(terminal)
    try:
        made.run(f"{start}\nPS1='REA''DY> '")
        yield made
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
