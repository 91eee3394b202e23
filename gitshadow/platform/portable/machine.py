"""What the standard library and psutil know of the machine on any POSIX system."""

import os
import signal
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from typing import IO

from gitshadow.platform.port import ReceivedSignal, WatchLimits

WATCH_HINT = "the system lets you watch no more directories: close other programs that watch files"
# The terminal sends these to the whole foreground group, so that a child has got them already.
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
# As Linux, macOS and the BSDs call them. The kernel here reports what it does itself, and another
# machine, the host of this one or a program behind FUSE may write, too.
_SHARED = frozenset(
    {
        *(
            "nfs",
            "nfs4",
            "newnfs",
            "oldnfs",
            "cifs",
            "smb3",
            "smbfs",
            "afpfs",
            "webdav",
        ),
        *(
            "afs",
            "coda",
            "ceph",
            "lustre",
            "9p",
            "p9fs",
            "virtiofs",
            "vboxsf",
            "vboxvfs",
        ),
        *("prl_fs", "prl_vfs", "vmhgfs", "fuse", "fusefs", "macfuse", "osxfuse"),
    }
)
_BEHIND_PROGRAMS = ("fuse.", "fusefs.")


def boot() -> str | None:
    """Return the second in which the machine was started, None where it is not known."""
    import psutil  # of this module, hooks need nothing else that takes so long to load

    # Setting the clock moves it on some systems. Then more is checked than has to be.
    try:
        return f"boot-{int(psutil.boot_time())}"
    except (psutil.Error, OSError):
        return None


def machine_id() -> str | None:
    """Return None: not known everywhere."""
    return None


def pid_namespace() -> str | None:
    """Return None: only Linux has several."""
    return None


def sees_all_processes() -> bool:
    """Return True: no others are known of."""
    return True


def shared_file_system(root: str | bytes) -> str | None:
    """Return the kind of a file system that others write to as well; None: it is ours alone."""
    import psutil  # of this module, hooks need nothing else that takes so long to load

    try:
        mounts = psutil.disk_partitions(all=True)
    except (psutil.Error, OSError):
        return None
    top = os.path.join(os.path.realpath(os.fsdecode(root)), "")
    kind, place = "", ""
    for one in mounts:
        # What was mounted later at the same place hides what was there.
        is_nearer = len(one.mountpoint) >= len(place)
        if is_nearer and top.startswith(os.path.join(one.mountpoint, "")):
            kind, place = one.fstype, one.mountpoint
    is_shared = kind in _SHARED or kind.startswith(_BEHIND_PROGRAMS)
    return kind if is_shared else None


def watch_limits() -> WatchLimits | None:
    """Return None: not known everywhere."""
    return None


def unnamed_file() -> IO[bytes]:
    """Open an empty file that is gone when it is closed."""
    from tempfile import TemporaryFile  # it loads `random`, which takes 2 ms

    return TemporaryFile()


def give_back_memory() -> None:
    """Do nothing: the allocator does it, or cannot be asked."""


def adopting_orphans() -> AbstractContextManager[None]:
    """Do nothing: orphans go to the first process."""
    return nullcontext()


def end_descriptor(pid: int) -> int | None:
    """Return None: not known everywhere."""
    return None


def await_signal(
    waited: Collection[signal.Signals], longest_s: float
) -> ReceivedSignal | None:
    """Wait for one of some blocked signals; who sent it is not known."""
    timed = getattr(signal, "sigtimedwait", None)  # not on macOS
    if timed is None:
        number = int(signal.sigwait(waited))
    elif (got := timed(waited, longest_s)) is None:
        return None
    else:
        number = got.si_signo
    return ReceivedSignal(number, number in _FROM_TERMINAL)
