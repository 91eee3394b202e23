"""The frames on the socket: one line with the length of the body, then the body.

A request is `GS1 <version> <verb> <length>` and a body, a reply `GS1 <status> <length>` and a body.
The path of the socket may be longer than a socket's address may be, so both ends have the platform
name it.
Invariant: only `_socket` is imported, because every hook pays for the import.
"""

import _socket

from gitshadow import __version__, platform

PROTOCOL = 1
# Each platform names processes in its own way, so daemon and hooks have to be of one.
VERSION = f"{__version__}-{PROTOCOL}-{platform.NAME}".encode()
MAX_REQUEST = 64 * 1024 * 1024
MAX_REPLY = 1024 * 1024 * 1024
OK = b"ok"
ERROR = b"error"
OTHER_VERSION = b"version"
ENDING = b"ending"
LATER = b"later"
SOCKET_NAME = "sock"
_MAX_LINE = 256
_MAX_DIGITS = 12
_CHUNK = 1 << 16
_TURNS = 20


class WireError(Exception):
    """A malformed frame, or a peer that closed the connection."""


class TooLargeError(WireError):
    """A body that is larger than the limit."""


def connect(
    directory: str, timeout_s: float, kind: int = _socket.SOCK_STREAM
) -> _socket.socket:
    """Connect to the socket in a directory; `kind` as for socket(2).

    Raises:
        OSError: no process listens there.
    """
    with platform.current().socket_access().address(directory, SOCKET_NAME) as address:
        sock = _socket.socket(_socket.AF_UNIX, kind)
        # Without a limit of time, connect(2) blocks on a full backlog; with one it fails at once.
        try:
            sock.settimeout(timeout_s)
            sock.connect(address)
        except OSError:
            sock.close()
            raise
        return sock


def call(sock: _socket.socket, verb: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Send one request and return the status and body of its reply.

    Raises:
        OSError: the peer did not answer in time.
        TooLargeError: the request is larger than the limit of the peer.
        WireError: the answer is malformed, or the peer closed the connection.
    """
    ask(sock, verb, body)
    return answer(sock)


def ask(sock: _socket.socket, verb: bytes, body: bytes) -> None:
    """Send one request; errors as `call`."""
    if len(body) > MAX_REQUEST:
        raise TooLargeError(f"{len(body)} bytes are too many")
    sock.sendall(b"GS1 %b %b %d\n" % (VERSION, verb, len(body)) + body)


def await_answer(sock: _socket.socket, timeout_s: float) -> None:
    """Wait until a reply begins.

    Raises:
        TimeoutError: it did not begin in time.
    """
    # It waits in short turns: after a suspend of the machine, one long turn would be over before
    # the daemon has had time to answer.
    sock.settimeout(timeout_s / _TURNS)
    for _ in range(_TURNS - 1):
        try:
            sock.recv(1, _socket.MSG_PEEK)
            break
        except TimeoutError:
            continue
    else:
        sock.recv(1, _socket.MSG_PEEK)
    sock.settimeout(timeout_s)


def answer(sock: _socket.socket) -> tuple[bytes, bytes]:
    """Return the status and body of a reply; errors as `call`."""
    fields, rest = read_line(sock)
    if len(fields) != 3:
        raise WireError("not a reply")
    return fields[1], read_body(sock, fields[2], rest, MAX_REPLY)


def read_line(sock: _socket.socket) -> tuple[list[bytes], bytes]:
    """Read the first line of a frame; return its fields and what was read beyond it."""
    data = b""
    while b"\n" not in data:
        part = sock.recv(_CHUNK)
        if not part:
            raise WireError("the peer closed the connection")
        data += part
        if len(data) >= _MAX_LINE and b"\n" not in data[:_MAX_LINE]:
            raise WireError("not a frame")
    line, _, rest = data.partition(b"\n")
    fields = line.split(b" ")
    if fields[0] != b"GS1":
        raise WireError("not a frame")
    return fields, rest


def read_body(
    sock: _socket.socket, length: bytes, rest: bytes, limit_bytes: int
) -> bytes:
    """Read the body of a frame, of which `rest` was read already.

    Raises:
        TooLargeError: it is larger than the limit; nothing of it was read.
        WireError: the length is not a number, more data came than announced, or the peer
            closed the connection.
    """
    if not length.isdigit() or len(length) > _MAX_DIGITS:
        raise WireError("not a frame")
    if int(length) > limit_bytes:
        raise TooLargeError(f"{int(length)} bytes are too many")
    parts, missing = [rest], int(length) - len(rest)
    if missing < 0:
        raise WireError("more data than the frame announces")
    while missing > 0:
        part = sock.recv(min(missing, 1 << 20))
        if not part:
            raise WireError("the peer closed the connection")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def reply(sock: _socket.socket, status: bytes, body: bytes) -> None:
    """Send one reply."""
    sock.sendall(b"GS1 %b %d\n" % (status, len(body)) + body)
