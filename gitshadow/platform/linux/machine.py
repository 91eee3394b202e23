"""What Linux says of the machine: its boot, its limits, its mounts; and prctl(2), signals."""

import ctypes
import os
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import IO

from gitshadow.platform.linux.proc_numbers import shows_own_numbers
from gitshadow.platform.port import ReceivedSignal, WatchLimits

WATCH_HINT = (
    "inotify has no watches left: sudo sysctl fs.inotify.max_user_watches=1048576"
    " fs.inotify.max_user_instances=1024"
)
_BOOT = "/proc/sys/kernel/random/boot_id"
_MACHINE_ID = "/etc/machine-id"
_WATCHES = "/proc/sys/fs/inotify/max_user_watches"
_INSTANCES = "/proc/sys/fs/inotify/max_user_instances"
_MOUNTS = "/proc/self/mountinfo"
_NUMBERS = "/proc/self/ns/pid"
_FIRST = "4026531836"
"""PROC_PID_INIT_INO of linux/proc_ns.h."""
_SET_CHILD_SUBREAPER = 36
# inotify reports what this kernel does. On these file systems others may write, too: another
# machine, the host of this one, a program behind FUSE.
_SHARED = frozenset(
    {
        *(b"nfs", b"nfs4", b"cifs", b"smb3", b"smbfs", b"ncpfs", b"afs", b"coda"),
        *(b"ceph", b"lustre", b"gfs2", b"ocfs2", b"gpfs", b"beegfs", b"orangefs"),
        *(b"9p", b"virtiofs", b"vboxsf", b"prl_fs", b"vmhgfs", b"fuse"),
    }
)


def boot() -> str | None:
    """Return the boot id, which differs after each start."""
    try:
        with open(_BOOT, encoding="ascii") as handle:
            return handle.read().strip()
    except OSError:
        return None


def machine_id() -> str | None:
    """Return the id that was drawn when the system was installed; machine-id(5)."""
    try:
        with open(_MACHINE_ID, encoding="ascii", errors="replace") as handle:
            return handle.read(64).strip() or None
    except OSError:
        return None


def pid_namespace() -> str | None:
    """Return the PID namespace of this process; pid_namespaces(7)."""
    try:
        return str(os.stat(_NUMBERS).st_ino) if shows_own_numbers() else None
    except OSError:
        return None


def sees_all_processes() -> bool:
    """Return whether this is the namespace in which all processes are seen."""
    return pid_namespace() == _FIRST


def shared_file_system(root: str | bytes, mounted: str = _MOUNTS) -> str | None:
    """Return the kind of a file system that others write to as well; None: it is ours alone."""
    try:
        device = os.stat(root).st_dev
        with open(mounted, "rb") as mounts:
            kind = _kind_of(mounts.read(), device)
    except OSError:
        return None
    is_shared = kind in _SHARED or kind.startswith(b"fuse.")
    return kind.decode("ascii", "replace") if is_shared else None


def _kind_of(mounts: bytes, device: int) -> bytes:
    """Return the kind of a mounted file system by its device number, b"" if it is not there."""
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    for line in mounts.splitlines():
        # A number of optional fields comes before the dash, proc(5).
        fields, _, rest = line.partition(b" - ")
        if fields.split(b" ", 3)[2] == wanted:
            return rest.split(b" ", 1)[0]
    return b""


def watch_limits() -> WatchLimits | None:
    """Return the limits of inotify(7) for all programs of this user."""
    return WatchLimits(
        "inotify",
        _limit(_WATCHES),
        _limit(_INSTANCES),
        "sudo sysctl fs.inotify.max_user_watches={}",
        "sudo sysctl fs.inotify.max_user_instances={}",
    )


def _limit(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as handle:
            return int(handle.read())
    except (OSError, ValueError):
        return None


def unnamed_file() -> IO[bytes]:
    """Open an empty file in memory; memfd_create(2)."""
    return os.fdopen(os.memfd_create("gitshadow"), "w+b")


def give_back_memory() -> None:
    """Give memory back to the system that is free in this process."""
    # glibc keeps what is free between blocks in use; malloc_trim(3), which others do not have.
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Within a block, adopt what children leave behind; PR_SET_CHILD_SUBREAPER(2const)."""
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def end_descriptor(pid: int) -> int | None:
    """Return a descriptor that can be read once a process has ended; pidfd_open(2)."""
    return os.pidfd_open(pid)


def await_signal(
    waited: Collection[signal.Signals], longest_s: float
) -> ReceivedSignal | None:
    """Wait for one of some blocked signals; None if none has come after so many seconds."""
    got = signal.sigtimedwait(waited, longest_s)
    if got is None:
        return None
    # `si_code` is positive if the kernel sent the signal, as it does for Ctrl-C (sigaction(2)).
    return ReceivedSignal(got.si_signo, got.si_code > 0)
