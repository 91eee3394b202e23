"""One process of the command server: it waits for a command or a daemon and becomes it.

Invariant: before the client's word nothing is done that another run of the command would repeat.
"""

import io
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from gitshadow import cli, commands, entry
from gitshadow.daemon import __main__ as daemon
from gitshadow.ipc import command_client, handover, launch, own_process
from gitshadow.platform import current
from gitshadow.platform.port import CommandPeers
from gitshadow.render import output
from gitshadow.render.style import is_plain_locale, named_locale
from gitshadow.store.backends import libgit2

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_TAKE_S = 5.0
_MAX_REQUEST = 1 << 20
# What Python, its packages or this one read when they start.
_READ_AT_START = ("PYTHON", "LD_", "MALLOC_", "COV_", "COVERAGE_", "GITSHADOW_PLATFORM")
_WITHOUT_EFFECT = frozenset(
    (
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "PYTHONPYCACHEPREFIX",
        "PYTHONSTARTUP",
    )
)
# man(1) needs the terminal's session, the tools of an agent program are code of the user, and from
# pre-commit's environment another program is executed.
_DIRECT_OPTIONS = frozenset(("--help", "--tools", handover.FLAG))
# In the names of files that the client's shell opened for it.
_OPENED = "/fd/"


FileMark = tuple[int, int, int]


class Beginning(NamedTuple):
    """How the server began: its environment, and the program on the disk.

    `changes` can be read once a file of the program has changed. `marks` are of the paths by which
    it is found, or, where nothing can be watched, of all its files.
    """

    environ: Mapping[str, str]
    marks: Mapping[bytes, FileMark]
    changes: int | None

    def is_stale(self) -> bool:
        """Return whether the program on the disk is another one now."""
        # Nobody reads it: all processes of the server have this descriptor.
        poll = select.poll()
        if self.changes is not None:
            poll.register(self.changes, select.POLLIN)
        if poll.poll(0):
            return True
        try:
            return any(mark_of(path) != mark for path, mark in self.marks.items())
        except OSError:
            return True


def mark_of(path: bytes) -> FileMark:
    """Return what differs once a file was written or replaced, or a directory changed.

    Raises:
        OSError: there is none.
    """
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_mtime_ns


class Request(NamedTuple):
    """A command or a daemon: words, environment, the files 0, 1, 2 and the current directory."""

    is_daemon: bool
    argv: list[str]
    environ: dict[bytes, bytes]
    fds: list[int]
    peers: CommandPeers


def work(
    listening: socket.socket, control: socket.socket, beginning: Beginning
) -> NoReturn:
    """Wait for one command, run it and end, whatever happens."""
    try:
        _work(listening, control, beginning)
    except BaseException:  # noqa: BLE001 - see below
        # A fault of ours; the code of the server, which this process has too, must not go on here.
        traceback.print_exc()
    finally:
        os._exit(1)


def _work(
    listening: socket.socket, control: socket.socket, beginning: Beginning
) -> None:
    _rehearse(beginning)
    client = _accepted(listening, control)
    pid = b"%d" % os.getpid()
    # The server may have ended just now; the command is served all the same.
    with suppress(OSError):
        control.sendmsg([pid], [command_client.descriptors(client.fileno())])
    listening.close()
    control.close()
    if beginning.is_stale():
        return
    if beginning.changes is not None:
        os.close(beginning.changes)
    client.send(command_client.greeting())
    request = _taken(client, beginning)
    if request is None:
        return
    _become(request)
    if not request.is_daemon:
        _run(client, request.peers)
    elif _begins(client):
        client.close()
        code = daemon.main()
        entry.flush_streams()
        os._exit(code)


def _rehearse(beginning: Beginning) -> None:
    """Do what every command does, for nobody.

    Memory is shared with the server until it is written to; each page is copied then. A command
    would spend half of its time on that.
    """
    ours = {os.fsencode(name): os.fsencode(value) for name, value in os.environ.items()}
    peers = current().command_peers()
    if (
        beginning.is_stale()
        or peers is None
        or not peers.stand_in(os.getpid(), lasting=False)
    ):
        return
    _is_alike(ours, beginning.environ)
    _may_be_served(_verb(["status"]), ["status"])
    _take_environment(ours)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        cli.main(["-h"])


