"""Run one command for an undo: no shell, few variables, bounded in time and output.

Invariant: when this returns or raises, the command itself is over; what it started in the
background may live on only where it ended by itself.
"""

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gitshadow.turns.errors import FinalFailure

KEY_VARIABLE = "AGENT_UNDO_IDEMPOTENCY_KEY"
_PASSED = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_KEPT_BYTES = 2000
_CHUNK_BYTES = 65536


class CommandError(Exception):
    """Report a command that ended with another code than 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Run commands; `environ` is the program's own, of which little is passed on."""

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
        """Run a command to its end.

        Raises:
            FinalFailure: it could not be started.
            CommandError: it failed; what it did before is unknown.
            TimeoutError: it took too long and was killed, with what it had started.
        """
        passed = self._variables() | dict(env) | {KEY_VARIABLE: idempotency_key}
        program = shutil.which(argv[0], path=passed["PATH"])
        if program is None:
            raise FinalFailure(f"there is no program {argv[0]}")
        try:
            child = subprocess.Popen(
                list(argv),
                executable=program,
                cwd=os.path.join(self.root, cwd or ""),
                env=passed,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise FinalFailure(f"could not start {argv[0]}: {error}") from error
        with child:
            said = self._watched(child)
        if child.returncode != 0:
            words = said.decode("utf-8", "replace").strip()
            raise CommandError(f"{argv[0]} ended with {child.returncode}: {words}")

    def _variables(self) -> dict[str, str]:
        """Return what a command sees of the environment; PATH without relative places."""
        found = {name: self.environ[name] for name in _PASSED if name in self.environ}
        places = self.environ.get("PATH", os.defpath).split(os.pathsep)
        return found | {"PATH": os.pathsep.join(p for p in places if p[:1] == "/")}

    def _watched(self, child: "subprocess.Popen[bytes]") -> bytes:
        """Wait for the end, and return the beginning of what was said."""
        assert child.stdout is not None, "it was asked for"
        said = bytearray()
        pipe = child.stdout.fileno()
        os.set_blocking(pipe, False)
        deadline = time.monotonic() + self.timeout_s
        ended = os.pidfd_open(child.pid)
        try:
            with selectors.DefaultSelector() as ready:
                ready.register(ended, selectors.EVENT_READ)
                ready.register(pipe, selectors.EVENT_READ)
                while child.poll() is None:
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        raise TimeoutError(f"no end after {self.timeout_s:g} s")
                    for key, _ in ready.select(left_s):
                        if key.fd == pipe and not _took(pipe, said):
                            ready.unregister(pipe)
            _took(pipe, said)
            return bytes(said)
        finally:
            os.close(ended)
            _end(child)


def _took(pipe: int, said: bytearray) -> bool:
    """Read what is there, keep its beginning; tell whether more can come."""
    try:
        chunk = os.read(pipe, _CHUNK_BYTES)
    except BlockingIOError:
        return True
    said += chunk[: max(0, _KEPT_BYTES - len(said))]
    return bool(chunk)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Kill a command that is still at work, with all that belongs to it."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
