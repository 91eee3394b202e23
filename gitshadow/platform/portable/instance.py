"""Run one instance of watchfiles in a thread, and poll directories that it cannot watch.

Only this module imports watchfiles. A name that is not UTF-8 ends a watch, so its directory is
listed again and again instead.
Invariant: a listener gets what an instance saw in the order in which it was seen. A difference
between two listings is reported once, for all callers.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from gitshadow.model import RepoPath
from gitshadow.platform.stamps import racy_ns
from gitshadow.platform.watching import directory_inode

# So long one batch lasts at most, however fast events come.
DEADLINE_MS = 20
_OPEN_TRIES = 50
# Where the kernel has nothing to offer (ENOSYS), the library polls; with 0 it would never pause.
_LIBRARY_POLLS_MS = 300
_DELETED = 3
"""The number of `watchfiles.Change.deleted`; its import takes another 10 ms."""
# A listing misses what comes and goes between two of them, so the pause is short.
POLL_S = 0.1
_SHARE = 20
_Stamp = tuple[int, int, int, int]
_ABSENT: _Stamp = (0, 0, 0, 0)


class InstanceListener(Protocol):
    """Receive what instances see; called from their threads."""

    def step_ms(self) -> int:
        """Return how long to wait for more of a batch."""
        ...

    def saw(self, instance: "Instance", batch: set[str], deleted: set[str]) -> None:
        """Receive one batch of absolute paths, and those of them that were deleted."""
        ...

    def died(self, instance: "Instance") -> None:
        """Note that an instance ended at a name that is not UTF-8."""
        ...

    def ended(self, instance: "Instance") -> None:
        """Note that an instance ended as requested."""
        ...


class Instance:
    """Run one instance in a thread of its own.

    `directories` are those that were asked for, `inodes` what is watched under each name:
    a watch follows the directory when it is renamed. `cookie` is the newest one that was seen,
    `cookies` of how many it is known whether they have come.
    """

    def __init__(
        self,
        listener: InstanceListener,
        notify: RustNotify,
        directories: frozenset[RepoPath],
        inodes: dict[RepoPath, int],
    ) -> None:
        self.directories = directories
        self.inodes = inodes
        self.cookie = 0
        self.cookies = 0
        self.last_cookie: int | None = None
        self.stopping = threading.Event()
        self._listener = listener
        self._notify = notify
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    @property
    def done(self) -> bool:
        """Return whether it may end: its successor was there before the last cookie."""
        return self.last_cookie is not None and self.cookie >= self.last_cookie

    def _run(self) -> None:
        while not self.done:
            step_ms = self._listener.step_ms()
            try:
                batch = self._notify.watch(DEADLINE_MS, step_ms, 0, self.stopping)
            except WatchfilesRustInternalError:
                self._listener.died(self)
                return
            # `watch` returns a word (`stop`, `timeout`, `signal`) where it has no events.
            if not isinstance(batch, set):
                break
            deleted = {path for change, path in batch if change == _DELETED}
            self._listener.saw(self, {path for _, path in batch}, deleted)
        self._listener.ended(self)


def open_notify(directories: Sequence[str]) -> RustNotify:
    """Watch those of some directories that still exist, none of them recursively.

    Raises:
        UnicodeEncodeError: a path is not UTF-8.
        OSError: no watches are left, or directories vanish all the time.
    """
    wanted = list(directories)
    for _ in range(_OPEN_TRIES):
        # Several vanish at once while a tree is removed, and one is enough to fail.
        wanted = [path for path in wanted if directory_inode(path) is not None]
        try:
            return RustNotify(wanted, False, False, _LIBRARY_POLLS_MS, False, False)
        except FileNotFoundError:
            continue
        except WatchfilesRustInternalError as error:
            raise OSError(str(error)) from error
    raise OSError("directories disappear faster than they can be watched")


class _Listing(NamedTuple):
    """Store what would show a change of a directory itself and of each name in it.

    None: it may change without a trace. `directories` are the names of directories.
    """

    own: _Stamp | None
    names: dict[bytes, _Stamp | None]
    directories: set[bytes]


class Poller:
    """List directories in a thread of its own and report what differs.

    `report` gets the paths that differ and the directories in which anything changed.
    At most a twentieth of the time goes into listing, however many directories there are.
    """

    def __init__(
        self, root: str, report: Callable[[set[RepoPath], set[RepoPath]], None]
    ) -> None:
        self._root = os.fsencode(root)
        self._report = report
        self._seen: dict[RepoPath, _Listing] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, directories: Iterable[RepoPath]) -> None:
        """Poll more directories, from how they look now."""
        with self._lock:
            for directory in directories:
                self._seen.setdefault(directory, self._list(directory))
            if self._seen and self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def replace(self, directories: Iterable[RepoPath]) -> None:
        """Poll exactly these directories; what differs in one that stays is reported."""
        wanted = set(directories)
        with self._lock:
            for gone in self._seen.keys() - wanted:
                del self._seen[gone]
        self.add(wanted)

    def poll(self) -> None:
        """List everything now; when this returns, every difference was reported.

        A polled directory in which something changed is not reported by the one above it: who
        gets a directory looks at all that is below, while some of it may be moved on.
        """
        with self._lock:
            found: set[RepoPath] = set()
            stays: set[RepoPath] = set()
            changed: set[RepoPath] = set()
            for directory, old in self._seen.items():
                new = self._seen[directory] = self._list(directory)
                found |= _differences(directory, old.names, new.names)
                stays |= _paths(directory, old.directories & new.directories)
                if old.own is None or old.own != new.own:
                    changed.add(directory)
            # A directory that is polled reports its own names, which are more exact.
            found -= stays & self._seen.keys()
            if found or changed:
                self._report(found, changed)

    @property
    def directories(self) -> frozenset[RepoPath]:
        """Return the directories that are polled."""
        with self._lock:
            return frozenset(self._seen)

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _run(self) -> None:
        pause_s = POLL_S
        while not self._closed.wait(pause_s):
            began = time.monotonic()
            self.poll()
            # Large directories are listed less often, so that polling never takes a whole core.
            pause_s = max(POLL_S, _SHARE * (time.monotonic() - began))

    def _list(self, directory: RepoPath) -> _Listing:
        found: dict[bytes, _Stamp | None] = {}
        directories: set[bytes] = set()
        # O_NOFOLLOW: a directory that became a link must not lead out of the working tree.
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(os.path.join(self._root, directory), flags)
        except OSError:
            return _Listing(_ABSENT, found, directories)
        own: _Stamp | None = _ABSENT
        try:
            own = _stamp(os.fstat(fd))
            with os.scandir(fd) as scan:
                for entry in scan:
                    name = os.fsencode(entry.name)
                    # Git's own directory changes with each command and holds nothing that is
                    # recorded.
                    if directory or name != b".git":
                        found[name] = _stamp_of(entry)
                        if entry.is_dir(follow_symlinks=False):
                            directories.add(name)
        except OSError:  # it vanished while it was listed: what is missing differs
            return _Listing(own, found, directories)
        finally:
            os.close(fd)
        return _Listing(own, found, directories)


def _stamp_of(entry: "os.DirEntry[str]") -> _Stamp | None:
    try:
        return _stamp(entry.stat(follow_symlinks=False))
    except OSError:
        return None


def _stamp(stat: os.stat_result) -> _Stamp | None:
    # A second write within one step of the file system's clock leaves the same stat behind.
    if time.time_ns() - stat.st_ctime_ns < racy_ns(stat.st_ctime_ns):
        return None
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _differences(
    directory: RepoPath,
    old: Mapping[bytes, _Stamp | None],
    new: Mapping[bytes, _Stamp | None],
) -> set[RepoPath]:
    return _paths(
        directory,
        (
            name
            for name in old.keys() | new.keys()
            if name not in old or old[name] is None or old[name] != new.get(name)
        ),
    )


def _paths(directory: RepoPath, names: Iterable[bytes]) -> set[RepoPath]:
    prefix = directory + b"/" if directory else b""
    return {RepoPath(prefix + name) for name in names}