def _accepted(listening: socket.socket, control: socket.socket) -> socket.socket:
    poll = select.poll()
    poll.register(listening, select.POLLIN)
    poll.register(control, 0)
    while True:
        for fd, _ in poll.poll():
            if fd == control.fileno():
                os._exit(0)
        try:
            return listening.accept()[0]
        except BlockingIOError:
            continue  # another one was faster


def _taken(client: socket.socket, beginning: Beginning) -> Request | None:
    """Read a request; None where it is not for this server."""
    client.settimeout(_TAKE_S)
    body, ancillary, flags, _ = client.recvmsg(_MAX_REQUEST, 64)
    fds = command_client.received(ancillary)
    if not body:  # the client does not wait any more
        return None
    kind, count, *words = body.split(b"\0")
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or len(fds) != 4:
        return None
    argv = [os.fsdecode(word) for word in words[: int(count)]]
    pairs = (word.partition(b"=") for word in words[int(count) :])
    environ = {name: value for name, _, value in pairs}
    is_daemon = kind == command_client.DAEMON
    verb = None if is_daemon else _verb(argv[1:])
    may_be_served = is_daemon or _may_be_served(verb, argv[1:])
    if not (may_be_served and _is_alike(environ, beginning.environ)):
        return None
    peers = current().command_peers()
    if peers is None:
        return None
    pid = peers.pid_of(client)
    lasting = is_daemon or (verb is not None and verb.starts_daemon)
    if not peers.stand_in(pid, lasting=lasting):
        return None
    peers.rename(os.path.basename(argv[0]))
    if not is_daemon:
        own_process.stand_in_for(pid)
    # A daemon is found by its arguments, for days.
    elif not peers.show_as(words[: len(argv)], environ):
        return None
    return Request(is_daemon, argv, environ, fds, peers)


def _begins(client: socket.socket, *fds: int) -> bool:
    """Say that all is ready, with open files; return whether the client has us begin."""
    word = b"ready %d" % os.getpid()
    client.sendmsg([word], [command_client.descriptors(*fds)])
    # One that was stopped in between would take our end for that of its command.
    client.settimeout(None)
    return client.recv(len(command_client.GO)) == command_client.GO


def _verb(words: list[str]) -> commands.Verb | None:
    return commands.find(commands.spelled_out(words[:1])[0]) if words else None


def _may_be_served(verb: commands.Verb | None, words: list[str]) -> bool:
    options = {word.partition("=")[0] for word in words}
    is_plain = not any(_OPENED in word for word in words)
    return is_plain and not (_DIRECT_OPTIONS & options or (verb and verb.direct))


def _is_alike(environ: Mapping[bytes, bytes], ours: Mapping[str, str]) -> bool:
    """Return whether Python would start with this environment as it started here."""
    theirs = {os.fsdecode(name): os.fsdecode(value) for name, value in environ.items()}
    charset = named_locale(theirs).partition(".")[2]
    is_utf8 = charset.lower().replace("-", "").partition("@")[0] == "utf8"
    if "PYTHONIOENCODING" in theirs or not (is_utf8 or is_plain_locale(theirs)):
        return False
    return _read_at_start(theirs) == _read_at_start(ours)


def _read_at_start(environ: Mapping[str, str]) -> Mapping[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(_READ_AT_START) and name not in _WITHOUT_EFFECT
    }


def _become(request: Request) -> None:
    """Be the process that the client would have been."""
    os.setsid()
    *streams, here = request.fds
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.fchdir(here)
    for fd in request.fds:
        os.close(fd)
    sys.argv = request.argv
    if request.is_daemon:
        sys.argv = [daemon.__file__, *request.argv[len(launch.PROGRAM) :]]
    _take_environment(request.environ)


def _take_environment(environ: Mapping[bytes, bytes]) -> None:
    os.environb.clear()
    os.environb.update(environ)
    time.tzset()
    libgit2.read_environment()


