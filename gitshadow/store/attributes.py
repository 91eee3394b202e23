"""Extended attributes of regular files: what a file that takes another's place takes over.

POSIX access lists, capabilities and `user.*`; labels of the system (`security.selinux`) come from
its own rules, and Git knows none of them. xattr(7), acl(5), capabilities(7).
Invariant: best effort; who wants to know what is missing compares.
"""

import os
import stat as st
from collections.abc import Mapping
from contextlib import suppress

ACCESS_LIST = "system.posix_acl_access"
_CARRIED = frozenset({ACCESS_LIST, "security.capability"})


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
