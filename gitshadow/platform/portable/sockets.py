"""Reach sockets of any path on any POSIX system.

The address of a socket may have 104 bytes or less (unix(4) on BSD and macOS). A longer path is
reached through a link in a new directory of our own that is removed again.
Invariant: only `_socket`, `os` and `time` are imported, because every hook pays for the import.
"""

import _socket
import os
import time

_MOST_BYTES = 103
_SHORT = "/tmp"


class address:  # noqa: N801 - a function that returns a context
    """Name a socket in a directory for the time of a block."""

    def __init__(self, directory: str, name: str) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(directory, flags))
        self._path = f"{directory}/{name}"
        self._directory, self._name = directory, name
        self._made: str | None = None

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= _MOST_BYTES:
            return self._path
        self._made = f"{_SHORT}/agent-undo-{os.getpid()}-{time.monotonic_ns()}"
        # mkdir(2) fails where something is there, and nobody else can put a link into it.
        os.mkdir(self._made, 0o700)
        try:
            os.symlink(self._directory, f"{self._made}/d")
        except OSError:
            os.rmdir(self._made)
            raise
        return f"{self._made}/d/{self._name}"

    def __exit__(self, *_: object) -> None:
        if self._made is not None:
            os.unlink(f"{self._made}/d")
            os.rmdir(self._made)
            self._made = None


def peer_user(peer: _socket.socket) -> int | None:
    """Return None: not known everywhere; the socket's directory is private."""
    return None


def shares_numbers(peer: _socket.socket) -> bool:
    """Return True: only Linux has several sets of pids."""
    return True
