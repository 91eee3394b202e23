"""The command server that the tests of one process share, for commands that are executed.

A test, an agent that it drives and a page of the documentation run commands as people do, who have
a server after the first one.
"""

import atexit
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from gitshadow.ipc import command_client, wire
from gitshadow.platform import LINUX, NAME
from tests.support import native
from tests.support.waiting import until

_USED = NAME == LINUX and os.environ.get("GITSHADOW_TEST_SERVER") != "off"


def switch(runtime: Path) -> str:
    """Have commands with this `XDG_RUNTIME_DIR` find it; return their `GITSHADOW_SERVER`."""
    if not _USED:
        return "off"
    directory, server = _start()
    # On a slow machine nothing may have asked it for an hour: then it has ended.
    if select.select([server], [], [], 0)[0]:
        _start.cache_clear()
        directory, _ = _start()
    (runtime / "gitshadow").symlink_to(Path(directory) / "gitshadow")
    return "auto"


@cache
def _start() -> tuple[str, int]:
    """Start the server; return its `XDG_RUNTIME_DIR`, and a pidfd of its process.

    Like the server of a person it is nobody's child: a test plays an agent, and what its
    descendants write counts as the agent's.
    """
    runtime = tempfile.mkdtemp(prefix="gitshadow-served-")
    environ = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PYTHON", "PATH", "LD_", "LC_"))
    }
    environ |= {"HOME": runtime, "XDG_RUNTIME_DIR": runtime}
    program = str(Path(sys.executable).parent / native.NAME)
    words = [sys.executable, "-P", "-m", "gitshadow.command_server", program]
    subprocess.run(["setsid", "--fork", *words], env=environ, cwd="/", check=True)
    place = Path(command_client.directory(environ, program))
    until((place / wire.SOCKET_NAME).exists)
    server = os.pidfd_open(int((place / "lock").read_text()))

    def end() -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(server, signal.SIGKILL)
        select.select([server], [], [])
        shutil.rmtree(runtime)

    atexit.register(end)
    return runtime, server
