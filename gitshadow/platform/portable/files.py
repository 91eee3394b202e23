"""What the standard library knows of files on any POSIX system."""

import os
import stat as st
from collections.abc import Mapping

from gitshadow.platform.port import Birth

COMPOSES_NAMES = False


def attributes_at(parent: int, name: bytes) -> dict[str, bytes]:
    """Return nothing: Python reads extended attributes on Linux alone."""
    return {}


def put_on(fd: int, found: Mapping[str, bytes]) -> None:
    """Do nothing: there are none to set."""


def lost(before: Mapping[str, bytes], now: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return nothing: none are seen."""
    return ()


def birth_of(name: bytes, dir_fd: int) -> Birth | None:
    """Return when the file of a name was created, where stat(2) knows; follows no link."""
    try:
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except OSError:
        return None
    # A float of seconds since the epoch has about 200 ns, which is finer than these systems stamp.
    born_s: float | None = getattr(found, "st_birthtime", None)
    return None if born_s is None else Birth(found.st_ino, int(born_s * 1e9))


def chmod(name: bytes, mode: int, dir_fd: int) -> bool:
    """Set the permission bits of a regular file; return whether the name leads to one."""
    found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    if not st.S_ISREG(found.st_mode):
        return False
    # fchmodat(2), AT_SYMLINK_NOFOLLOW: a link that replaces the file now is not followed.
    os.chmod(name, mode, dir_fd=dir_fd, follow_symlinks=False)
    return True


def folds_by_flag(directory: int) -> bool | None:
    """Return None: not known everywhere."""
    return None


def is_locked(fd: int, start: int, length: int) -> bool:
    """Return False: the structure that asks for it differs between systems."""
    return False


def begin_sync(fd: int) -> None:
    """Do nothing: only waiting for the disk is known everywhere."""


def sync(fd: int) -> None:
    """Wait until a file would outlive a power loss."""
    os.fsync(fd)
