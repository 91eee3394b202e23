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
    """Return the user of the process at the other end; socket(7), SO_PEERCRED."""
    import struct

    level, option = _socket.SOL_SOCKET, _socket.SO_PEERCRED
    raw = peer.getsockopt(level, option, _CREDENTIALS_BYTES)
    user: int = struct.unpack("3i", raw)[1]
    return user
