"""What the operating system is asked, with the values that it answers.

The modules of each platform implement these ports; a class that builds on
`platform.portable.Portable` hands them out. A fact that a platform does not know is None or empty,
never a guess.
"""

import _socket
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, NamedTuple, Protocol

from gitshadow.platform.writers import WriterAnswer, WriterQuery

HERE_ALONE = "this system does not report which process wrote a file"
"""Why there is no witness where the kernel cannot be one."""


# A pid alone is given out again; together with its start it names one process until the next boot.
class ProcessId(NamedTuple):
    """One process: its pid and its start, in a unit of the platform that is the same for all.

    Linux counts clock ticks since the boot, others milliseconds; see `Processes.started_ns`.
    """

    pid: int
    started: int


class ProcessStat(NamedTuple):
    """What identifies a process and the program that it runs.

    `image` differs after each exec(2): a forked child has its parent's until then, with its
    parent's environment and arguments. `dead`: it ended and was not waited for; `sleeps`: it waits.
    """

    id: ProcessId
    parent: int
    name: str
    dead: bool
    image: int
    sleeps: bool = False

    @property
    def key(self) -> tuple[int, int, int]:
        """Return what names this program in this process."""
        return self.id.pid, self.id.started, self.image


class ProcessTable(Protocol):
    """This user's processes, read again and again."""

    def forget(self) -> None:
        """Have the next look read every process."""
        ...

    def look(self) -> dict[int, ProcessStat]:
        """Return the living processes of this user by pid."""
        ...


class EndMoment(NamedTuple):
    """When a process ended, by the monotonic clock; `is_late`: noted a while after it."""

    at_ns: int
    is_late: bool


class ProcessEnd(Protocol):
    """Wait for the end of one process, which stays the same one whatever gets its pid."""

    def has_come(self) -> bool:
        """Return whether its last thread has ended."""
        ...

    def wait(self) -> EndMoment:
        """Wait for it, in a thread of one's own."""
        ...

    def close(self) -> None:
        """Wait no more; nothing else is called then."""
        ...


class Counts(NamedTuple):
    """What processes wrote, with their children that are gone.

    `written`: bytes by write(2) and its kin. `dirtied`: bytes of the pages that became dirty.
    """

    written: int = 0
    dirtied: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Return the sums."""
        return Counts(self.written + other.written, self.dirtied + other.dirtied)

    def minus(self, other: "Counts") -> "Counts":
        """Return the differences."""
        return Counts(self.written - other.written, self.dirtied - other.dirtied)


class ProcessState(NamedTuple):
    """What a process was doing at one look.

    `children` are those of all its threads, and `reaped` are the page faults of those that it
    waited for. `ended`: it has ended, and was not waited for. `runs` changes each time one of its
    `threads` is given a processor; None where one may be running, or where that is not counted.
    """

    id: ProcessId
    threads: Sequence[str]
    children: Sequence[int]
    reaped: int
    ended: bool
    runs: bytes | None


class Activity(NamedTuple):
    """What a process and its children that ended did: bytes written, nanoseconds that it ran."""

    written: int
    ran_ns: int


class FileSystem(NamedTuple):
    """What the counts say of writes to a file system.

    `counts_copies`: copies are written, since they cannot share the blocks of their original.
    `counts_pages`: a page of a file that is written becomes dirty.
    """

    counts_copies: bool = False
    counts_pages: bool = False


class ProcessCounters(Protocol):
    """The kernel's counters of processes, which are read again and again."""

    def state(
        self, pid: int, before: ProcessState | None, *, is_agent: bool
    ) -> ProcessState | None:
        """Return the state of a process, None where it is gone or not for us to read.

        Args:
            pid: The process.
            before: What the last look found there; the same is returned if it has not run since.
            is_agent: It is the agent itself: it is not asked whether it ran.
        """
        ...

    def counts_of(self, pid: int) -> Counts | None:
        """Return what a process wrote; None where it is gone or not for us to read."""
        ...

    def threads(self, pid: int) -> Sequence[str]:
        """Return the threads of a process; none where it is gone."""
        ...

    def counts_of_threads(self, pid: int, threads: Sequence[str]) -> Counts:
        """Return what living threads of a process wrote themselves."""
        ...

    def keep(self, pids: Iterable[int]) -> None:
        """Forget all other processes."""
        ...

    def file_system(self, device: int) -> FileSystem:
        """Return what a mounted file system lets conclude, by its device number."""
        ...


