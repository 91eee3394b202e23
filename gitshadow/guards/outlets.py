"""How an alert reaches a person at once: the title of the agent's terminal, the desktop.

Invariant: what is shown is one line of printable ASCII; nothing here raises or waits.
"""

import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

from gitshadow.attribution.process import ProcessId, is_alive
from gitshadow.platform import current

_MOST_CHARACTERS = 160
_TERMINALS = ("/dev/pts/", "/dev/tty")
_DESKTOP = ("DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "DISPLAY")
_NOTIFIER = "notify-send"
_WAIT_S = 5.0


class Outlet(Protocol):
    """The port: where an alert is shown at once."""

    def show(self, line: str, process: ProcessId | None) -> None:
        """Show a line; `process` is the agent's, if it is known."""


def outlets(environ: Mapping[str, str]) -> tuple[Outlet, ...]:
    """Return the outlets that this machine has."""
    desktop: tuple[Outlet, ...] = ()
    program = shutil.which(_NOTIFIER, path=environ.get("PATH"))
    if program is not None and any(environ.get(name) for name in _DESKTOP):
        desktop = (Desktop(program, dict(environ)),)
    return (TerminalTitle(), *desktop)


def one_line(text: str) -> str:
    """Return a text without a character that a terminal or a desktop could interpret."""
    clean = "".join(char if " " <= char <= "~" else "?" for char in text)
    return clean[:_MOST_CHARACTERS]


class TerminalTitle:
    """Set the title of the terminal in which the agent runs."""

    def show(self, line: str, process: ProcessId | None) -> None:
        """Write the title; nothing without a living process on a terminal of this user."""
        if process is None or not is_alive(process):
            return
        for path in current().process_facts().terminals(process.pid):
            with suppress(OSError):
                if path.startswith(_TERMINALS) and _write_title(path, one_line(line)):
                    return


def _write_title(path: str, line: str) -> bool:
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
    terminal = os.open(path, flags)
    try:
        found = os.fstat(terminal)
        own = stat.S_ISCHR(found.st_mode) and found.st_uid == os.geteuid()
        if not own or not os.isatty(terminal):
            return False
        # OSC 2 sets the title of the window and draws nothing (xterm's control sequences).
        os.write(terminal, f"\033]2;{line}\007".encode())
        return True
    finally:
        os.close(terminal)


class Desktop(NamedTuple):
    """Show a notification of the desktop by `notify-send`."""

    program: str
    environ: Mapping[str, str]

    def show(self, line: str, process: ProcessId | None) -> None:
        """Start the program and do not wait for it."""
        # It blocks where no notification service answers, so it must not run in the main thread.
        threading.Thread(target=self._run, args=(one_line(line),), daemon=True).start()

    def _run(self, line: str) -> None:
        words = [self.program, "--app-name=gitshadow", "gitshadow", line]
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                words,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_WAIT_S,
                check=False,
            )
