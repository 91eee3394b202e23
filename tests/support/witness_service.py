"""The witness service, installed and started in a mount namespace of its own.

There /run and /var/lib are empty, so its real paths are used and the machine keeps none of it.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitshadow.platform.linux.witness import install
from gitshadow.platform.linux.witness.record import KernelWitness
from tests.support.shadow import COMMAND
from tests.support.waiting import until

USER, OTHER = 12345, 12346
_EMPTY = "mount -t tmpfs -o mode=755 none"
_CAPABILITIES = "-all,+sys_admin,+net_admin,+dac_read_search"
_CLONE_FS = 0x200
_CLONE_NEWNS = 0x20000


@dataclass(slots=True)
class Machine:
    """The mount namespace of one test; `place` is a directory that every user can reach."""

    namespace: str
    place: Path
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def entering(self) -> tuple[str, ...]:
        """Return the words before a command that runs in it."""
        return ("nsenter", f"--mount={self.namespace}", "--")

    def start(self) -> None:
        """Start the installed service with the capabilities that its unit allows."""
        words = (
            "setpriv",
            "--no-new-privs",
            f"--bounding-set={_CAPABILITIES}",
            "--inh-caps=-all",
            *install.COMMAND,
        )
        self.process = subprocess.Popen((*self.entering, *words))
        until(lambda: self.status() == 0)

    def stop(self, number: int) -> None:
        """End the service by a signal."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None

    def status(self) -> int:
        """Return the exit code of the verb that looks whether the service answers."""
        return self.root("witness", "status").returncode

    def root(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run the installed command as root."""
        return subprocess.run(
            (*self.entering, COMMAND, *words),
            capture_output=True,
            text=True,
            check=False,
        )

    def words_of(
        self, user: int, cwd: Path, words: Sequence[str], environ: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Return a command as another user runs it; it may read all, as tests are root's."""
        reading = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
        who = (f"--reuid={user}", f"--regid={user}", "--clear-groups")
        variables = (f"{name}={value}" for name, value in environ.items())
        return (
            *self.entering,
            "setpriv",
            *who,
            *reading,
            "env",
            f"--chdir={cwd}",
            "-i",
            *variables,
            *words,
        )

    def as_user(self, user: int, act: Callable[[], None]) -> None:
        """Have a fork of this process do something as another user, and raise if it fails."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _become(self.namespace, user)
                act()
                code = 0
            finally:
                if code:
                    traceback.print_exc()
                    sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert status == 0, "see the traceback above"


def _become(namespace: str, user: int) -> None:
    fd = os.open(namespace, os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    # setns(2) refuses (EINVAL) while anything shares the root and the directory of this process.
    assert libc.unshare(_CLONE_FS) == 0, os.strerror(ctypes.get_errno())
    assert libc.setns(fd, _CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    os.close(fd)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


@contextmanager
def machine() -> Iterator[Machine]:
    """Install the service in a mount namespace; skip where that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("only root can start the witness service")
    for name in ("unshare", "nsenter", "setpriv"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    with ExitStack() as stack:
        place = Path(tempfile.mkdtemp(prefix="witness-"))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        place.chmod(0o755)
        need_kernel(place)
        script = f"{_EMPTY} /run && {_EMPTY} /var/lib && echo && exec cat"
        words = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script)
        holder = stack.enter_context(
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        stack.callback(holder.kill)
        assert holder.stdout is not None
        if holder.stdout.readline() != b"\n":
            pytest.skip("this process may not mount anything")
        found = Machine(f"/proc/{holder.pid}/ns/mnt", place)
        done = found.root("witness", "install")
        assert done.returncode == 0, done.stderr
        found.start()
        try:
            yield found
        finally:
            found.stop(15)


def need_kernel(place: Path) -> None:
    """Skip a test where this process may not read what the kernel reports."""
    top = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        KernelWitness(top).close()
    except OSError as error:
        pytest.skip(f"the kernel reports no writes to this process: {error}")
    finally:
        os.close(top)
