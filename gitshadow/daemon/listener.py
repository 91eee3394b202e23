"""The socket: accepts connections, reads one request each, and waits for its answer.

Invariant: a peer that is not us or never says anything costs a thread for ten seconds, no more; one
that comes while no file descriptor is free gets its answer by the one that is reserved.
"""

import contextlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter

from gitshadow.errors import is_shortage
from gitshadow.ipc import wire
from gitshadow.platform import current
from gitshadow.store.layout import Layout

READ_S = 10.0
MAX_CONNECTIONS = 64
_BACKLOG = 64
_LAST_WORDS_S = 2.0
_WAIT_S = 0.25


@dataclass(slots=True)
class SocketRequest:
    """Store one request until the loop has answered it.

    `numbers_differ` is set if its client numbers processes otherwise, as in another container.
    """

    version: bytes
    verb: bytes
    body: bytes
    numbers_differ: bool = False
    _done: threading.Event = field(default_factory=threading.Event)
    _answer: tuple[bytes, bytes] = (wire.ENDING, b"{}")

    def finish(self, status: bytes, body: bytes) -> None:
        """Answer the thread that waits."""
        self._answer = (status, body)
        self._done.set()

    def wait(self, timeout_s: float) -> tuple[bytes, bytes] | None:
        """Return the answer, None where it is not there in time."""
        return self._answer if self._done.wait(timeout_s) else None


Jobs = queue.SimpleQueue[SocketRequest | None]


class SocketListener:
    """Listen on the socket of one worktree.

    A `ping` is answered here, so that a daemon that is busy is not taken for a dead one.
    """

    def __init__(
        self, layout: Layout, jobs: Jobs, in_place: Callable[[], bool]
    ) -> None:
        self.ready = False
        self._layout = layout
        self._jobs = jobs
        self._in_place = in_place
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._threads: set[threading.Thread] = set()
        self._reading: dict[socket.socket, float] = {}
        self._closed = threading.Event()
        self._socket = bind(layout.wt_dir, _BACKLOG)
        self._spare: int | None = os.dup(self._socket.fileno())
        self._inode = inode_of(layout.socket)
        threading.Thread(target=self._accept, daemon=True).start()

    def tend(self) -> None:
        """Hang up on peers that are too slow; to be called now and then."""
        limit = time.monotonic() - READ_S
        for peer, since in list(self._reading.items()):
            if since < limit:
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)

    def reachable(self) -> bool:
        """Return whether the socket's name still leads to this socket."""
        return leads_to(self._layout.socket, self._inode)

    def close(self) -> None:
        """Send the last answers and remove the socket, if its name still leads to it."""
        self._closed.set()
        if self.reachable():
            with contextlib.suppress(OSError):
                os.unlink(self._layout.socket)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._give_spare()
        for peer in list(self._reading):
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + _LAST_WORDS_S
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                peer, _ = self._socket.accept()
            except OSError as error:
                if self._closed.is_set():
                    return
                if not (is_shortage(error) and self._serve_in_want()):
                    time.sleep(_WAIT_S)
                continue
            if not self._slots.acquire(blocking=False):
                # Silent peers must not keep a hook waiting, which gives up after two seconds.
                self._hang_up_oldest()
                self._slots.acquire()
            thread = threading.Thread(target=self._serve, args=(peer,), daemon=True)
            self._threads.add(thread)
            try:
                thread.start()
            # The system has no thread left. This one must go on, or nobody would be answered again.
            except RuntimeError:
                self._threads.discard(thread)
                self._serve(peer)

    def _hang_up_oldest(self) -> None:
        waiting = sorted(self._reading.items(), key=itemgetter(1))
        for peer, _ in waiting[:1]:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def _serve_in_want(self) -> bool:
        """Serve one peer by the reserved descriptor, in this thread; False if it is not free."""
        # Without a reserve, every client would wait until some program closes its files.
        if not self._give_spare():
            with contextlib.suppress(OSError):
                self._spare = os.dup(self._socket.fileno())
            return self._spare is not None
        try:
            peer, _ = self._socket.accept()
        except OSError:
            return False
        try:
            self._talk(peer)
        except (OSError, wire.WireError):
            # As in `_serve`, the peer is gone or malformed.
            pass
        finally:
            # dup2(2) closes the connection and reserves its descriptor in one step. Between two
            # steps, another thread could take it.
            os.dup2(self._socket.fileno(), peer.fileno(), inheritable=False)
            self._spare = peer.detach()
        return True

    def _give_spare(self) -> bool:
        spare, self._spare = self._spare, None
        if spare is None:
            return False
        os.close(spare)
        return True

    def _serve(self, peer: socket.socket) -> None:
        try:
            with peer:
                self._talk(peer)
        except (OSError, wire.WireError):
            # The peer is gone, or sent no frame; it gets no answer.
            return
        finally:
            self._threads.discard(threading.current_thread())
            self._slots.release()

    def _talk(self, peer: socket.socket) -> None:
        if not _is_us(peer):
            return
        peer.settimeout(READ_S)
        self._reading[peer] = time.monotonic()
        try:
            fields, rest = wire.read_line(peer)
            if len(fields) != 4:
                return
            body = wire.read_body(peer, fields[3], rest, wire.MAX_REQUEST)
        except wire.TooLargeError as error:
            wire.reply(peer, wire.ERROR, _refusal(error))
            _read_out(peer)
            return
        finally:
            del self._reading[peer]
        _, version, verb, _ = fields
        if verb == b"ping" and not self._in_place():
            wire.reply(peer, wire.ENDING, b"{}")
        elif verb == b"ping" and version == wire.VERSION:
            wire.reply(peer, wire.OK, self._pong())
        else:
            differ = not current().socket_access().shares_numbers(peer)
            wire.reply(peer, *self._ask(SocketRequest(version, verb, body, differ)))

    def _ask(self, job: SocketRequest) -> tuple[bytes, bytes]:
        self._jobs.put(job)
        while (answer := job.wait(_WAIT_S)) is None:
            if self._closed.is_set():
                return job.wait(0) or (wire.ENDING, b"{}")
        return answer

    def _pong(self) -> bytes:
        return json.dumps({"pid": os.getpid(), "ready": self.ready}).encode()


