"""The probe program beside a server of its own: `probe("facts", served=True)`."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gitshadow.ipc import command_client, wire
from gitshadow.platform import current
from tests.support import fork_server, native
from tests.support.waiting import HANGS_S, until

_PROGRAM = str(Path(__file__).parent / "probe_program.py")
IN_PYTHON = (sys.executable, _PROGRAM)
"""The command line of the program with the client that is written in Python."""


@cache
def natively() -> Sequence[str]:
    """Return the command line of the program with the native client."""
    script = f"import runpy; runpy.run_path({_PROGRAM!r}, run_name='__main__')\n"
    return (str(native.beside(native.compiled(), script)),)


@dataclass(frozen=True, slots=True)
class Probe:
    """A command server that runs the probe, and how the program is started with and without it."""

    client: Sequence[str]
    """How the program is started: by Python or natively."""
    environ: Mapping[str, str]
    server: subprocess.Popen[bytes] | fork_server.Child

    def words(self, *args: str | bytes) -> list[str | bytes]:
        """Return the command line."""
        return [*self.client, *args]

    def environment(
        self, *, served: bool, extra: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the environment; it differs in nothing but what switches the server off."""
        switch = "on" if served else "off"
        return {**self.environ, command_client.OFF: switch, **(extra or {})}

    def start(
        self, *args: str | bytes, served: bool, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start the program with pipes."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        env = self.environment(served=served)
        made: dict[str, Any] = {"env": env, **pipes, **options}
        return subprocess.Popen(self.words(*args), **made)

    def run(
        self, *args: str | bytes, served: bool, stdin: bytes = b"", **options: Any
    ) -> tuple[int, bytes, bytes]:
        """Run the program to its end; return code, output and messages."""
        with self.start(*args, served=served, **options) as started:
            out, err = started.communicate(stdin, timeout=HANGS_S)
        return started.returncode, out, err

    def both(
        self, *args: str | bytes, **options: Any
    ) -> Sequence[tuple[int, bytes, bytes]]:
        """Run it in its own process, then through the server."""
        return [self.run(*args, served=one, **options) for one in (False, True)]

    def children(self) -> list[int]:
        """Return the processes of the server."""
        pid = self.server.pid
        return [
            int(one)
            for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]

    def socket(self) -> AbstractContextManager[str]:
        """Return a path to bind or connect to, however long that of the socket is."""
        access = current().socket_access()
        return access.address(str(self.directory), wire.SOCKET_NAME)

    @property
    def directory(self) -> Path:
        """Return the directory of the socket."""
        return Path(command_client.directory(self.environ, self.client[-1]))


def serving(
    client: Sequence[str], *options: str, by: Sequence[str] = IN_PYTHON
) -> Sequence[str]:
    """Return the command line of a server for a client."""
    return (*by, "SERVE", client[-1], *options)


@contextmanager
def probing(
    runtime: Path,
    client: Sequence[str] = IN_PYTHON,
    by: Sequence[str] = IN_PYTHON,
    *options: str,
) -> Iterator[Probe]:
    """Start a server with its socket below a directory; it is gone after the block.

    Args:
        runtime: The directory.
        client: The command line of the program.
        by: The command line of what serves.
        options: What the server lacks.
    """
    module = runtime / "program" / "module.py"
    module.parent.mkdir(exist_ok=True)
    module.touch()
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    environ["PROBE_MODULE"] = str(module)
    environ.pop(command_client.OFF, None)
    server = _start(serving(client, *options, by=by), environ)
    made = Probe(client, environ, server)
    try:
        until(lambda: (made.directory / wire.SOCKET_NAME).exists())
        yield made
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


def _start(
    words: Sequence[str], environ: Mapping[str, str]
) -> subprocess.Popen[bytes] | fork_server.Child:
    """Start a server, by a fork where that is as good: to import everything takes a second."""
    if tuple(words[:2]) != IN_PYTHON or not fork_server.can_fork(environ):
        return subprocess.Popen(words, env=environ)
    request = fork_server.Request("probe", words, "/", environ)
    with open(os.devnull, "r+b") as nothing, open(2, "wb", closefd=False) as errors:
        return fork_server.Child(request, (nothing, nothing, errors))
