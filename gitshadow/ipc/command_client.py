"""Have the command server run this program's command, as if it ran here.

A process that has imported everything greets us with its version and is sent one message: this
program, its arguments and environment, with the descriptors of the standard streams and of the
current directory (cmsg(3)). It says that it is ready, with an end of a pipe that shows whether we
live, and begins at our word: until then the command can be run here instead, and after it never is.
Messages back are `exit NUMBER`, `signal NUMBER`, `pager COMMAND` with the pipe that the pager
reads, and `read`, for a line of the terminal. A daemon is asked for in the same way, and sends
nothing more.

Invariant: only built-in modules are imported, because every command pays for the import.
"""

import _socket
import os
import sys

from gitshadow import __version__, platform
from gitshadow.ipc import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal  # which would import enum, for 5 ms
    from collections.abc import Callable, Mapping, Sequence

    from gitshadow.store.layout import Layout
else:
    import _signal

OFF, SETTING = "GITSHADOW_SERVER", "agent-undo.server"
VERSION = f"{__version__}-2".encode()
"""What a server says first; native/client.c has the same number."""
COMMAND, DAEMON = b"command", b"daemon"
GO = b"go"
LOG = "log"
FD_BYTES = 4
MAX_ANSWER = 1 << 16
MAX_LINE = 1 << 12
_CONNECT_S = 0.05
_READY_S = 1.0
_LOOK_MS = 200
_FORWARDED = tuple(
    getattr(_signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
)


def directory(environ: "Mapping[str, str]", program: str) -> str:
    """Return the directory of the server's socket, of this user, installation and namespace.

    Args:
        environ: The environment.
        program: The path of the program; its directory is that of the installation.

    Raises:
        OSError: the environment names no directory of the user, or the installation is gone.
    """
    runtime = _users_directory(environ)
    if runtime is None:
        raise FileNotFoundError("no directory for the command server")
    found = os.stat(os.path.dirname(os.path.realpath(program)))
    mark = f"{found.st_dev:x}.{found.st_ino:x}"
    return f"{runtime}/gitshadow/{mark}-{platform.current().world()}"


def _users_directory(environ: "Mapping[str, str]") -> str | None:
    # A relative one counts as none (XDG Base Directory): the server, in the root directory, would
    # make it there, and so would that of a root without HOME.
    home = environ.get("HOME", "")
    names = (environ.get("XDG_RUNTIME_DIR"), environ.get("XDG_STATE_HOME"))
    usual = f"{home}/.local/state" if home else None
    return next((one for one in (*names, usual) if one and one[0] == "/"), None)


def _own_directory() -> str | None:
    """Return the directory of the server of the installation whose Python runs this process."""
    program = os.path.join(os.path.dirname(sys.executable), "git-agent-undo")
    try:
        return directory(os.environ, program)
    except OSError:
        return None


def greeting() -> bytes:
    """Return what a server says first: its version, and which Python runs it."""
    prefix = os.stat(sys.prefix)
    return b"%b %x.%x.%x" % (VERSION, sys.hexversion, prefix.st_dev, prefix.st_ino)


def run(argv: "Sequence[str]", here: "Callable[[], int]") -> int:
    """Have a command run by the server, or here where there is none or it does not take it.

    Args:
        argv: The program and its arguments.
        here: Runs it in this process, to its end.

    Returns:
        Its exit code. Where a signal ended it, the same one ends this process.
    """
    if not _may_ask():
        return here()
    place = directory(os.environ, argv[0])
    server = _connect(place)
    if server is None:
        code = here()
        start_if_wanted(argv[0])
        return code
    request = _request(COMMAND, argv, os.environb)
    worker = _worker_for(request, (0, 1, 2), ".", server, place)
    if worker is not None:
        return _ServedCommand(server, worker).wait()
    server.close()
    return here()


def begin_daemon(
    argv: "Sequence[str]", environ: "Mapping[str, str]", streams: "Sequence[int]"
) -> bool:
    """Have a process of the server become a daemon, in the root directory.

    Args:
        argv: The program and its arguments, as they would be executed.
        environ: Its environment.
        streams: Its standard streams.

    Returns:
        Whether it begins. If not, it has to be executed.
    """
    place = _own_directory() if _may_ask() else None
    server = None if place is None else _connect(place)
    if place is None or server is None:
        return False
    named = {os.fsencode(n): os.fsencode(v) for n, v in environ.items()}
    request = _request(DAEMON, argv, named)
    try:
        worker = _worker_for(request, streams, "/", server, place)
        if worker is not None:
            server.send(GO)
        return worker is not None
    except OSError:
        return False
    finally:
        server.close()


def running() -> tuple[int, str] | None:
    """Return the pid and the version of the server of this installation, None if none answers."""
    place = _own_directory() if _may_ask() else None
    server = None if place is None else _connect(place)
    peers = platform.current().command_peers()
    if server is None or peers is None:
        return None
    try:
        server.settimeout(_READY_S)
        version = server.recv(MAX_ANSWER).partition(b" ")[0].rpartition(b"-")[0]
        return peers.pid_of(server), version.decode("ascii", "replace")
    except OSError:
        return None
    finally:
        server.close()


def log() -> str | None:
    """Return the file in which the last server says why it ended; None where it says nothing."""
    path = f"{_own_directory()}/{LOG}"
    return path if os.path.exists(path) and os.path.getsize(path) else None


def is_off(layout: "Layout") -> bool:
    """Return whether the environment or the settings allow no server."""
    if _is_off_here():
        return True
    from gitshadow.store.git_settings import read_settings

    # Without `config`: to import it takes a fifth of the time of a first command.
    found = read_settings(layout, os.environ, (SETTING,))
    return found.get(SETTING, "auto").lower() != "auto"


def _may_ask() -> bool:
    if _is_off_here() or _users_directory(os.environ) is None:
        return False
    return platform.current().world() is not None and sys.gettrace() is None


def _is_off_here() -> bool:
    return os.environ.get(OFF, "").lower() == "off"


def _request(
    kind: bytes, argv: "Sequence[str]", environ: "Mapping[bytes, bytes]"
) -> bytes:
    words = [os.fsencode(word) for word in argv]
    named = [name + b"=" + value for name, value in environ.items()]
    return b"\0".join((kind, b"%d" % len(words), *words, *named))


def _worker_for(
    request: bytes,
    streams: "Sequence[int]",
    here: str,
    server: _socket.socket,
    place: str,
) -> int | None:
    """Return the pid of a process of the server that is ready to begin, None if none is."""
    try:
        return _handed_over(request, streams, here, server)
    except TimeoutError:
        # It hangs. Without its socket it ends as soon as it goes on, and nobody waits for it again.
        _unlink(f"{place}/{wire.SOCKET_NAME}")
    except (OSError, ValueError):
        pass
    return None


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def start_if_wanted(program: str, *, behind: bool = False) -> None:
    """Start a server for the commands to come, if there may be one.

    Args:
        program: The path of the program.
        behind: Whether another process is to find that out, because nobody must wait for it.
    """
    if not _may_ask() or (behind and os.fork()):
        return
    if behind:
        # An agent waits for the end of our streams, too.
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
    if _is_wanted():
        _start(program)


def _is_wanted() -> bool:
    """Return whether a server may be started from here: by a user who records something.

    Not in a sandbox or with a lower priority, where it could do nothing for others, nor by sudo(8).
    """
    from gitshadow.store.layout import discover

    try:
        layout = discover(os.getcwd())
        # A hook comes with each tool call, in repositories that are not recorded, too.
        if layout is None or not layout.initialised:
            return False
        peers = platform.current().command_peers()
        is_other = "SUDO_UID" in os.environ or os.nice(0) > 0
        if peers is None or is_other or peers.is_confined():
            return False
    except OSError:
        return False
    return not is_off(layout)


def _start(path: str) -> None:
    """Start a server, and do not wait for it; where one starts already, this one ends."""
    kept = ("HOME", "PATH", "TMPDIR", "LANG", "LC_", "XDG_", "PYTHON", "LD_")
    environ = {n: v for n, v in os.environ.items() if n.startswith(kept)}
    program = [sys.executable, "-P", "-m", "gitshadow.command_server"]
    program.append(os.path.realpath(path))
    nowhere = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, nowhere, number) for number in range(3)]
    signals = _signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP}
    os.posix_spawn(
        program[0],
        program,
        environ,
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=signals,
    )


