"""Runs the command, the daemon and the server of the probe in forks of one process.

It has imported them already: to start Python and to import takes five times as long as what most
commands do, and most of the time of a server that runs one command for a test. A fork looks to
/proc like a program that was executed: the test is its parent, and it has its own arguments and
environment. Tests whose subject is the process itself execute the installed command instead.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import IO, NoReturn

import pygit2
from pygit2.enums import ConfigLevel, Option

from tests.support.waiting import HANGS_S, readable

# clone(2). The flag makes the test the parent of a fork, as subprocess would: hooks report their
# ancestors, and the nearest one counts as the agent.
_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
_CLONE_PARENT = 0x8000
_PLATFORM = "GITSHADOW_PLATFORM"
_OWN = b"python"
_LEFT_OUT = ("gitshadow.lsp", "gitshadow.sdk", "gitshadow.ui")


def _read_at_start(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that Python or the package reads when it starts, and never again."""
    read = ("PYTHON", "LANG", "LC_", _PLATFORM)
    return {name: value for name, value in env.items() if name.startswith(read)}


# As every test has them: a test's environment is sealed.
_AT_START = {
    "LC_ALL": "C",
    **{
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PYTHON", _PLATFORM)) and name != "PYTHONDONTWRITEBYTECODE"
    },
}


def can_fork(env: Mapping[str, str]) -> bool:
    """Return whether a fork behaves as a new process with this environment does.

    Coverage begins when a process starts.
    """
    counted = any(name.startswith(("COV_", "COVERAGE_")) for name in env)
    return _CLONE is not None and not counted and _read_at_start(env) == _AT_START


def umask() -> int:
    """Return the permissions that this process withholds from new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


@dataclass(frozen=True, slots=True)
class Request:
    """A program to fork, "command", "daemon" or "probe", with what the kernel passes to it."""

    program: str
    arguments: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    umask: int = field(default_factory=umask)


def run(request: Request, stdin: bytes, timeout_s: float) -> "Ended":
    """Run a program to its end and return what became of it.

    Raises:
        subprocess.TimeoutExpired: it took longer; it is killed.
    """
    with _file(stdin) as given, _file() as out, _file() as err:
        code = start(request, (given, out, err), timeout_s)
        return Ended(code, _content(out), _content(err))


def start(request: Request, streams: Sequence[IO[bytes]], timeout_s: float) -> int:
    """Fork a program on three streams, wait for it, and return its exit code.

    Raises:
        subprocess.TimeoutExpired: it took longer; it is killed.
    """
    child = Child(request, streams)
    try:
        return child.wait(timeout_s)
    except BaseException:  # pytest-timeout raises here too
        child.kill()
        child.wait()
        raise


class Child:
    """A forked program on three streams, with what tests use of `subprocess.Popen`."""

    def __init__(self, request: Request, streams: Sequence[IO[bytes]]) -> None:
        self.arguments = request.arguments
        self.pid = _server().fork(request, streams)
        self._code: int | None = None

    def wait(self, timeout_s: float = HANGS_S) -> int:
        """Wait for its end and return its exit code, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: it took longer.
        """
        if self._code is None:
            handle = os.pidfd_open(self.pid)
            try:
                if not readable(handle, timeout_s):
                    raise subprocess.TimeoutExpired(list(self.arguments), timeout_s)
            finally:
                os.close(handle)
            _, status = os.waitpid(self.pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless its end was waited for: then the number may be another's."""
        if self._code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code of a program, negative for a signal, and its two outputs."""

    returncode: int
    stdout: bytes
    stderr: bytes


class _Server:
    """The process that is forked, seen from the tests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                env=_AT_START,
                cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._end)

    def fork(self, request: Request, streams: Sequence[IO[bytes]]) -> int:
        with self._lock, _file(json.dumps(asdict(request)).encode()) as body:
            fds = [stream.fileno() for stream in (body, *streams)]
            socket.send_fds(self._socket, [_name(request)], fds)
            return int(self._socket.recv(64))

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _server() -> _Server:
    return _Server()


def _name(request: Request) -> bytes:
    """Return what the kernel calls a process that runs a program."""
    is_command = request.program == "command"
    return os.path.basename(os.fsencode(request.arguments[0])) if is_command else _OWN


def _file(data: bytes = b"") -> IO[bytes]:
    file = os.fdopen(os.memfd_create("test"), "w+b")
    file.write(data)
    file.seek(0)
    return file


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


# In the process that is forked


def _serve(connection: socket.socket) -> None:
    os.environ.clear()
    while True:
        message, fds, _, _ = socket.recv_fds(connection, 64, 4)
        if not message:
            return
        # From its birth: what a test starts would be taken for a program of the agent's.
        _call_this(message)
        pid = _fork()
        if pid == 0:
            _become(*fds)
        _call_this(_OWN)
        connection.send(str(pid).encode())
        for fd in fds:
            os.close(fd)


def _call_this(name: bytes) -> None:
    with open("/proc/self/comm", "wb") as file:
        file.write(name)


def _fork() -> int:
    # Only this class of ctypes keeps the interpreter's lock during the call.
    python = ctypes.PyDLL(None)
    python.PyOS_BeforeFork()
    pid = int(python.syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


def _become(body: int, *streams: int) -> NoReturn:
    with open(body, "rb") as file:
        request = Request(**json.load(file))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 256)
    os.umask(request.umask)
    os.chdir(request.cwd)
    os.environ.update(request.env)
    time.tzset()
    for level in (ConfigLevel.GLOBAL, ConfigLevel.XDG):
        # None has libgit2 look at the environment again.
        pygit2.option(Option.SET_SEARCH_PATH, level, None)
    from gitshadow.platform.linux import peers

    words = [os.fsencode(word) for word in request.arguments]
    assert peers.show_as(words, os.environb), "the kernel lets no process do that"
    sys.argv = list(request.arguments)
    if request.program == "command":
        from gitshadow import entry

        # As the native client executes what no server runs.
        sys.argv[:0] = ["", "up"]
        entry.direct()
    if request.program == "probe":
        from tests.support import probe_program

        del sys.argv[0]
        sys.exit(probe_program.main())
    from gitshadow.daemon.__main__ import main

    os.setsid()
    sys.argv = sys.argv[-3:]
    code = main()
    # An orderly end would take down all that was imported for commands, and copy its memory first.
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Import the program, then fork it for every request."""
    importlib.import_module("gitshadow.entry")
    package = importlib.import_module("gitshadow")
    for module in pkgutil.walk_packages(package.__path__, "gitshadow."):
        if not module.name.startswith(_LEFT_OUT):
            importlib.import_module(module.name)
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
