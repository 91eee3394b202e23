"""macOS: what all POSIX systems have, and what only this one does. Not yet run on a real one."""

from gitshadow.platform.portable import Portable

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` alone would cost every hook 5 ms
    from collections.abc import Callable

    from gitshadow.config import WatchBackend
    from gitshadow.platform.port import Files, LoginService, Machine, Processes, Sockets
    from gitshadow.platform.watching import WatchedPlaces, Watcher


class MacOS(Portable):
    """What psutil, kqueue, FSEvents and launchd show."""

    NOTE = "experimental on macOS: not yet run on a real one"
    UNKNOWN = (
        "which process holds a file open for writing",
        "what processes wrote",
        "extended attributes",
    )

    def process_facts(self) -> "Processes":
        """Return what psutil and kqueue(2) know of processes."""
        from gitshadow.platform.macos import facts as found

        return found

    def file_facts(self) -> "Files":
        """Return what the standard library and fcntl(2) know of files."""
        from gitshadow.platform.macos import facts as found

        return found

    def machine_facts(self) -> "Machine":
        """Return what sysctl(3) knows of the machine."""
        from gitshadow.platform.macos import facts as found

        return found

    def socket_access(self) -> "Sockets":
        """Return how sockets are reached, and who is at the other end."""
        from gitshadow.platform.macos import sockets as found

        return found

    def login_service(self) -> "LoginService | None":
        """Return the user's launchd."""
        from gitshadow.platform.macos.facts import SERVICE

        return SERVICE

    def open_watcher(
        self,
        backend: "WatchBackend",
        places: "WatchedPlaces",
        wake: "Callable[[], None]",
    ) -> "Watcher":
        """Return a watcher on FSEvents, by watchfiles."""
        from gitshadow.platform.macos.facts import reported_path
        from gitshadow.platform.portable.watcher import PortableWatcher

        root, git_dir = reported_path(places.root), reported_path(places.git_dir)
        return PortableWatcher(
            root, git_dir, wake, self.machine_facts(), recursive=True
        )
