"""Read from fanotify(7) which process wrote, created, renamed or deleted what.

Only this module calls fanotify and name_to_handle_at(2). A file or directory is named by its file
handle, which follows it through renames. The kernel queues an event before the system call that
caused it returns, but merges events of one process on one object, so their order is lost.
"""

import ctypes
import fcntl
import os
import struct
import sys
import termios
from collections.abc import Iterator
from typing import NamedTuple, NewType

from gitshadow.platform.writers import FileAction

Handle = NewType("Handle", bytes)
"""The file handle of a file or directory, unique in its file system; open_by_handle_at(2)."""


class Entry(NamedTuple):
    """One name in a directory."""

    directory: Handle
    name: bytes


class FileEvent(NamedTuple):
    """What one process did to one object.

    `entries` are its name, for a rename the old and the new one. `target` is the object itself.
    """

    change: FileAction
    pid: int
    entries: tuple[Entry, ...]
    target: Handle | None


_ALL = FileAction(0)
for _one in FileAction:
    _ALL |= _one

# <linux/fanotify.h>: FAN_CLOEXEC | FAN_NONBLOCK, and FAN_REPORT_FID, _DIR_FID, _NAME, _TARGET_FID.
_INIT_FLAGS = 0x1 | 0x2 | 0x200 | 0x400 | 0x800 | 0x1000
_MARK_ADD, _MARK_FILESYSTEM = 0x1, 0x100
_OVERFLOW = 0x4000
_AT_EMPTY_PATH, _AT_HANDLE_FID = 0x1000, 0x200
_METADATA = struct.Struct("=IBBHQii")
_INFO = struct.Struct("=BBH")
_HANDLE = struct.Struct("=Ii")
_FSID_BYTES = 8
_TARGET, _NAMED, _DIRECTORY_ALONE, _OLD, _NEW = 1, 2, 3, 10, 12
_MOST_HANDLE_BYTES = 128
_READ_BYTES = 256 * 1024

_libc = ctypes.CDLL(None, use_errno=True)


class QueueOverflowError(Exception):
    """The kernel dropped events because nobody read them in time."""


class FileEvents:
    """The events of whole file systems.

    Raises:
        OSError: the kernel is older than Linux 5.17, or this process lacks CAP_SYS_ADMIN.
    """

    def __init__(self) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_LARGEFILE
        self.fd = _checked(_libc.fanotify_init(_INIT_FLAGS, flags))

    def close(self) -> None:
        """Stop all events."""
        os.close(self.fd)

    def mark(self, directory: int) -> None:
        """Report what happens in the file system of an open directory.

        Raises:
            OSError: the file system has no file handles, or has several parts (Btrfs subvolumes).
        """
        _checked(
            _libc.fanotify_mark(
                self.fd,
                ctypes.c_uint(_MARK_ADD | _MARK_FILESYSTEM),
                ctypes.c_uint64(_ALL),
                directory,
                None,
            )
        )

    def read(self) -> Iterator[FileEvent]:
        """Yield the events that wait, and maybe some that come meanwhile.

        Raises:
            QueueOverflowError: events were dropped; those before it were yielded.
        """
        # A build can write faster than this reads. The kernel counts no more than the fixed part of
        # each event.
        length = fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4))
        left = int.from_bytes(length, sys.byteorder) // _METADATA.size
        while left > 0:
            try:
                data = os.read(self.fd, _READ_BYTES)
            except BlockingIOError:
                return
            for event in _events(data):
                left -= 1
                yield event


def handle_of(fd: int) -> Handle | None:
    """Return the handle of what is open, None if the file system has none."""
    # Since Linux 6.5 file systems without NFS export (overlayfs) give handles for this use, too.
    for flags in (_AT_EMPTY_PATH | _AT_HANDLE_FID, _AT_EMPTY_PATH):
        buffer = ctypes.create_string_buffer(_HANDLE.size + _MOST_HANDLE_BYTES)
        _HANDLE.pack_into(buffer, 0, _MOST_HANDLE_BYTES, 0)
        mount = ctypes.c_int()
        failed = _libc.name_to_handle_at(fd, b"", buffer, ctypes.byref(mount), flags)
        if not failed:
            length, _ = _HANDLE.unpack_from(buffer)
            return Handle(buffer.raw[: _HANDLE.size + length])
    return None


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _events(data: bytes) -> Iterator[FileEvent]:
    at = 0
    while at < len(data):
        length, _, _, header, mask, _, pid = _METADATA.unpack_from(data, at)
        if mask & _OVERFLOW:
            raise QueueOverflowError
        yield _event(FileAction(mask & _ALL), pid, data[at + header : at + length])
        at += length


def _event(change: FileAction, pid: int, records: bytes) -> FileEvent:
    entries, target, at = list[Entry](), None, 0
    while at < len(records):
        kind, _, length = _INFO.unpack_from(records, at)
        begin = at + _INFO.size + _FSID_BYTES
        end = begin + _HANDLE.size + _HANDLE.unpack_from(records, begin)[0]
        handle = Handle(records[begin:end])
        if kind in (_NAMED, _OLD, _NEW):
            name = records[end : at + length].split(b"\0", 1)[0]
            entries.append(Entry(handle, name))
        elif kind == _TARGET or (kind == _DIRECTORY_ALONE and target is None):
            target = handle
        at += length
    return FileEvent(change, pid, tuple(entries), target)
