"""Tell the owners of worktrees which process wrote what: the witness as a service of root.

Root runs this package alone, from one file, with nothing but the standard library. A client sends
the directories that it opened (unix(7), SCM_RIGHTS), so no path is ever looked up here.
Invariant: a client learns only of directories and files that belong to its own user; what it sends
or leaves unread costs a bounded part of memory, threads and time, and stops no other client.
"""

import array
import contextlib
import errno
import os
import signal
import socket
import stat
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gitshadow.platform.linux.witness.fanotify import FileEvents
from gitshadow.platform.linux.witness.processes import ProcessEvents, look_at
from gitshadow.platform.linux.witness.record import KernelWitness
from gitshadow.platform.writers import (
    FileAction,
    ProcessKey,
    WitnessGoneError,
    WriterAnswer,
    WriterQuery,
    WriterReport,
)

DIRECTORY = "/run/git-agent-undo"
SOCKET = f"{DIRECTORY}/witness"

WATCH, DRAIN, ASK = b"w", b"d", b"a"
DONE, UNKNOWN, FAILED = b"+", b"?", b"!"
MOST_PLACES = 200
MOST_AGENTS = 256
MOST_REPORTS = 256
PACKET_BYTES = 64 * 1024

_REQUEST = struct.Struct("=c?qI")
_AGENT = struct.Struct("=iq")
_ANSWER = struct.Struct("=cqI")
_REPORT = struct.Struct("=iIiq?64s")
_IDENTITY = struct.Struct("=cii")
_NONE = -1
_CREDENTIALS = struct.Struct("3i")
_TIMEOUT = struct.Struct("@ll")
# More than the kernel passes in one message (SCM_MAX_FD).
_MOST_FDS = 256
_MOST_CLIENTS = 64
_MOST_CLIENTS_OF_USER = 16
_MOST_FILE_SYSTEMS = 6
_MOST_FILE_SYSTEMS_OF_USER = 2
_FIRST_REQUEST_S = 10
_SEND_S = 2


class BadPacketError(Exception):
    """A packet that no client or service of this version sends."""


def packed_question(question: WriterQuery, *, has_target: bool) -> bytes:
    """Return a question as a request; its open files go along.

    Raises:
        BadPacketError: it is too large.
    """
    if len(question.places) > MOST_PLACES or len(question.agents) > MOST_AGENTS:
        raise BadPacketError
    head = _REQUEST.pack(ASK, has_target, question.since_ns, len(question.agents))
    agents = b"".join(_AGENT.pack(*one) for one in question.agents)
    # A name contains no NUL.
    names = b"\0".join(name for _, name in question.places)
    if len(head) + len(agents) + len(names) > PACKET_BYTES:
        raise BadPacketError
    return head + agents + names


def packed_request(verb: bytes) -> bytes:
    """Return a request that asks nothing."""
    return _REQUEST.pack(verb, False, 0, 0)


def read_answer(data: bytes, agents: int) -> WriterAnswer | None:
    """Return the answer to a question about a number of agents.

    Raises:
        BadPacketError: it is none.
    """
    if data[:1] == UNKNOWN:
        return None
    if data[:1] != DONE or len(data) < _ANSWER.size:
        raise BadPacketError
    _, covered_ns, count = _ANSWER.unpack_from(data)
    if count > MOST_REPORTS or len(data) != _ANSWER.size + count * _REPORT.size:
        raise BadPacketError
    found = list[WriterReport]()
    for pid, change, agent, tool_ns, is_sure, name in _REPORT.iter_unpack(
        data[_ANSWER.size :]
    ):
        if not _NONE <= agent < agents:
            raise BadPacketError
        text = name.rstrip(b"\0").decode("utf-8", "replace")
        below = None if agent == _NONE else agent
        tool = None if tool_ns == _NONE else tool_ns
        found.append(WriterReport(pid, text, FileAction(change), below, tool, is_sure))
    return WriterAnswer(covered_ns, tuple(found))