def _connect(place: str) -> _socket.socket | None:
    """Connect to a server of our own user."""
    try:
        server = wire.connect(place, _CONNECT_S, _socket.SOCK_SEQPACKET)
    except OSError:
        return None
    if platform.current().socket_access().peer_user(server) == os.geteuid():
        return server
    server.close()
    return None


def _handed_over(
    request: bytes, streams: "Sequence[int]", directory: str, server: _socket.socket
) -> int | None:
    """Give a request to a process of the server; return its pid, None where it takes none.

    Raises:
        TimeoutError: nobody answers.
        OSError, ValueError: the server ended, or what it says makes no sense.
    """
    here = os.open(directory, platform.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        server.settimeout(_READY_S)
        # A message that nobody takes would keep our streams open for as long as it lies there.
        if server.recv(MAX_ANSWER) != greeting():
            return None
        server.sendmsg([request], [descriptors(*streams, here)])
        # Nothing closes the pipe that comes with it before the end of this process.
        answer = server.recvmsg(MAX_ANSWER, 64, _socket.MSG_CMSG_CLOEXEC)[0]
        word, _, pid = answer.partition(b" ")
        return int(pid) if word == b"ready" else None
    finally:
        os.close(here)


def descriptors(*fds: int) -> tuple[int, int, bytes]:
    """Return open files as a message of a Unix socket carries them."""
    packed = b"".join(fd.to_bytes(FD_BYTES, sys.byteorder) for fd in fds)
    return _socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed


def received(ancillary: "Sequence[tuple[int, int, bytes]]") -> list[int]:
    """Return the open files that came with a message."""
    packed = b"".join(data for _, kind, data in ancillary if kind == _socket.SCM_RIGHTS)
    return [
        int.from_bytes(packed[at : at + FD_BYTES], sys.byteorder)
        for at in range(0, len(packed) - FD_BYTES + 1, FD_BYTES)
    ]


class _ServedCommand:
    """A command that another process runs, as the shell and the terminal see it: this process.

    It runs in a process group of its own. What the terminal sends to our group is passed on to
    that one, and only this process reads the terminal: a reader that is to be stopped would take
    what is typed for the shell, if it comes to its end late.
    """

    def __init__(self, server: _socket.socket, worker: int) -> None:
        self._server = server
        self._worker = worker
        self._continued = 0

    def wait(self) -> int:
        """Have it begin, and wait for its end."""
        for number in _FORWARDED:
            self._handle(number, self._forward)
        self._handle(_signal.SIGTSTP, self._stop)
        self._handle(_signal.SIGCONT, self._go_on)
        self._server.settimeout(None)
        try:
            self._server.send(GO)
        except OSError:
            return _lost()
        while True:
            try:
                answer, ancillary, _, _ = self._server.recvmsg(MAX_ANSWER, 64)
            except OSError:
                return _lost()
            word, _, rest = answer.partition(b" ")
            if word == b"exit":
                return int(rest)
            if word == b"signal":
                self._end_by(int(rest))
            elif word == b"pager":
                _page(rest, received(ancillary))
                self._server.send(GO)
            elif word == b"read":
                self._read_terminal()
            else:
                return _lost()

    @staticmethod
    def _handle(number: int, act: "Callable[[int, object], None]") -> None:
        # What the caller ignores stays ignored, as nohup(1) wants it.
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, act)

    def _kill(self, number: int) -> None:
        try:
            os.killpg(self._worker, number)
        except OSError:
            return

    def _forward(self, number: int, _: object) -> None:
        self._kill(number)

    def _stop(self, number: int, _: object) -> None:
        # The group over there is an orphaned one, which no stop of a terminal reaches; setpgid(2).
        self._kill(_signal.SIGSTOP)
        _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
        # Ours may be an orphaned one, too, which nobody has to continue.
        self._kill(_signal.SIGCONT)
        _signal.signal(number, self._stop)

    def _go_on(self, *_: object) -> None:
        self._continued += 1
        self._kill(_signal.SIGCONT)

    def _read_terminal(self) -> None:
        """Read the terminal for the command, unless that has more to say."""
        import select

        waiting = select.poll()
        waiting.register(self._server, select.POLLIN)
        waiting.register(0, select.POLLIN)
        server = self._server.fileno()
        ready: dict[int, int] = {}
        while not ready:
            self._come_forward()
            ready = dict(waiting.poll(_LOOK_MS))
        if server in ready:
            return
        try:
            line = os.read(0, MAX_LINE)
        except OSError:
            line = b""
        self._server.send(GO + line)

    def _come_forward(self) -> None:
        """Stop, as who reads a terminal in the background, until we are in the foreground."""
        while _in_background():
            before = self._continued
            os.kill(os.getpid(), _signal.SIGTTIN)
            if self._continued == before:
                return  # the kernel does not stop an orphaned group

    def _end_by(self, number: int) -> None:
        """End as the command did."""
        if number != _signal.SIGKILL:
            _signal.signal(number, _signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _lost() -> int:
    sys.stderr.write("error: the process that ran this command was killed\n")
    return 1


def _in_background() -> bool:
    try:
        return os.tcgetpgrp(0) != os.getpgrp()
    except OSError:
        return False


def _page(command: bytes, fds: "Sequence[int]") -> None:
    """Run a pager here, where the terminal's signals reach it."""
    actions = [(os.POSIX_SPAWN_DUP2, fds[0], 0)]
    shell = [b"/bin/sh", b"-c", command]
    try:
        pager = os.posix_spawn(
            shell[0],
            shell,
            os.environ,
            file_actions=actions,
            # Python ignores these itself.
            setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ),
        )
    finally:
        for fd in fds:
            os.close(fd)
    os.waitpid(pager, 0)
