"""`python -m gitshadow.command_server PROGRAM`: import everything once, and keep processes ready.

Each ready process takes one command (`worker`) and ends with it; its place is taken at once. The
server itself reads no repository and runs no command, so nothing in it grows old or stays open.
Invariant: one server per socket; its end costs nobody but time.
"""

import contextlib
import fcntl
import gc
import importlib
import os
import pkgutil
import select
import signal
import socket
import sys
import sysconfig
import time

import gitshadow
from gitshadow.command_server import worker
from gitshadow.command_server.worker import Beginning
from gitshadow.daemon.listener import bind, inode_of, leads_to
from gitshadow.ipc import command_client, wire
from gitshadow.messages import codec
from gitshadow.platform import current

_READY = 2
_LOCK = "lock"
_BACKLOG = 512
_LOG_FLAGS = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
_LOG_BYTES = 1 << 15
_IDLE_S = 3600.0
_LOOK_S = 5.0
# So many in a row that end before they get a command: something is wrong.
_MOST_FAILURES = 10
_LEFT_OUT = (
    "gitshadow.native",
    "gitshadow.platform",
    "gitshadow.sdk",
    "gitshadow.lsp",
    "gitshadow.ui",
)


def main(program: str) -> int:
    """Serve until nobody asks any more.

    Args:
        program: The path of `git-agent-undo`; its directory names the socket.
    """
    # What the command that started it had open is none of its business.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    place = command_client.directory(os.environ, program)
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(place, 0o700)
    lock = os.open(
        os.path.join(place, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    os.dup2(os.open(os.path.join(place, command_client.LOG), _LOG_FLAGS, 0o600), 2)
    beginning = _import_all(program)
    gc.collect()
    gc.freeze()
    with bind(place, _BACKLOG, socket.SOCK_SEQPACKET) as listening:
        listening.setblocking(False)
        server = _Server(place, listening, beginning)
        try:
            server.serve()
        finally:
            server.leave()
    # An exception leaves the log where it is.
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(place, command_client.LOG))
        os.unlink(os.path.join(place, _LOCK))
        os.rmdir(place)
        os.rmdir(os.path.dirname(place))
    return 0


def _import_all(program: str) -> Beginning:
    """Import what commands and daemons import; return what the program is now."""
    for module in pkgutil.walk_packages(gitshadow.__path__, "gitshadow."):
        left_out = module.name.startswith(_LEFT_OUT) or module.name.endswith("__main__")
        if not left_out:
            importlib.import_module(module.name)
    importlib.import_module("gitshadow.daemon.__main__")
    codec.prepare()
    files = [
        module.__file__
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "gitshadow" and module.__file__
    ]
    # A link may be replaced, or what it leads to.
    both = {*files, *map(os.path.realpath, files)}
    directories = {os.fsencode(os.path.dirname(file)) for file in both}
    peers = current().command_peers()
    changes = None if peers is None else peers.open_changes(directories)
    # A directory changes when a package is installed in it.
    beside = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    # One that is renamed with all that is in it is noticed by its new inode.
    looked_at = files if changes is None else (*gitshadow.__path__, gitshadow.__file__)
    # To read a name counts its user in the name itself, and so copies its page in each process. The
    # names that the modules have are spread over many pages; these ones lie together on a few.
    names = [os.fsencode(path) for path in (*looked_at, *beside, program)]
    marks = {name: worker.mark_of(name) for name in names}
    return Beginning(dict(os.environ), marks, changes)


class _Server:
    """Keep processes ready, and tell clients how theirs ended."""

    def __init__(
        self, place: str, listening: socket.socket, beginning: Beginning
    ) -> None:
        self._path = os.path.join(place, wire.SOCKET_NAME)
        self._inode = inode_of(self._path)
        self._listening = listening
        self._beginning = beginning
        self._control, self._theirs = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )
        self._control.setblocking(False)
        self._ready: set[int] = set()
        self._taken: dict[int, socket.socket] = {}
        self._failures = 0

    def serve(self) -> None:
        """Serve until the socket or the program is gone, or nobody has asked for an hour.

        Raises:
            OSError: there can be no more processes.
            RuntimeError: none of them gets as far as a command.
        """
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        used = time.monotonic()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(woken, select.POLLIN)
        if self._beginning.changes is not None:
            poll.register(self._beginning.changes, select.POLLIN)
        while self._is_wanted(used):
            self._fill()
            events = dict(poll.poll(_LOOK_S * 1000))
            if woken in events:
                os.read(woken, 4096)
            self._note()
            self._reap()
            if self._taken:
                used = time.monotonic()

    def leave(self) -> None:
        """Take the socket away.

        Ready processes see the end of the server and end; the others finish their command.
        """
        if leads_to(self._path, self._inode):
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _is_wanted(self, used_s: float) -> bool:
        if time.monotonic() - used_s > _IDLE_S:
            return False
        return leads_to(self._path, self._inode) and not self._beginning.is_stale()

    def _fill(self) -> None:
        # Before they start, so that the words of the last one to fail are always there.
        if os.fstat(2).st_size > _LOG_BYTES:
            os.ftruncate(2, 0)
        while len(self._ready) < _READY:
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _close_all_but(
                    self._listening.fileno(),
                    self._theirs.fileno(),
                    self._beginning.changes,
                )
                worker.work(self._listening, self._theirs, self._beginning)
            self._ready.add(pid)

    def _note(self) -> None:
        """Note which processes have got a command, with the connections to who wants them."""
        while True:
            try:
                message, ancillary, _, _ = self._control.recvmsg(64, 64)
            except BlockingIOError:
                return
            for fd in command_client.received(ancillary):
                pid = int(message)
                self._ready.discard(pid)
                self._taken[pid] = socket.socket(fileno=fd)
                self._failures = 0

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            # What it got, it has said before it ended; a client waits for how.
            self._note()
            if pid in self._ready:
                self._ready.discard(pid)
                self._failures += 1
                if self._failures > _MOST_FAILURES:
                    end = os.waitstatus_to_exitcode(status)
                    raise RuntimeError(
                        f"{self._failures} processes in a row ended before they got a "
                        f"command; the last one with {end}"
                    )
            client = self._taken.pop(pid, None)
            if client is None:
                continue
            with client, contextlib.suppress(OSError):
                if os.WIFSIGNALED(status):
                    client.send(b"signal %d" % os.WTERMSIG(status))
                else:  # which it has said itself, unless it ended at once
                    client.send(b"exit %d" % os.WEXITSTATUS(status))


def _close_all_but(*kept: int | None) -> None:
    """Close what is the server's: its lock above all, which a daemon would keep for days."""
    low = 3
    for number in sorted(number for number in kept if number is not None):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
