"""What macOS says of the machine: its boot, and the ends of processes."""

import ctypes
import os
import select
import struct

from gitshadow.platform.portable.machine import WATCH_HINT as WATCH_HINT
from gitshadow.platform.portable.machine import adopt_orphans as adopt_orphans
from gitshadow.platform.portable.machine import await_signal as await_signal
from gitshadow.platform.portable.machine import drop_signals as drop_signals
from gitshadow.platform.portable.machine import give_back_memory as give_back_memory
from gitshadow.platform.portable.machine import pid_namespace as pid_namespace
from gitshadow.platform.portable.machine import sees_all_processes as sees_all_processes
from gitshadow.platform.portable.machine import shared_file_system as shared_file_system
from gitshadow.platform.portable.machine import unnamed_file as unnamed_file
from gitshadow.platform.portable.machine import watch_limits as watch_limits
from gitshadow.platform.portable.machine import watched_inodes as watched_inodes

# `uuid_string_t`, with the NUL after it; <uuid/uuid.h>.
_UUID_BYTES = 37
# `uuid_t`; and a `struct timespec`, how long to wait for it.
_HOST_ID_BYTES = 16
_PATIENCE = struct.Struct("@ll")
# `struct timeval` of a 64-bit system, with its padding; sysctl(3), kern.boottime.
_TIME = struct.Struct("@qi4x")


def boot() -> str | None:
    """Return what names this start of the machine, which no other start has."""
    session = _sysctl(b"kern.bootsessionuuid", _UUID_BYTES)
    if session is not None:
        return "boot-" + session.partition(b"\0")[0].decode("ascii", "replace")
    # Kernels without it know the moment. It moves with corrections of the clock, by which the
    # kernel computes it again: by microseconds mostly, so the second stays.
    moment = _sysctl(b"kern.boottime", _TIME.size)
    return None if moment is None else f"boot-{_TIME.unpack(moment)[0]}"


def machine_id() -> str | None:
    """Return the id of the hardware; gethostuuid(2). A Mac's name follows its network."""
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_HOST_ID_BYTES)
    try:
        failed = library.gethostuuid(buffer, _PATIENCE.pack(1, 0))
    except AttributeError:
        return None
    return None if failed else buffer.raw.hex()


def _sysctl(name: bytes, size: int) -> bytes | None:
    """Return a value of the kernel in a number of bytes, None where it has no such name."""
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(size)
    length = ctypes.c_size_t(size)
    try:
        failed = library.sysctlbyname(
            name, buffer, ctypes.byref(length), None, ctypes.c_size_t(0)
        )
    except AttributeError:
        return None
    return None if failed else buffer.raw


def end_descriptor(pid: int) -> int:
    """Return a descriptor that can be read once a process has ended; kqueue(2), EVFILT_PROC.

    Raises:
        OSError: it is gone.
    """
    # Names of the standard library on macOS and BSD.
    queue = getattr(select, "kqueue")()  # noqa: B009
    end = getattr(select, "kevent")(  # noqa: B009
        pid,
        getattr(select, "KQ_FILTER_PROC"),  # noqa: B009
        getattr(select, "KQ_EV_ADD"),  # noqa: B009
        getattr(select, "KQ_NOTE_EXIT"),  # noqa: B009
    )
    try:
        queue.control([end], 0)
        # Python closes its own when the object goes.
        return os.dup(queue.fileno())
    finally:
        queue.close()
