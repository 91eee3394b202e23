"""Run on behalf of another process: what the kernel keeps of it beside its files; proc(5).

A process in a sandbox, a container or of other rights must never be stood in for: it would have
done there what it may not do itself.
"""

import _socket
import fcntl
import os
import resource
import signal
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from gitshadow.platform.linux.sockets import credentials

_ALIKE = (
    "Uid",
    "Gid",
    "Groups",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
)
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_LIMITS = sorted(
    {number for name, number in vars(resource).items() if name.startswith("RLIMIT_")}
)
# A process that has imported everything is larger than one that has not.
_OF_SIZE = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_STACK)
# Python ignores these itself.
_OF_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
# prctl(2), and the fields of /proc/PID/stat that it takes beside what it sets; proc(5).
_SET_MM, _MM_MAP = 35, 14
_PIECE = 1 << 16
_CODE, _DATA, _STACK = slice(25, 27), slice(44, 47), slice(27, 28)


def pid_of(peer: _socket.socket) -> int:
    """Return the pid of the process at the other end."""
    return credentials(peer)[0]


def stand_in(pid: int, *, lasting: bool = False) -> bool:
    """Take on what a process has from who started it, if it may be stood in for.

    These are limits, priority, OOM score, umask and ignored signals. What is
    `lasting` has to be in the same control groups, which bound and end it.

    Returns:
        Whether this process is now as that one is.
    """
    try:
        theirs = _status(str(pid))
        if _confinement(str(pid), theirs) != _own_confinement(os.getpid()):
            return False
        if lasting and _content(str(pid), "cgroup") != _content("self", "cgroup"):
            return False
        for limit in _LIMITS:
            found = resource.prlimit(pid, limit)
            if found == resource.getrlimit(limit):
                continue
            if limit in _OF_SIZE:
                return False
            resource.setrlimit(limit, found)
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, pid))
        os.sched_setaffinity(0, os.sched_getaffinity(pid))
        os.umask(int(theirs["Umask"], 8))
        badness = _content(str(pid), "oom_score_adj")
        if badness != _content("self", "oom_score_adj"):
            with open("/proc/self/oom_score_adj", "wb") as stream:
                stream.write(badness)
        ignored = int(theirs["SigIgn"], 16)
    except (OSError, ValueError, KeyError):
        return False
    # To list the valid signals takes longer than all else here, and most ignore none.
    for number in signal.valid_signals() if ignored else ():
        if ignored >> (number - 1) & 1 and number not in _OF_PYTHON:
            signal.signal(number, signal.SIG_IGN)
    return True


def is_confined() -> bool:
    """Return whether a sandbox may have taken rights from this process."""
    return _status("self").get("NoNewPrivs") != "0"


def end_with(living: int, *, watched: bool) -> None:
    """Have the kernel end our process group by SIGIO when nobody can write a pipe, or no more.

    What is written would end it, too (fcntl(2), O_ASYNC).
    """
    fcntl.fcntl(living, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(living, fcntl.F_SETFL, os.O_ASYNC if watched else 0)


def rename(name: str) -> None:
    """Show this process under the name of another program."""
    with open("/proc/self/comm", "w") as stream:
        stream.write(name)


def show_as(argv: Sequence[bytes], environ: Mapping[bytes, bytes]) -> bool:
    """Show this process with other arguments and another environment, as ps(1) reads them.

    Returns:
        Whether the kernel did it, which needs CONFIG_CHECKPOINT_RESTORE.
    """
    import ctypes  # the first command of a day imports this module and is not to pay for it

    words = b"".join(word + b"\0" for word in argv)
    named = b"".join(name + b"=" + value + b"\0" for name, value in environ.items())
    libc = ctypes.CDLL(None)
    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
    # The kernel reads it for as long as this process lives, so it is never freed.
    start = libc.malloc(ctypes.c_size_t(len(words) + len(named)))
    ctypes.memmove(start, words + named, len(words) + len(named))
    middle, end = start + len(words), start + len(words) + len(named)
    # A command's name may contain blanks; it stands for the first two fields.
    fields = [b"", b"", *_content("self", "stat").rpartition(b") ")[2].split()]
    kept = [int(one) for part in (_CODE, _DATA) for one in fields[part]]
    stack = [int(one) for one in fields[_STACK]]
    # struct prctl_mm_map; the auxiliary vector and the program's file stay.
    numbers = (*kept, libc.sbrk(0), *stack, start, middle, middle, end, 0, 0, -1)
    asked = struct.pack("=12QIi", *numbers)
    size = ctypes.c_ulong(len(asked))
    failed = libc.prctl(_SET_MM, ctypes.c_ulong(_MM_MAP), asked, size, ctypes.c_ulong())
    return not failed


def open_changes(directories: Iterable[bytes]) -> int | None:
    """Return what can be read once a file in a directory changed; None: no watch is left."""
    # It imports ctypes, see above.
    from gitshadow.platform.linux.inotify import watch_changes

    try:
        return watch_changes(directories)
    except OSError:
        return None


def _content(process: str, name: str) -> bytes:
    # The kernel gives these files in one piece. A stream would make five more system calls.
    fd = os.open(f"/proc/{process}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _PIECE)
    finally:
        os.close(fd)


def _status(process: str) -> dict[str, str]:
    """Return the fields of /proc/PID/status."""
    text = _content(process, "status").decode("ascii", "replace")
    fields = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in fields}


@cache
def _own_confinement(_pid: int) -> tuple[object, ...]:
    """Return that of this process, which only a change of its own changes."""
    return _confinement("self", _status("self"))


def _confinement(process: str, status: dict[str, str]) -> tuple[object, ...]:
    """Return what a process may do and what it sees."""
    root = os.stat(f"/proc/{process}/root")
    return (
        *(status[name] for name in _ALIKE),
        *(os.readlink(f"/proc/{process}/ns/{name}") for name in _NAMESPACES),
        (root.st_dev, root.st_ino),
        _label(process),
    )


def _label(process: str) -> bytes | None:
    """Return the label of a security module, None where there is none."""
    try:
        return _content(process, "attr/current")
    except OSError:
        return None
