"""The installed command on a terminal of its own."""

import os
import pty
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.shadow import COMMAND, Shadow


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of one command on a terminal: exit code and everything that it showed."""

    code: int
    text: str


def on_a_terminal(
    shadow: Shadow,
    *args: str,
    typed: bytes | Sequence[bytes] = b"",
    env: Mapping[str, str] | None = None,
) -> Shown:
    """Run one command on a terminal and type the answers to its questions, as it asks."""
    answers = [typed] if isinstance(typed, bytes) else list(typed)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(shadow.repo.root)
        extra = {"TERM": "xterm", "GIT_PAGER": "cat", **(env or {})}
        os.execve(COMMAND, [COMMAND, *args], shadow.environment(extra))
    seen = b""
    while chunk := _read(terminal):
        seen += chunk
        if answers and seen.endswith((b"] ", b"]? ")):
            await_sleep(pid)
            os.write(terminal, answers.pop(0))
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return Shown(os.waitstatus_to_exitcode(status), seen.decode())


def await_sleep(pid: int) -> None:
    """Wait until a command sleeps in its read, as it does when a person types.

    A Ctrl-C in the microseconds between Python's last look at signals and read(2) is only
    noticed when something else is typed.
    """
    stat = Path(f"/proc/{pid}/stat")
    while stat.read_bytes().rpartition(b") ")[2][:1] == b"R":
        time.sleep(0.001)


def _read(terminal: int) -> bytes:
    """Return what comes next; nothing when the other end is closed."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