class Processes(Protocol):
    """The processes of this machine. What was read may be out of date a moment later."""

    @property
    def COARSE_NS(self) -> int:  # noqa: N802 - a constant of the module
        """By how much `started_ns` may be wrong."""
        ...

    def started_ns(self, started: int) -> int:
        """Return the moment of a start, in nanoseconds since the epoch."""
        ...

    def stat(self, pid: int) -> ProcessStat | None:
        """Return a process of any user, also one that ended and was not waited for."""
        ...

    def own(self) -> Iterator[ProcessStat]:
        """Yield this user's processes, those too that have ended and were not waited for."""
        ...

    def table(self) -> ProcessTable:
        """Return a new table of this user's processes."""
        ...

    def pids(self) -> Sequence[int]:
        """Return all processes of all users."""
        ...

    def adopts_orphans(self, process: ProcessStat) -> bool:
        """Return whether a process is given those whose parents have ended."""
        ...

    def command_line(self, pid: int) -> tuple[bytes, ...]:
        """Return a process's arguments, empty where they cannot be read."""
        ...

    def environment(self, pid: int) -> bytes | None:
        """Return the variables with which a program began, each with a NUL after it."""
        ...

    def executable(self, pid: int) -> str:
        """Return the path of what a process executes, empty where it cannot be read."""
        ...

    def directory(self, pid: int) -> str | None:
        """Return the working directory of a process, None where it cannot be read."""
        ...

    def place(self, pid: int, path: bytes) -> bytes | None:
        """Return a path by which this process can open what another one calls so."""
        ...

    def terminals(self, pid: int) -> Iterable[str]:
        """Yield the terminals, and other files, to which a process may print."""
        ...

    def written_files(self, pid: int, top: bytes) -> Iterable[bytes]:
        """Yield the paths, of those that begin with `top`, that a process may write to by now."""
        ...

    def holders(self, paths: Collection[str]) -> Mapping[str, tuple[int, ...]]:
        """Return the processes that are seen to have files open, by the real paths of these."""
        ...

    def children(self, pid: int) -> Sequence[int]:
        """Return the children that the first thread of a process has started."""
        ...

    def activity(self, pid: int) -> Activity | None:
        """Return what a process did so far, None where it is not counted."""
        ...

    def end_of(self, pid: int) -> ProcessEnd | None:
        """Return what waits for the end of a process, None where nothing can."""
        ...

    def counters(self) -> ProcessCounters | None:
        """Return counters of all that processes write, None where there are none."""
        ...


class Birth(NamedTuple):
    """When a file was created, and its inode number."""

    inode: int
    born_ns: int


class Files(Protocol):
    """What a system keeps of a file beside its bytes, and how it comes to the disk."""

    def attributes_at(self, parent: int, name: bytes) -> dict[str, bytes]:
        """Return what a file in place of a regular one is to have; empty for all else."""
        ...

    def put_on(self, fd: int, found: Mapping[str, bytes]) -> None:
        """Set attributes of an open file, as far as allowed; set its mode afterwards."""
        ...

    def lost(
        self, before: Mapping[str, bytes], now: Mapping[str, bytes]
    ) -> tuple[str, ...]:
        """Return the names of the attributes that were not carried over."""
        ...

    def birth_of(self, name: bytes, dir_fd: int) -> Birth | None:
        """Return when the file of a name was created, without following a link."""
        ...

    def chmod(self, name: bytes, mode: int, dir_fd: int) -> bool:
        """Set the permission bits of a regular file; return whether the name leads to one.

        Raises:
            OSError: the system refused.
        """
        ...

    @property
    def COMPOSES_NAMES(self) -> bool:  # noqa: N802 - a constant of the module
        """Whether Git shows names composed here (core.precomposeUnicode)."""
        ...

    def folds_by_flag(self, directory: int) -> bool | None:
        """Return whether an open directory itself is set to fold names.

        None: on its file system no single directory is.
        """
        ...

    def is_locked(self, fd: int, start: int, length: int) -> bool:
        """Return whether another process is known to have locked some bytes of an open file."""
        ...

    def begin_sync(self, fd: int) -> None:
        """Let the system begin to write a file to the disk, without waiting for that."""
        ...

    def sync(self, fd: int) -> None:
        """Wait until a file would outlive a power loss.

        Raises:
            OSError: it could not be written.
        """
        ...


class WatchLimits(NamedTuple):
    """How much of this machine a user may watch; None: unknown.

    `raise_watches` and `raise_instances` are commands that allow more, with a `{}` for a number.
    """

    name: str
    watches: int | None
    instances: int | None
    raise_watches: str
    raise_instances: str


class ReceivedSignal(NamedTuple):
    """A signal; `by_kernel`: no process sent it, so that the whole group has got it."""

    number: int
    by_kernel: bool


