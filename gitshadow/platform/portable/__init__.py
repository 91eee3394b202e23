"""What all POSIX systems have in common, by psutil and watchfiles: macOS builds on it.

It is also there to find, on Linux, what depends on Linux (`GITSHADOW_PLATFORM=portable`).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` alone would cost every hook 5 ms
    from collections.abc import Callable

    from gitshadow.config import WatchBackend
    from gitshadow.platform.port import (
        CommandPeers,
        Files,
        LoginService,
        Machine,
        Processes,
        Sockets,
        Witness,
        WitnessService,
    )
    from gitshadow.platform.watching import WatchedPlaces, Watcher

NOTE: str | None = (
    "only Linux and macOS are supported: on other systems less is known of who wrote what"
    " (git agent-undo doctor)"
)
UNKNOWN: tuple[str, ...] = (
    "which process holds a file open for writing",
    "what processes wrote",
    "the exact end of a process",
    "extended attributes",
    "the user at the other end of a socket",
)
WATCHERS = ("auto", "watchfiles")
_MAX_ANCESTORS = 24


def process_facts() -> "Processes":
    """Return what psutil knows of processes."""
    from gitshadow.platform.portable import processes as found

    return found


def file_facts() -> "Files":
    """Return what the standard library knows of files."""
    from gitshadow.platform.portable import files as found

    return found


def machine_facts() -> "Machine":
    """Return what the standard library and psutil know of the machine."""
    from gitshadow.platform.portable import machine as found

    return found


def socket_access() -> "Sockets":
    """Return how sockets are reached through a short link."""
    from gitshadow.platform.portable import sockets as found

    return found


def world() -> str | None:
    """Return None: no system but Linux says all that another process is."""
    return None


def command_peers() -> "CommandPeers | None":
    """Return None: no system but Linux says all that another process is."""
    return None


def lineage(pid: int) -> list[str]:
    """Return `pid/start` of a process and of each above it, nearest first."""
    from gitshadow.platform.portable import processes as facts

    found: list[str] = []
    while pid > 1 and len(found) < _MAX_ANCESTORS:
        stat = facts.stat(pid)
        if stat is None:
            break
        found.append(f"{pid}/{stat.id.started}")
        pid = stat.parent
    return found


def login_service() -> "LoginService | None":
    """Return None: no service manager is common to all systems."""
    return None


def open_watcher(
    backend: "WatchBackend", places: "WatchedPlaces", wake: "Callable[[], None]"
) -> "Watcher":
    """Return a watcher on watchfiles."""
    from gitshadow.platform.portable.watcher import PortableWatcher

    return PortableWatcher(places.root, places.git_dir, wake, machine_facts())


def open_witness(directory: int) -> "Witness":
    """Raise OSError: no kernel but that of Linux reports who wrote."""
    import errno

    from gitshadow.platform.port import HERE_ALONE

    raise OSError(errno.ENOTSUP, HERE_ALONE)


def witness_service() -> "WitnessService | None":
    """Return None: no kernel but that of Linux reports who wrote."""
    return None
