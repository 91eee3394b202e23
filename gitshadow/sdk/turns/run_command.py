"""Run one command for an undo: no shell, few variables, limited time and output.

When this returns or raises, the command itself has ended. After a timeout so has its process group;
a process that left the group (`setsid`, a daemon) goes on.
"""

import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gitshadow.platform import current
from gitshadow.sdk.turns.errors import FinalFailure

KEY_VARIABLE = "AGENT_UNDO_IDEMPOTENCY_KEY"
_POLL_S = 0.02
_PASSED = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_KEPT_BYTES = 2000
_CHUNK_BYTES = 65536


class CommandError(Exception):
    """Report a command that ended with another code than 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is to be run; `variables` are all that it sees of an environment."""

    argv: Sequence[str]
    cwd: str
    variables: Mapping[str, str]
    timeout_s: float
    stdin: bytes = b""

    def run(self) -> None:
        """Run it to its end.

        Raises:
            FinalFailure: it could not be started.
            CommandError: it failed; what it did before is unknown.
            TimeoutError: it took too long and was killed, with its process group.
        """
        with self._started() as child:
            try:
                said = self._watched(child)
            finally:
                _end(child)
        if child.returncode != 0:
            words = said.decode("utf-8", "replace").strip()
            raise CommandError(f"{self.argv[0]} ended with {child.returncode}: {words}")

    def _started(self) -> "subprocess.Popen[bytes]":
        name = self.argv[0]
        program = shutil.which(name, path=self.variables.get("PATH", ""))
        if program is None:
            raise FinalFailure(f"no such program: {name}")
        # A file and not a pipe: a command that never reads its input cannot block us.
        with tempfile.TemporaryFile() as stdin:
            stdin.write(self.stdin)
            stdin.seek(0)
            try:
                return subprocess.Popen(
                    list(self.argv),
                    executable=program,
                    cwd=self.cwd,
                    env=dict(self.variables),
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    # A process group of its own, so that a timeout also kills what the command
                    # started and what stayed in the group.
                    start_new_session=True,
                )
            except OSError as error:
                raise FinalFailure(f"could not start {name}: {error}") from error

    def _watched(self, child: "subprocess.Popen[bytes]") -> bytes:
        """Wait for the end, and return the beginning of what was said."""
        assert child.stdout is not None, "it was requested"
        said = bytearray()
        pipe = child.stdout.fileno()
        os.set_blocking(pipe, False)
        deadline = time.monotonic() + self.timeout_s
        # A background process may keep the pipe open, so its end says nothing about the command:
        # the end of the command itself is awaited, or asked for now and then.
        ended = current().machine_facts().end_descriptor(child.pid)
        try:
            with selectors.DefaultSelector() as ready:
                if ended is not None:
                    ready.register(ended, selectors.EVENT_READ)
                ready.register(pipe, selectors.EVENT_READ)
                while child.poll() is None:
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        raise TimeoutError(f"no end after {self.timeout_s:g} s")
                    turn_s = left_s if ended is not None else min(left_s, _POLL_S)
                    for key, _ in ready.select(turn_s):
                        if key.fd == pipe and not _took(pipe, said):
                            ready.unregister(pipe)
            _took(pipe, said)
            return bytes(said)
        finally:
            if ended is not None:
                os.close(ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRunner:
    """Run commands for inverses; `environ` is the program's own, of which little is passed on."""

    root: str
    environ: Mapping[str, str]
    timeout_s: float

    def __call__(
        self,
        *,
        argv: Sequence[str],
        cwd: str | None,
        env: Mapping[str, str],
        idempotency_key: str,
    ) -> None:
        """Run a command to its end; as `Command.run`."""
        found = {name: self.environ[name] for name in _PASSED if name in self.environ}
        found |= {"PATH": search_path(self.environ), **env}
        Command(
            argv=argv,
            cwd=os.path.join(self.root, cwd or ""),
            variables=found | {KEY_VARIABLE: idempotency_key},
            timeout_s=self.timeout_s,
        ).run()


def search_path(environ: Mapping[str, str]) -> str:
    """Return where programs are looked for: never in relative places."""
    # A relative entry would let the working tree choose the program, and an agent writes there.
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(place for place in places if place[:1] == "/")


def _took(pipe: int, said: bytearray) -> bool:
    """Read what is there, keep its beginning; return whether more can come."""
    try:
        chunk = os.read(pipe, _CHUNK_BYTES)
    except BlockingIOError:
        return True
    # The rest is read as well: a full pipe would stop the command.
    said += chunk[: max(0, _KEPT_BYTES - len(said))]
    return bool(chunk)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Kill a command that is still at work, with its process group."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
