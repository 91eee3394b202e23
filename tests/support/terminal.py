"""The installed command on a terminal of its own."""

import os
import pty
from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.shadow import COMMAND, Shadow


@dataclass(frozen=True, slots=True)
class Shown:
    """Hold the end of one command on a terminal: exit code and all that it showed."""

    code: int
    text: str


def on_a_terminal(
    shadow: Shadow,
    *args: str,
    typed: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> Shown:
    """Run one command on a terminal and type the answer to its question, if it asks."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(shadow.repo.root)
        extra = {"TERM": "xterm", "GIT_PAGER": "cat", **(env or {})}
        os.execve(COMMAND, [COMMAND, *args], shadow.environment(extra))
    seen, answered = b"", False
    while chunk := _read(terminal):
        seen += chunk
        if not answered and seen.endswith(b"] "):
            os.write(terminal, typed)
            answered = True
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return Shown(os.waitstatus_to_exitcode(status), seen.decode())


def _read(terminal: int) -> bytes:
    """Return what comes next; nothing when the other end is closed."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