def read_identity(data: bytes) -> ProcessKey:
    """Return which process the service takes its client for.

    Raises:
        BadPacketError: the service refused, or sent something else.
        OSError: the service could not watch the file system.
    """
    if len(data) != _IDENTITY.size:
        raise BadPacketError
    status, first, second = _IDENTITY.unpack(data)
    if status == FAILED and first > 0:
        raise OSError(first, os.strerror(first))
    if status != DONE:
        raise BadPacketError
    return first, second


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return the pid and the user of the process that opened the other end."""
    raw = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    pid, user, _ = _CREDENTIALS.unpack(raw)
    return pid, user


def _packed_answer(answer: WriterAnswer | None) -> bytes:
    if answer is None or len(answer.reports) > MOST_REPORTS:
        return UNKNOWN
    head = _ANSWER.pack(DONE, answer.covered_since_ns, len(answer.reports))
    return head + b"".join(
        _REPORT.pack(
            one.pid,
            one.change,
            _NONE if one.agent is None else one.agent,
            _NONE if one.tool_ns is None else one.tool_ns,
            one.is_sure,
            one.name.encode("utf-8", "replace")[:64],
        )
        for one in answer.reports
    )


def _read_question(data: bytes, fds: Sequence[int]) -> tuple[WriterQuery, int | None]:
    """Return the question of a client and the open file that it is about."""
    _, has_target, since_ns, count = _REQUEST.unpack_from(data)
    names_at = _REQUEST.size + count * _AGENT.size
    if count > MOST_AGENTS or len(data) < names_at:
        raise BadPacketError
    agents = tuple(_AGENT.iter_unpack(data[_REQUEST.size : names_at]))
    names = data[names_at:].split(b"\0")
    if len(names) > MOST_PLACES or len(fds) != len(names) + has_target:
        raise BadPacketError
    places = tuple(zip(fds, names, strict=False))
    return WriterQuery(places, agents, since_ns), fds[-1] if has_target else None


@dataclass(slots=True, eq=False)
class _Watched:
    """The record of a file system, and the users of its clients."""

    witness: KernelWitness
    users: list[int] = field(default_factory=list)


class _FileSystems:
    """The records of file systems, one for each that a client watches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[int, _Watched] = {}

    @contextlib.contextmanager
    def watched(self, directory: int, user: int) -> Iterator[KernelWitness]:
        """Watch the file system of an open directory for a user.

        Raises:
            OSError: the kernel does not report it, or too many are watched.
        """
        device = os.fstat(directory).st_dev
        watched = self._join(device, user)
        if watched is None:
            # The file system may be one that answers late, so nobody has to wait for it.
            made = KernelWitness(directory)
            try:
                watched = self._add(device, user, made)
            finally:
                if watched is None or watched.witness is not made:
                    made.close()
        try:
            yield watched.witness
        finally:
            self._leave(device, user, watched)

    def _join(self, device: int, user: int) -> _Watched | None:
        """Note one more client of a file system; None if it has no record that goes on."""
        with self._lock:
            known = self._kept.get(device)
            if known is not None and known.witness.has_failed:
                del self._kept[device]  # its clients will leave when they ask again
            own = sum(user in one.users for one in self._kept.values())
            is_new = device not in self._kept
            full = is_new and len(self._kept) >= _MOST_FILE_SYSTEMS
            if full or (
                (is_new or user not in self._kept[device].users)
                and own >= _MOST_FILE_SYSTEMS_OF_USER
            ):
                raise OSError(errno.EUSERS, os.strerror(errno.EUSERS))
            if is_new:
                return None
            self._kept[device].users.append(user)
            return self._kept[device]

    def _add(self, device: int, user: int, made: KernelWitness) -> _Watched:
        """Keep a record, unless another client's was faster or too many are kept by now."""
        watched = self._join(device, user)
        if watched is not None:
            return watched
        with self._lock:
            watched = self._kept.setdefault(device, _Watched(made))
            watched.users.append(user)
            return watched

    def _leave(self, device: int, user: int, watched: _Watched) -> None:
        with self._lock:
            watched.users.remove(user)
            if watched.users:
                return
            if self._kept.get(device) is watched:
                del self._kept[device]
        watched.witness.close()


