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

# `struct timeval` of a 64-bit system, with its padding; sysctl(3), kern.boottime.
_TIME = struct.Struct("@qi4x")


def boot() -> str | None:
    """Return when the machine was started, which no other start has."""
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_TIME.size)
    size = ctypes.c_size_t(_TIME.size)
    try:
        failed = library.sysctlbyname(
            b"kern.boottime", buffer, ctypes.byref(size), None, ctypes.c_size_t(0)
        )
    except AttributeError:
        return None
    # The microseconds move with corrections of the clock, by which the start is computed again.
    return None if failed else f"boot-{_TIME.unpack(buffer.raw)[0]}"


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
