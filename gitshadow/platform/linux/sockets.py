"""Reach sockets of any path, and see who is at the other end.

A path through /proc/self/fd is never too long for `sun_path` (108 bytes, unix(7)).
Invariant: only `_socket` and `os` are imported, because every hook pays for the import.
"""

import _socket
import os

_CREDENTIALS_BYTES = 12


class address:  # noqa: N801 - a function that returns a context
    """Name a socket in a directory for the time of a block."""

    def __init__(self, directory: str, name: str) -> None:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(directory, flags)
        self._name = name

    def __enter__(self) -> str:
        return f"/proc/self/fd/{self._fd}/{self._name}"

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def peer_user(peer: _socket.socket) -> int | None:
    """Return the user of the process at the other end."""
    return credentials(peer)[1]


def shares_numbers(peer: _socket.socket) -> bool:
    """Return whether the process at the other end is in our PID namespace."""
    # A process of a namespace that is not below ours has the number 0 here.
    pid, own = credentials(peer)[0], _namespace("self")
    return own is None or (pid > 0 and _namespace(str(pid)) == own)


def _namespace(process: str) -> int | None:
    try:
        return os.stat(f"/proc/{process}/ns/pid").st_ino
    except OSError:
        return None


def credentials(peer: _socket.socket) -> tuple[int, int, int]:
    """Return pid, user and group of a peer as we see them; socket(7), SO_PEERCRED."""
    import struct

    level, option = _socket.SOL_SOCKET, _socket.SO_PEERCRED
    raw = peer.getsockopt(level, option, _CREDENTIALS_BYTES)
    pid, user, group = struct.unpack("3i", raw)
    return pid, user, group