def _run(client: socket.socket, peers: CommandPeers) -> None:
    living, theirs = os.pipe2(os.O_CLOEXEC)
    if not _begins(client, theirs):
        return
    os.close(theirs)
    front = _Client(client, living, peers)
    _open_streams(front)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    output.PAGER.set(lambda command: _Pager(front, command))
    front.end(b"exit %d" % entry.run(sys.argv[1:]))


class _Client:
    """The client, which has the terminal and the shell.

    It keeps the other end of a pipe open, `living`. Where it is killed, the kernel ends this
    process and its children by SIGIO. On the connection, a message could cause that signal, too:
    it may come long after the message was read, since the sender only then causes it.
    """

    def __init__(
        self, connection: socket.socket, living: int, peers: CommandPeers
    ) -> None:
        self._connection = connection
        self._living = living
        self._peers = peers
        peers.end_with(living, watched=True)
        # What was before is no signal any more.
        ended = select.poll()
        ended.register(living, 0)
        ended.register(connection, 0)
        if ended.poll(0):
            os.killpg(0, signal.SIGIO)

    def ask(self, body: bytes) -> bytes:
        """Have something done, and wait until it is; return what came of it."""
        self.start(body)
        return self.wait()

    def start(self, body: bytes, *fds: int) -> None:
        """Have something done; `wait` has to follow."""
        self._connection.sendmsg([body], [command_client.descriptors(*fds)])

    def wait(self) -> bytes:
        """Wait until what was started is done; return what came of it."""
        word = command_client.GO
        answer = self._connection.recv(len(word) + command_client.MAX_LINE)
        if not answer.startswith(word):
            os.killpg(0, signal.SIGIO)
        return answer.removeprefix(word)

    def end(self, body: bytes) -> None:
        """Say that the command has ended; its children may go on."""
        self._peers.end_with(self._living, watched=False)
        self._connection.send(body)


def _open_streams(client: _Client) -> None:
    errors = "surrogateescape" if _is_c(os.environ) else "strict"
    typed = _Terminal(client) if os.isatty(0) else io.FileIO(0, closefd=False)
    sys.stdin = io.TextIOWrapper(
        io.BufferedReader(typed), encoding="utf-8", errors=errors
    )
    sys.stdout = _stream(1, errors)
    sys.stderr = _stream(2, "backslashreplace", line_buffering=True)


def _is_c(environ: Mapping[str, str]) -> bool:
    """Return whether Python keeps bytes that are no text; PEP 538 coerces to these locales."""
    coerced = ("C.UTF-8", "C.utf8", "UTF-8")
    return is_plain_locale(environ) or named_locale(environ) in coerced


def _stream(fd: int, errors: str, *, line_buffering: bool = False) -> io.TextIOWrapper:
    # As Python opens them itself.
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    raw = io.FileIO(fd, "w", closefd=False)
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding="utf-8",
        errors=errors,
        newline="\n",
        line_buffering=not unbuffered and (line_buffering or os.isatty(fd)),
        write_through=unbuffered,
    )


class _Terminal(io.RawIOBase):
    """Standard input where it is a terminal, which the client reads."""

    def __init__(self, client: _Client) -> None:
        self._client = client

    def readable(self) -> bool:
        """Return true."""
        return True

    def isatty(self) -> bool:
        """Return true."""
        return True

    def fileno(self) -> int:
        """Return the number of standard input."""
        return 0

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read what is typed, up to the end of a line; return the number of bytes."""
        place = memoryview(buffer)
        typed = self._client.ask(b"read")[: len(place)]
        place[: len(typed)] = typed
        return len(typed)


class _Pager(io.TextIOWrapper):
    """The input of a pager that the client runs; to close it waits for the pager's end."""

    def __init__(self, client: _Client, command: str) -> None:
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        super().__init__(io.BufferedWriter(io.FileIO(ours, "w")), encoding="utf-8")
        self._client: _Client | None = client
        client.start(b"pager " + os.fsencode(command), theirs)
        os.close(theirs)

    def close(self) -> None:
        """Close it and wait; a second call does nothing."""
        try:
            super().close()
        finally:
            client, self._client = self._client, None
            if client is not None:
                client.wait()
