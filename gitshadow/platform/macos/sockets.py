"""Sockets on macOS: as on every POSIX system, and the user at the other end is known."""

import _socket

from gitshadow.platform.portable.sockets import address as address
from gitshadow.platform.portable.sockets import shares_numbers as shares_numbers

# <sys/un.h>: SOL_LOCAL, LOCAL_PEERCRED. `struct xucred` (<sys/ucred.h>) begins with its version
# and the user.
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 0x001
_XUCRED_BYTES = 76
_XUCRED_VERSION = 0


def peer_user(peer: _socket.socket) -> int | None:
    """Return the user of the process at the other end; unix(4), LOCAL_PEERCRED."""
    import struct

    raw = peer.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES)
    version, user = struct.unpack_from("II", raw)
    return int(user) if version == _XUCRED_VERSION else None