class WitnessServer:
    """Accept clients on a listening socket, and answer each in a thread of its own."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening
        self._file_systems = _FileSystems()
        self._lock = threading.Lock()
        self._users: list[int] = []

    def serve(self) -> None:
        """Accept clients until the socket is shut down."""
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            pid, user = peer_of(peer)
            if not self._admit(user):
                peer.close()
                continue
            words = (peer, pid, user)
            threading.Thread(target=self._serve, args=words, daemon=True).start()

    def _admit(self, user: int) -> bool:
        with self._lock:
            if (
                len(self._users) >= _MOST_CLIENTS
                or self._users.count(user) >= _MOST_CLIENTS_OF_USER
            ):
                return False
            self._users.append(user)
            return True

    def _serve(self, peer: socket.socket, pid: int, user: int) -> None:
        # A client that sends nonsense, reads nothing or goes away is dropped without a word.
        try:
            with peer, contextlib.suppress(OSError, BadPacketError, WitnessGoneError):
                self._answer(peer, pid, user)
        finally:
            with self._lock:
                self._users.remove(user)

    def _answer(self, peer: socket.socket, pid: int, user: int) -> None:
        peer.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEOUT.pack(_FIRST_REQUEST_S, 0)
        )
        peer.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEOUT.pack(_SEND_S, 0)
        )
        client = look_at(pid)
        with contextlib.ExitStack() as stack:
            with _request(peer) as (data, fds):
                if data[:1] != WATCH or len(fds) != 1 or not _is_own(fds[0], user):
                    raise BadPacketError
                try:
                    watched = self._file_systems.watched(fds[0], user)
                    witness = stack.enter_context(watched)
                except OSError as error:
                    peer.send(_IDENTITY.pack(FAILED, error.errno or 0, 0))
                    return
            started = 0 if client is None else client.started
            peer.send(_IDENTITY.pack(DONE, pid, started))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEOUT.pack(0, 0))
            while True:
                with _request(peer) as (data, fds):
                    peer.send(_reply(witness, data, fds, user))


def _reply(witness: KernelWitness, data: bytes, fds: Sequence[int], user: int) -> bytes:
    if data[:1] == DRAIN:
        witness.drain()
        return DONE
    if data[:1] != ASK:
        raise BadPacketError
    question, target = _read_question(data, fds)
    return _packed_answer(witness.answer(question, target, user))


def _is_own(fd: int, user: int) -> bool:
    look = os.fstat(fd)
    return stat.S_ISDIR(look.st_mode) and look.st_uid == user


@contextlib.contextmanager
def _request(peer: socket.socket) -> Iterator[tuple[bytes, Sequence[int]]]:
    """Receive one request; the open files that came with it are closed after it.

    Raises:
        BadPacketError: the client is gone, or the request is too large.
    """
    fds = array.array("i")
    space = socket.CMSG_SPACE(_MOST_FDS * fds.itemsize)
    data, parts, flags, _ = peer.recvmsg(PACKET_BYTES, space, socket.MSG_CMSG_CLOEXEC)
    for level, kind, part in parts:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(part[: len(part) - len(part) % fds.itemsize])
    try:
        if len(data) < _REQUEST.size or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise BadPacketError
        yield data, fds
    finally:
        for fd in fds:
            os.close(fd)


def _listening() -> socket.socket:
    """Listen on the socket, in a directory that only root can write.

    Raises:
        OSError: it cannot be made, or something else is in its place.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(DIRECTORY, 0o755)
    check_root_owned(DIRECTORY, stat.S_IFDIR)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SOCKET)
    found.bind(SOCKET)
    os.chmod(SOCKET, 0o666)
    found.listen(_MOST_CLIENTS)
    return found


def check_root_owned(path: str, kind: int) -> None:
    """Check that a path is of a kind, and that only root could have put it there.

    Raises:
        OSError: it is not.
    """
    look = os.lstat(path)
    writable = kind == stat.S_IFDIR and look.st_mode & 0o022
    if stat.S_IFMT(look.st_mode) != kind or look.st_uid != 0 or writable:
        raise PermissionError(errno.EPERM, "does not belong to root alone", path)


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT; with `--check`, only try what the kernel allows.

    Returns:
        The exit code.
    """
    os.umask(0o022)
    is_check = list(arguments) == ["--check"]
    try:
        if is_check:
            FileEvents().close()
            ProcessEvents().close()
            return 0
        listening = _listening()
    except OSError as error:
        what = "the kernel does not report who wrote" if is_check else "cannot listen"
        sys.stderr.write(f"error: {what}: {error}\n")
        return 1

    def stop(*_: object) -> None:
        listening.shutdown(socket.SHUT_RDWR)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    WitnessServer(listening).serve()
    with contextlib.suppress(OSError):
        os.unlink(SOCKET)
        os.rmdir(DIRECTORY)
    return 0
