"""Extended attributes of regular files, which their replacement keeps, and times of creation.

POSIX access lists, capabilities and `user.*`; labels of the system (`security.selinux`) come from
its own rules, and Git knows none of them. xattr(7), acl(5), capabilities(7).
For statx(2), which has the time of creation, this Python has no function.
Invariant: best effort: who wants to know which attributes are missing compares; a time of creation
is never a guess.
"""

import ctypes
import os
import stat as st
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import NamedTuple

ACCESS_LIST = "system.posix_acl_access"
_CARRIED = frozenset({ACCESS_LIST, "security.capability"})
_NO_FOLLOW = 0x100
_BIRTH, _INODE = 0x800, 0x100
_SIZE = 256
_FIELDS = struct.Struct("<I28xQ40xqI")
"""Of `struct statx`: the mask, the inode number, the time of birth."""


def attributes_at(parent: int, name: bytes) -> dict[str, bytes]:
    """Return what is to be carried of a regular file in an open directory, empty for all else."""
    try:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return {}
    try:
        return _attributes(fd) if st.S_ISREG(os.fstat(fd).st_mode) else {}
    finally:
        os.close(fd)


def put_on(fd: int, found: Mapping[str, bytes]) -> None:
    """Give them to an open file, as far as the system lets us; its mode is to be set after."""
    if not found:
        return
    os.fchmod(fd, 0o600)  # `user.*` can be set on what its owner may write
    for name, value in found.items():
        with suppress(OSError):
            os.setxattr(fd, name, value)


def lost(before: Mapping[str, bytes], now: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the names of what did not come over; the mask of an access list follows the mode."""
    return tuple(
        sorted(
            name
            for name, value in before.items()
            if name not in now or (name != ACCESS_LIST and now[name] != value)
        )
    )


def _attributes(fd: int) -> dict[str, bytes]:
    place = (
        f"/proc/self/fd/{fd}"  # the file itself: nothing of its path is followed again
    )
    found: dict[str, bytes] = {}
    with suppress(OSError):  # a file system without any
        for name in os.listxattr(place):
            if name in _CARRIED or name.startswith("user."):
                with suppress(OSError):
                    found[name] = os.getxattr(place, name)
    return found


class Birth(NamedTuple):
    """When a file was created, and its inode number."""

    inode: int
    born_ns: int


def birth_of(name: bytes, dir_fd: int) -> Birth | None:
    """Return when the file of a name was created, without following a link."""
    statx = _statx()
    if statx is None:
        return None
    buffer = ctypes.create_string_buffer(_SIZE)
    if statx(dir_fd, name, _NO_FOLLOW, _BIRTH | _INODE, buffer) != 0:
        return None
    mask, inode, seconds, rest = _FIELDS.unpack_from(buffer)
    if not mask & _BIRTH:
        return None
    return Birth(inode, seconds * 1_000_000_000 + rest)


@cache
def _statx() -> Callable[..., int] | None:
    """Return the C library's function, None where it has none."""
    try:
        found = ctypes.CDLL(None, use_errno=True).statx
    except (OSError, AttributeError):
        return None
    found.argtypes = [
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_void_p,
    ]
    found.restype = ctypes.c_int
    result: Callable[..., int] = found
    return result
