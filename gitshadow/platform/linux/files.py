"""Extended attributes of files, times of creation, permissions by descriptor, and syncing.

POSIX access lists, capabilities and `user.*`; labels of the system (`security.selinux`) come from
its own rules, and Git knows none of them. xattr(7), acl(5), capabilities(7). What the system does
not allow is left out, and `lost` names it. A time of creation is never a guess.
"""

import ctypes
import fcntl
import os
import stat as st
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache

from gitshadow.platform.port import Birth

COMPOSES_NAMES = False
# linux/fs.h: FS_IOC_GETFLAGS, and the flag that `chattr +F` sets.
_GET_FLAGS = 0x80086601
_FOLDS_CASE = 0x40000000
_FEATURES = tuple(
    f"/sys/fs/{kind}/features/casefold" for kind in ("ext4", "f2fs", "tmpfs")
)
ACCESS_LIST = "system.posix_acl_access"
_CARRIED = frozenset({ACCESS_LIST, "security.capability"})
# AT_SYMLINK_NOFOLLOW, STATX_BTIME and STATX_INO (statx(2)). Python 3.11 has no function
# for statx(2), so it is called through ctypes.
_NO_FOLLOW = 0x100
_BIRTH, _INODE = 0x800, 0x100
_SIZE = 256
_LOCK = struct.Struct("@hhqqi")
"""`struct flock`: type, from where the start counts, start, length, process."""
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
    """Set attributes of an open file, as far as the system allows; set its mode afterwards."""
    if not found:
        return
    # `user.*` can be set only where the owner may write (xattr(7)). An access list changes the
    # mode, so the caller sets that last.
    os.fchmod(fd, 0o600)
    for name, value in found.items():
        with suppress(OSError):
            os.setxattr(fd, name, value)


def folds_by_flag(directory: int) -> bool | None:
    """Return whether an open directory is set to fold names; None: none is on its file system."""
    if not _kernel_folds():
        return None
    try:
        answer = fcntl.ioctl(directory, _GET_FLAGS, bytes(8))
    except OSError:
        return None
    return bool(int.from_bytes(answer[:4], "little") & _FOLDS_CASE)


@cache
def _kernel_folds() -> bool:
    """Return whether this kernel has file systems on which single directories fold."""
    return any(map(os.path.exists, _FEATURES))


def lost(before: Mapping[str, bytes], now: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the names of the attributes that were not carried over."""
    # chmod(2) changes the mask of an access list, so its value may differ although it was kept.
    return tuple(
        sorted(
            name
            for name, value in before.items()
            if name not in now or (name != ACCESS_LIST and now[name] != value)
        )
    )


def _attributes(fd: int) -> dict[str, bytes]:
    # fgetxattr(2) refuses a descriptor with O_PATH. The link in /proc leads to the file itself, so
    # nothing of its path is followed again.
    place = f"/proc/self/fd/{fd}"
    found: dict[str, bytes] = {}
    # Some file systems have no attributes and say ENOTSUP.
    with suppress(OSError):
        for name in os.listxattr(place):
            if name in _CARRIED or name.startswith("user."):
                with suppress(OSError):
                    found[name] = os.getxattr(place, name)
    return found


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


def chmod(name: bytes, mode: int, dir_fd: int) -> bool:
    """Set the permission bits of a regular file; return whether the name leads to one."""
    # fchmodat(2) has no AT_SYMLINK_NOFOLLOW before Linux 6.6, and a file without read permission
    # can only be opened with O_PATH, on which fchmod(2) fails. The link in /proc leads to exactly
    # this inode.
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        is_file = st.S_ISREG(os.fstat(fd).st_mode)
        if is_file:
            os.chmod(f"/proc/self/fd/{fd}", mode)
        return is_file
    finally:
        os.close(fd)


def is_locked(fd: int, start: int, length: int) -> bool:
    """Return whether another process has locked some bytes of an open file; F_GETLK, fcntl(2)."""
    asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    kind: int = _LOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))[0]
    return kind != fcntl.F_UNLCK


def begin_sync(fd: int) -> None:
    """Let the system begin to write a file to the disk, without waiting for that."""
    # POSIX_FADV_DONTNEED starts the writing without waiting (mm/fadvise.c).
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def sync(fd: int) -> None:
    """Wait until a file would outlive a power loss."""
    os.fsync(fd)


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
