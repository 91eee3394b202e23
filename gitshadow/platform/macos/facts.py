"""What macOS says of processes, files and the machine, and what it starts at login.

Most is as on every POSIX system (`platform.portable`): what is imported by its own name is part of
the answer. The ends of processes come by kqueue(2), the way to the disk by fcntl(2). At login,
launchd loads each property list in ~/Library/LaunchAgents (launchd.plist(5)); no program is run.
"""

import ctypes
import fcntl
import hashlib
import os
import plistlib
import select
import selectors
import struct
import time
from collections.abc import Mapping

from gitshadow.platform.port import EndMoment, LoginEntry, LoginService
from gitshadow.platform.portable.files import attributes_at as attributes_at
from gitshadow.platform.portable.files import begin_sync as begin_sync
from gitshadow.platform.portable.files import birth_of as birth_of
from gitshadow.platform.portable.files import chmod as chmod
from gitshadow.platform.portable.files import folds_by_flag as folds_by_flag
from gitshadow.platform.portable.files import is_locked as is_locked
from gitshadow.platform.portable.files import lost as lost
from gitshadow.platform.portable.files import put_on as put_on
from gitshadow.platform.portable.machine import WATCH_HINT as WATCH_HINT
from gitshadow.platform.portable.machine import adopting_orphans as adopting_orphans
from gitshadow.platform.portable.machine import await_signal as await_signal
from gitshadow.platform.portable.machine import give_back_memory as give_back_memory
from gitshadow.platform.portable.machine import pid_namespace as pid_namespace
from gitshadow.platform.portable.machine import sees_all_processes as sees_all_processes
from gitshadow.platform.portable.machine import shared_file_system as shared_file_system
from gitshadow.platform.portable.machine import unnamed_file as unnamed_file
from gitshadow.platform.portable.machine import watch_limits as watch_limits
from gitshadow.platform.portable.processes import COARSE_NS as COARSE_NS
from gitshadow.platform.portable.processes import activity as activity
from gitshadow.platform.portable.processes import adopts_orphans as adopts_orphans
from gitshadow.platform.portable.processes import children as children
from gitshadow.platform.portable.processes import command_line as command_line
from gitshadow.platform.portable.processes import counters as counters
from gitshadow.platform.portable.processes import directory as directory
from gitshadow.platform.portable.processes import environment as environment
from gitshadow.platform.portable.processes import executable as executable
from gitshadow.platform.portable.processes import holders as holders
from gitshadow.platform.portable.processes import own as own
from gitshadow.platform.portable.processes import pids as pids
from gitshadow.platform.portable.processes import place as place
from gitshadow.platform.portable.processes import started_ns as started_ns
from gitshadow.platform.portable.processes import stat as stat
from gitshadow.platform.portable.processes import table as table
from gitshadow.platform.portable.processes import terminals as terminals
from gitshadow.platform.portable.processes import written_files as written_files

_PREFIX, _SUFFIX = "git-agent-undo.", ".plist"
# `git init` sets core.precomposeUnicode, which only Git on macOS looks at.
COMPOSES_NAMES = True
# <sys/fcntl.h>, MAXPATHLEN; the standard library has the names on macOS alone.
FULL_SYNC = 51
_GET_PATH, _PATH_BYTES = 50, 1024
# `uuid_string_t`, with the NUL after it; <uuid/uuid.h>.
_UUID_BYTES = 37
# `uuid_t`; and a `struct timespec`, how long to wait for it.
_HOST_ID_BYTES = 16
_PATIENCE = struct.Struct("@ll")
# `struct timeval` of a 64-bit system, with its padding; sysctl(3), kern.boottime.
_TIME = struct.Struct("@qi4x")


def _problem(environ: Mapping[str, str]) -> str | None:
    """Return None: launchd serves every user."""
    return None


def _entry(root: str, program: str) -> LoginEntry:
    # A path may be longer than a name, and have characters that a label should not.
    label = _PREFIX + hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    content = plistlib.dumps(
        {
            "Label": label,
            "ProgramArguments": [program, "daemon", "watch"],
            "WorkingDirectory": root,
            "RunAtLoad": True,
            # It ends well where the worktree is gone or another daemon records it.
            "KeepAlive": {"SuccessfulExit": False},
            "ProcessType": "Background",
        }
    )
    return LoginEntry(label + _SUFFIX, text=content.decode())


def _is_ours(path: str) -> bool:
    name = os.path.basename(path)
    is_named = name.startswith(_PREFIX) and name.endswith(_SUFFIX)
    return is_named and os.path.isfile(path) and not os.path.islink(path)


SERVICE = LoginService(
    name="launchd",
    root="home",
    directory="Library/LaunchAgents",
    entries="",
    packaged=None,
    shown_as="a property list for launchd",
    note="launchd starts it at your next login",
    problem=_problem,
    entry=_entry,
    is_ours=_is_ours,
)


def sync(fd: int) -> None:
    """Wait until a file would outlive a power loss."""
    # fsync(2) leaves the file in the drive's own cache; F_FULLFSYNC empties that. Some file
    # systems, as those of other machines, do not have it.
    try:
        fcntl.fcntl(fd, FULL_SYNC)
    except OSError:
        os.fsync(fd)


def reported_path(path: str) -> str:
    """Return the path of a directory as FSEvents reports what happens below it.

    FSEvents resolves links (`/private/tmp`) and spells each name as it is stored. Where the system
    does not say how, this is the path that was given; F_GETPATH, fcntl(2).
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = fcntl.fcntl(fd, _GET_PATH, bytes(_PATH_BYTES))
        finally:
            os.close(fd)
    except OSError:
        return path
    return os.fsdecode(found.partition(b"\0")[0])


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


def end_of(pid: int) -> "KqueueEnd | None":
    """Return what waits for the end of a process, None where it has ended already."""
    try:
        return KqueueEnd(end_descriptor(pid))
    except OSError:
        return None


class KqueueEnd:
    """The end of a process, by a kqueue that can be read then."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def has_come(self) -> bool:
        """Return whether it has ended."""
        return self._is_readable(0)

    def wait(self) -> EndMoment:
        """Wait for it, in a thread of one's own."""
        self._is_readable(None)
        # How long this thread waited for a processor is not known, so the moment is no proof.
        return EndMoment(time.monotonic_ns(), is_late=True)

    def close(self) -> None:
        """Wait no more."""
        os.close(self._descriptor)

    def _is_readable(self, timeout_s: float | None) -> bool:
        # Not select(2): it takes no descriptor above 1023, and a daemon has more.
        with selectors.DefaultSelector() as ready:
            ready.register(self._descriptor, selectors.EVENT_READ)
            return bool(ready.select(timeout_s))
