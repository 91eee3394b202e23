"""Linux: what only its kernel knows, from /proc, inotify, extended attributes and systemd."""

from gitshadow.platform.portable import Portable

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


class Linux(Portable):
    """What /proc, inotify, extended attributes, fanotify and systemd show."""

    NOTE = None
    UNKNOWN = ()
    WATCHERS = ("auto", "inotify", "watchfiles")

    def process_facts(self) -> "Processes":
        """Return what /proc shows of processes."""
        from gitshadow.platform.linux import processes as found

        return found

    def file_facts(self) -> "Files":
        """Return what xattr(7) and statx(2) know of files."""
        from gitshadow.platform.linux import files as found

        return found

    def machine_facts(self) -> "Machine":
        """Return what the kernel says of the machine."""
        from gitshadow.platform.linux import machine as found

        return found

    def socket_access(self) -> "Sockets":
        """Return how sockets are reached through /proc/self/fd."""
        from gitshadow.platform.linux import sockets as found

        return found

    def world(self) -> str | None:
        """Return a name for what this process sees of files: that of its mount namespace."""
        import os

        found = os.stat("/proc/self/ns/mnt")
        return f"{found.st_dev:x}.{found.st_ino:x}"

    def command_peers(self) -> "CommandPeers | None":
        """Return how a process stands in for another one."""
        from gitshadow.platform.linux import peers as found

        return found

    def lineage(self, pid: int) -> list[str]:
        """Return `pid/start` of a process and of each above it, nearest first; proc(5)."""
        from gitshadow.platform.linux.proc_numbers import shows_own_numbers

        found: list[str] = []
        if not shows_own_numbers():
            return found
        while pid > 1 and len(found) < _MAX_ANCESTORS:
            try:
                with open(f"/proc/{pid}/stat", "rb", buffering=0) as handle:
                    fields = handle.read(4096).rpartition(b")")[2].split()
            except OSError:
                break
            if len(fields) < 20:
                break
            found.append(f"{pid}/{fields[19].decode()}")
            pid = int(fields[1])
        return found

    def login_service(self) -> "LoginService | None":
        """Return the user's systemd."""
        from gitshadow.platform.linux.login import SERVICE

        return SERVICE

    def open_watcher(
        self,
        backend: "WatchBackend",
        places: "WatchedPlaces",
        wake: "Callable[[], None]",
    ) -> "Watcher":
        """Return a watcher on inotify itself, unless the library is wanted."""
        from gitshadow.config import WatchBackend

        if backend is not WatchBackend.WATCHFILES:
            from gitshadow.platform.linux.inotify import InotifyWatcher

            return InotifyWatcher(places.root, places.git_dir, wake)
        # It takes 30 ms to import.
        from gitshadow.platform.portable.watcher import PortableWatcher

        return PortableWatcher(places.root, places.git_dir, wake, self.machine_facts())

    def open_witness(self, directory: int) -> "Witness":
        """Return who reports the writes in an open directory: the kernel, or a service."""
        from gitshadow.platform.linux.witness.record import KernelWitness

        try:
            return KernelWitness(directory)
        except OSError as error:
            from gitshadow.platform.linux.witness.client import ServiceWitness

            try:
                return ServiceWitness(directory)
            except FileNotFoundError:
                # Without a service, what this user lacks is to be known.
                raise error from None

    def witness_service(self) -> "WitnessService | None":
        """Return the service of root that asks fanotify(7)."""
        from gitshadow.platform.linux.witness import install as found

        return found
