"""When a file was created: statx(2), for which this Python has no function.

Invariant: an answer is never a guess; None where the system or the file system does not know.
"""

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

_NO_FOLLOW = 0x100
_BIRTH, _INODE = 0x800, 0x100
_SIZE = 256
_FIELDS = struct.Struct("<I28xQ40xqI")
"""Of `struct statx`: the mask, the inode number, the time of birth."""


class Birth(NamedTuple):
    """Hold which file was created when."""

    inode: int
    born_ns: int


def birth_of(name: bytes, dir_fd: int) -> Birth | None:
    """Return when what stands at a name was created, without following a link."""
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