class Machine(Protocol):
    """The machine as a whole, and this process in it."""

    @property
    def WATCH_HINT(self) -> str:  # noqa: N802 - a constant of the module
        """What to do where nothing more can be watched."""
        ...

    def boot(self) -> str | None:
        """Return what differs after each start of the machine."""
        ...

    def machine_id(self) -> str | None:
        """Return what names this machine and stays if its name changes; None: nothing does."""
        ...

    def pid_namespace(self) -> str | None:
        """Return what names the PID namespace; None: there is only one, or /proc shows another."""
        ...

    def sees_all_processes(self) -> bool:
        """Return whether a process that is not found is nowhere on this machine."""
        ...

    def shared_file_system(self, root: str | bytes) -> str | None:
        """Return the kind of a file system that others write to as well; None: it is ours alone."""
        ...

    def watch_limits(self) -> WatchLimits | None:
        """Return the limits for all programs of this user, None where there are none to know."""
        ...

    def unnamed_file(self) -> IO[bytes]:
        """Open an empty file that is gone when it is closed."""
        ...

    def give_back_memory(self) -> None:
        """Give memory back to the system that is free in this process."""
        ...

    def adopting_orphans(self) -> AbstractContextManager[None]:
        """Within a block, become the parent of what children leave behind, where the system can."""
        ...

    def end_descriptor(self, pid: int) -> int | None:
        """Return a descriptor that is readable once a process has ended; None: there is none.

        Raises:
            OSError: it is gone.
        """
        ...

    def await_signal(
        self, waited: Collection[signal.Signals], longest_s: float
    ) -> ReceivedSignal | None:
        """Wait for one of some blocked signals; None: none came so long, where that is limited."""
        ...


class Sockets(Protocol):
    """Sockets in directories whose paths may be long. Hook programs import this module."""

    def address(self, directory: str, name: str) -> AbstractContextManager[str]:
        """Return a path to bind or connect to; it can be used within the block only.

        Raises:
            OSError: the directory is gone, or is a link.
        """
        ...

    def shares_numbers(self, peer: _socket.socket) -> bool:
        """Return whether the process at the other end means the same processes by pids."""
        ...

    def peer_user(self, peer: _socket.socket) -> int | None:
        """Return the user of the process at the other end; None: the system does not say."""
        ...


class CommandPeers(Protocol):
    """Run a command on behalf of another process of our user."""

    def pid_of(self, peer: _socket.socket) -> int:
        """Return the pid of the process at the other end."""
        ...

    def is_confined(self) -> bool:
        """Return whether this process may do less than others of its user."""
        ...

    def stand_in(self, pid: int, *, lasting: bool = False) -> bool:
        """Take on what a process has from who started it, if that is allowed.

        These are limits, priority, OOM score, umask and ignored signals. What is
        `lasting` has to be in the same control groups, which bound and end it.

        Returns:
            Whether this process is now as that one is.
        """
        ...

    def end_with(self, living: int, *, watched: bool) -> None:
        """Have the kernel end our process group when nobody can write a pipe, or no more."""
        ...

    def rename(self, name: str) -> None:
        """Show this process under the name of another program."""
        ...

    def show_as(self, argv: Sequence[bytes], environ: Mapping[bytes, bytes]) -> bool:
        """Show this process with other arguments and environment; return whether that worked."""
        ...

    def open_changes(self, directories: Iterable[bytes]) -> int | None:
        """Return a descriptor that can be read once a file in one of some directories changed.

        It stays so if nobody reads it. None where they cannot be watched.
        """
        ...


class LoginEntry(NamedTuple):
    """What starts the daemon of one worktree at login: a link or a file in the service's directory.

    `target` is where a link leads, `text` is what a file holds; the other one is None.
    """

    name: str
    target: str | None = None
    text: str | None = None


class LoginService(NamedTuple):
    """What the system starts when a user logs in; no program of it is run, it reads files.

    `root` is the user's directory that it looks in, `home` or `config`, `directory` a path below
    that, and `entries` one below `directory`. `packaged` is a file of `hooks/` that all entries
    need, `shown_as` describes an entry, and `note` says when the daemon starts.
    """

    name: str
    root: str
    directory: str
    entries: str
    packaged: str | None
    shown_as: str
    note: str
    problem: Callable[[Mapping[str, str]], str | None]
    """Returns why nothing can be started, for an environment; None where it can."""
    entry: Callable[[str, str], LoginEntry]
    """Returns the entry of a worktree for our program; raises UnsupportedError where it can't."""
    is_ours: Callable[[str], bool]
    """Returns whether a path is an entry that gitshadow made."""


class Witness(Protocol):
    """A reporter of who wrote, of the file system of one directory."""

    def drain(self) -> None:
        """Read all that the kernel has queued.

        Raises:
            WitnessGoneError: nothing more is reported.
        """
        ...

    def ask(self, question: WriterQuery) -> WriterAnswer | None:
        """Return who wrote, None where nothing is known of this path; errors as `drain`."""
        ...

    def close(self) -> None:
        """Read no more reports."""
        ...


class WitnessService(Protocol):
    """The service of root that reports who wrote."""

    @property
    def FILE(self) -> str:  # noqa: N802 - a constant of the module
        """Path of the service's program, where it is installed."""
        ...

    @property
    def UNIT_NAME(self) -> str:  # noqa: N802 - a constant of the module
        """Name by which the system's service manager starts it."""
        ...

    def install(self) -> bool:
        """Install and start it; return whether it was started."""
        ...

    def uninstall(self) -> bool:
        """Stop and remove it; return whether anything was there."""
        ...

    def run(self) -> None:
        """Become the installed service, in the foreground."""
        ...

    def is_installed(self) -> bool:
        """Return whether it is installed."""
        ...

    def problem(self) -> str | None:
        """Return why it does not answer this user, None if it does."""
        ...
