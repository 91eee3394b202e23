"""The command server that the tests of one process share, for commands that are executed."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from gitshadow.ipc import command_client, wire
from gitshadow.platform import LINUX, NAME
from tests.support import native
from tests.support.waiting import until

_USED = NAME == LINUX and os.environ.get("GITSHADOW_TEST_SERVER") != "off"


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a command finds the server, unless a test has its own."""
    own = env.get(command_client.OFF) != "off" or "GITSHADOW_PLATFORM" in env
    if not _USED or own:
        return dict(env)
    here = Path(env["XDG_RUNTIME_DIR"]) / "gitshadow"
    with suppress(FileExistsError):
        here.symlink_to(Path(_runtime()) / "gitshadow")
    return {**env, command_client.OFF: "auto"}


@cache
def _runtime() -> str:
    """Start the server; return its `XDG_RUNTIME_DIR`."""
    runtime = tempfile.mkdtemp(prefix="gitshadow-served-")
    environ = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PYTHON", "PATH", "LD_", "LC_"))
    }
    environ |= {"HOME": runtime, "XDG_RUNTIME_DIR": runtime}
    program = str(Path(sys.executable).parent / native.NAME)
    words = [sys.executable, "-P", "-m", "gitshadow.command_server", program]
    server = subprocess.Popen(words, env=environ, cwd="/")
    place = Path(command_client.directory(environ, program))
    until((place / wire.SOCKET_NAME).exists)

    def end() -> None:
        server.kill()
        server.wait()
        shutil.rmtree(runtime)

    atexit.register(end)
    return runtime