def bind(directory: str, backlog: int, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """Listen on a new socket in a directory, for our user only; `kind` as for socket(2)."""
    # It gets its name when it listens: a client would take one that refuses for a dead one.
    name = f"{wire.SOCKET_NAME}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{directory}/{name}")
    listening = socket.socket(socket.AF_UNIX, kind)
    with current().socket_access().address(directory, name) as address:
        old = os.umask(0o177)
        try:
            listening.bind(address)
        finally:
            os.umask(old)
    listening.listen(backlog)
    os.rename(f"{directory}/{name}", f"{directory}/{wire.SOCKET_NAME}")
    return listening


def leads_to(path: str, inode: tuple[int, int] | None) -> bool:
    """Return whether there is a file at a path, and it is the one that `inode_of` found there."""
    return inode is not None and inode_of(path) == inode


def inode_of(path: str) -> tuple[int, int] | None:
    """Return what tells a file from others; None where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_us(peer: socket.socket) -> bool:
    """Return whether the peer is of our user, as far as the system says that."""
    # Nobody else can reach the socket anyway: its directory is private.
    return current().socket_access().peer_user(peer) in (os.geteuid(), 0, None)


def _refusal(error: wire.TooLargeError) -> bytes:
    document = {
        "error": f"cannot handle the request: {error}",
        "hint": None,
        "exit": 1,
    }
    return json.dumps(document).encode()


def _read_out(peer: socket.socket) -> None:
    """Read what a peer still sends, so that it comes to read the answer."""
    # Closing a socket with unread data resets the connection, and the peer loses the answer.
    peer.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + READ_S
    while peer.recv(1 << 20) and time.monotonic() < deadline:
        continue
