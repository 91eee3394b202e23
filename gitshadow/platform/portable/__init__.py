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

_MAX_ANCESTORS = 24


class Portable:
    """A system of which nothing more is known; the others build on it, and know more.

    Each part is imported when it is first asked for.
    """

    NOTE: str | None = (
        "only Linux and macOS are supported: on other systems less is known of who wrote what"
        " (git agent-undo doctor)"
    )
    """What a person should know before trusting us with this system."""
    UNKNOWN: tuple[str, ...] = (
        "which process holds a file open for writing",
        "what processes wrote",
        "the exact end of a process",
        "extended attributes",
        "the user at the other end of a socket",
    )
    """The facts that this platform does not know, each in a few words."""
    WATCHERS: tuple[str, ...] = ("auto", "watchfiles")
    """The values of the setting `watcher` that this platform has."""

    def process_facts(self) -> "Processes":
        """Return what psutil knows of processes."""
        from gitshadow.platform.portable import processes as found

        return found

    def file_facts(self) -> "Files":
        """Return what the standard library knows of files."""
        from gitshadow.platform.portable import files as found

        return found

    def machine_facts(self) -> "Machine":
        """Return what the standard library and psutil know of the machine."""
        from gitshadow.platform.portable import machine as found

        return found

    def socket_access(self) -> "Sockets":
        """Return how sockets are reached through a short link."""
        from gitshadow.platform.portable import sockets as found

        return found

    def world(self) -> str | None:
        """Return a name for what this process sees of files; None: it cannot be stood in for."""
        return None

    def command_peers(self) -> "CommandPeers | None":
        """Return how a process stands in for another one; None: none can."""
        return None

    def lineage(self, pid: int) -> list[str]:
        """Return `pid/start` of a process and of each above it, nearest first; for hooks."""
        from gitshadow.platform.portable import processes as facts

        found: list[str] = []
        while pid > 1 and len(found) < _MAX_ANCESTORS:
            stat = facts.stat(pid)
            if stat is None:
                break
            found.append(f"{pid}/{stat.id.started}")
            pid = stat.parent
        return found

    def login_service(self) -> "LoginService | None":
        """Return the service that starts programs at login; None: none is known."""
        return None

    def open_watcher(
        self,
        backend: "WatchBackend",
        places: "WatchedPlaces",
        wake: "Callable[[], None]",
    ) -> "Watcher":
        """Return a watcher of a worktree, which watches nothing yet.

        Args:
            backend: Which one, of those in `WATCHERS`.
            places: The worktree.
            wake: What to call, from any thread, when there are hints.
        """
        from gitshadow.platform.portable.watcher import PortableWatcher

        return PortableWatcher(places.root, places.git_dir, wake, self.machine_facts())

    def open_witness(self, directory: int) -> "Witness":
        """Return who reports the writes in an open directory.

        Raises:
            OSError: nobody does.
        """
        import errno

        from gitshadow.platform.port import HERE_ALONE

        raise OSError(errno.ENOTSUP, HERE_ALONE)

    def witness_service(self) -> "WitnessService | None":
        """Return the service of root that reports who wrote; None: there is none."""
        return None
