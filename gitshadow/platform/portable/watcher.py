"""Watch directories through watchfiles, and return hints that are complete or marked as doubtful.

Facts about watchfiles 1.3, from measurements, and what is done about them: a recursive watch
follows links and misses what is written right after `mkdir`, so directories are listed and watched
one by one. A name that is not UTF-8 ends an instance for good, so a new one is opened and
everything is looked at again. A barrier drops a numbered cookie file, whose events come after all
earlier ones. Overflow is silent: so a cookie is dropped after most batches, too, one that does not
come before a later one was lost, with others, and a process that was stopped doubts what it sees
next.
`ignore_permission_denied` hides every error, also a missing directory and an exhausted limit. A
call that times out drops what came in the meantime.
Invariant: a barrier returns every hint for what was written before it, or reports that it cannot;
but for an overflow so short that it swallowed no cookie. A cookie number is used once, and no
cookie file remains.
"""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from gitshadow.model import RepoPath
from gitshadow.platform.port import Machine
from gitshadow.platform.portable.instance import Instance, Poller, open_notify
from gitshadow.platform.watching import (
    GIT_NAMES,
    EventSink,
    Hints,
    Walks,
    directory_inode,
)

# An instance waits so long for more events, and so long a write stays unseen.
STEP_MS = 3
# Fewer wake-ups save power while nobody works; a barrier first switches back.
IDLE_STEP_MS = 25
ACTIVE_S = 30.0
_TIDY_AFTER_S = 1.0
# On Linux a user has 128 instances by default, for all programs.
_MAX_EXTRA = 8
_COSTLY = 500
_PATROL = 32
# Linux queues 16,384 events; a new file is three of them, and one batch lasts 20 ms.
_DOUBTFUL = 1024
_HUGE_BATCH = 4096
_RESUMING_S = 1.0
_TURNS = 20
_MOST_COOKIES = 1024


class Cookies:
    """Drop cookies in one directory, which every watch includes."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        # Numbers rise across restarts, so that a cookie of an earlier process proves nothing.
        self._next = time.time_ns() // 1_000_000
        self._dropped = deque[int](maxlen=_MOST_COOKIES)
        self._count = 0

    def number(self) -> int:
        """Return the number of the next cookie."""
        with self._lock:
            self._next += 1
            return self._next

    def drop(self, number: int | None = None) -> int:
        """Make a file and remove it: its events stay in the queue, in order.

        On a full disk no cookie comes, and the caller that waits for it finds that out.

        Returns:
            Its number.
        """
        number = self.number() if number is None else number
        # O_EXCL and O_NOFOLLOW: whatever is at the path, it is neither opened nor changed.
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        path = os.path.join(self._directory, str(number))
        # With the lock held, so that all are noted in the order of their events.
        with self._lock, contextlib.suppress(OSError):
            os.close(os.open(path, flags, 0o600))
            self._dropped.append(number)
            self._count += 1
            os.unlink(path)
        return number

    @property
    def count(self) -> int:
        """Return how many were dropped so far."""
        with self._lock:
            return self._count

    def came(self, since: int, seen: set[int]) -> tuple[int, bool]:
        """Compare what was seen with the cookies after the first `since` ones.

        Returns:
            How many have come or been skipped by now, and whether one was skipped: dropped before
            one that was seen, and not seen.
        """
        with self._lock:
            forgotten = self._count - len(self._dropped)
            start = max(since, forgotten)
            left = list(self._dropped)[start - forgotten :]
        last = max((at for at, one in enumerate(left) if one in seen), default=-1)
        return start + last + 1, not seen >= set(left[: last + 1])


@dataclass(slots=True)
class _Inbox:
    """Collect what the instances saw; guarded by `changed`.

    `doubt`: the kernel may have dropped events, which only a barrier may forget.
    """

    changed: threading.Condition = field(default_factory=threading.Condition)
    paths: set[RepoPath] = field(default_factory=set)
    listed: set[RepoPath] = field(default_factory=set)
    lost: bool = False
    overflow: bool = False
    git_dir: bool = False
    doubt: bool = False

    def take(self) -> Hints:
        """Empty the box; call it with the condition held."""
        hints = Hints(
            frozenset(self.paths),
            self.lost,
            self.git_dir,
            frozenset(self.listed),
            overflow=self.overflow,
        )
        self.paths.clear()
        self.listed.clear()
        self.lost = self.overflow = self.git_dir = False
        return hints


class PortableWatcher:
    """Watch the covered directories of one worktree; implements `Watcher`.

    The port and `tidy` belong to one thread; `wake` is called by others when there are hints.
    """

    def __init__(
        self,
        root: str,
        git_dir: str,
        cookie_dir: str,
        wake: Callable[[], None],
        machine: Machine,
    ) -> None:
        self._root = root
        self._git_dir = git_dir
        self._cookie_dir = cookie_dir
        self._wake = wake
        self._inbox = _Inbox()
        self._instances: list[Instance] = []
        self._opening = threading.RLock()
        self._cookies = Cookies(cookie_dir)
        self._active = time.monotonic()
        self._idle = False
        self._resumed = -_RESUMING_S
        self._backlog: deque[tuple[float, int]] = deque(maxlen=64)
        self._tidy_at: float | None = None
        self._machine = machine
        self._walks = Walks(machine.shared_file_system(root))
        self._closed = False
        self._poller = Poller(root, self._report)
        self._round: Iterator[RepoPath] = iter(())
        self._kernels: frozenset[int] = frozenset()

    def add(
        self, directories: Iterable[RepoPath], polled: Iterable[RepoPath] = ()
    ) -> None:
        """Watch more directories in an instance of their own."""
        wanted, listed = _split(directories, polled)
        self._poller.add(listed)
        if wanted:
            self._open(wanted)
        self._tidy_at = time.monotonic() + _TIDY_AFTER_S
        if len(self._instances) > _MAX_EXTRA:
            self._merge(whole=False)

    def replace(
        self, directories: Iterable[RepoPath], polled: Iterable[RepoPath]
    ) -> None:
        """Watch exactly these directories."""
        wanted, listed = _split(directories, polled)
        self._poller.replace(listed)
        with self._opening:
            old = self._living()
            # The new instance listens before the old one ends, so that no event falls between them.
            if self._open(wanted):
                self._retire(old)
                self._walks.watched()
        self._tidy_at = None
        self._walks.pace()

    def enter(self, directories: Mapping[RepoPath, int]) -> bool:
        """Return False: an instance for each directory would cost too much."""
        return False

    def barrier(self, timeout_s: float = 1.0) -> Hints | None:
        """Return every hint for what was written before the call; None: it cannot promise."""
        self.nudge()
        number = self._cookies.drop()
        self._poller.poll()
        box = self._inbox
        with box.changed:
            self._await(lambda: self._all_saw(number) or box.lost, timeout_s)
            complete = self._all_saw(number) or box.lost
            # The doubt ends here: the caller looks at everything after this answer.
            doubt, box.doubt = box.doubt, False
            hints = box.take()
        if doubt or not complete:
            return None
        if self._walks.reason is not None:
            # Without watches the hints are not complete, so the caller has to walk.
            return hints._replace(lost=True)
        return hints

    def _await(self, come: Callable[[], bool], timeout_s: float) -> None:
        """Wait in short turns: one alone is over when the whole machine stood still.

        An overflow is another case: nothing was lost while nothing ran.
        """
        for _ in range(_TURNS):
            if self._inbox.changed.wait_for(come, timeout_s / _TURNS):
                return

    def degraded(self) -> str | None:
        """Return what cannot be watched, and the remedy; None where all is."""
        return self._walks.reason

    def follow(self, order: EventSink) -> None:
        """Do nothing: a batch of events has no order."""

    def watching(self, paths: Collection[RepoPath]) -> set[RepoPath]:
        """Return those paths under which a directory is watched."""
        living = self._living()
        return {path for path in paths if any(path in one.inodes for one in living)}

    def unwatched(self, directories: Iterable[RepoPath]) -> set[RepoPath]:
        """Return the directories that are not watched as what they are on the disk now.

        If there are too few watches, walks replace all of them.
        """
        if self._walks.reason is not None:
            return set()
        living, polled = self._living(), self._poller.directories
        found: set[RepoPath] = set()
        for path in directories:
            inode = directory_inode(self._absolute(path))
            if inode is None or path in polled:
                continue
            if not any(one.inodes.get(path) == inode for one in living):
                found.add(path)
        return found

    def patrol(self) -> set[RepoPath]:
        """Return which of the next few watched directories are `unwatched`, a few per call.

        Each round begins with the kernel's own list: a directory that was deleted and made
        again may have the inode of the one that was watched.
        """
        some = list(islice(self._round, _PATROL))
        if not some:
            living = self._living()
            self._kernels = self._machine.watched_inodes()
            self._round = iter(_union(living))
            some = list(islice(self._round, _PATROL))
        strays = self.unwatched(some)
        for path in strays.symmetric_difference(some) if self._kernels else ():
            inode = directory_inode(self._absolute(path))
            if inode is not None and inode not in self._kernels:
                self._forget(path)
                strays.add(path)
        return strays - self._poller.directories

    def _forget(self, path: RepoPath) -> None:
        """Count a directory as not watched until it is added again."""
        for one in self._living():
            one.inodes.pop(path, None)

    def take(self) -> Hints:
        """Return what was seen since the last time, without waiting."""
        with self._inbox.changed:
            return self._inbox.take()

    def nudge(self) -> None:
        """Note activity, so that events are fetched often."""
        self._active = time.monotonic()
        if self._idle:
            self._idle = False
            self._cookies.drop()

    def resumed(self) -> None:
        """Note that the process had been stopped; a signal handler may call it.

        In that time the kernel's queue may have overflowed and been emptied again.
        """
        self._resumed = time.monotonic()
        with self._inbox.changed:
            self._inbox.doubt |= self._is_doubtful()
        self._lose()

    def tidy(self) -> None:
        """Do what is due: one instance for everything, rest when idle, walks when degraded."""
        now = time.monotonic()
        if self._tidy_at is not None and now >= self._tidy_at:
            self._tidy_at = None
            self._merge(whole=False)
        if not self._idle and now - self._active > ACTIVE_S:
            self._idle = True
            self._merge(whole=True)
            self._cookies.drop()
        if self._walks.is_due():
            self._lose()

    def close(self) -> None:
        """End all instances."""
        self._closed = True
        self._poller.close()
        with self._inbox.changed:
            for instance in self._instances:
                instance.stopping.set()

    @property
    def instances(self) -> int:
        """Return how many instances are open, those that are about to end included."""
        return len(self._instances)

    def step_ms(self) -> int:
        """Return how often an instance looks: often while anything happens."""
        idle = time.monotonic() - self._active > ACTIVE_S
        return IDLE_STEP_MS if idle else STEP_MS

    def saw(self, instance: Instance, batch: set[str], deleted: set[str]) -> None:
        """Add a batch of one instance."""
        paths, git_dir, cookies = self._sort(batch)
        instance.cookies, is_gap = self._cookies.came(instance.cookies, cookies)
        # What is made again under the name of a directory that was deleted may have its inode.
        gone = self._sort(deleted)[0] if deleted else ()
        for path in gone:
            self._forget(path)
        box = self._inbox
        with box.changed:
            box.paths |= paths
            box.git_dir |= git_dir
            # A walk is cheaper than so many single looks, and proves more.
            box.lost |= len(batch) >= _HUGE_BATCH or is_gap
            box.overflow |= is_gap
            self._backlog.append((time.monotonic(), len(batch)))
            box.doubt |= self._is_doubtful()
            hinted = bool(paths) or git_dir or box.lost
            instance.cookie = max(instance.cookie, *cookies, 0)
            box.changed.notify_all()
        if hinted:
            # A new file in a repository that is being deleted can make `rm -rf` fail.
            if not gone:
                self._cookies.drop()
            self._active = time.monotonic()
            self._idle = False
            self._wake()

    def died(self, instance: Instance) -> None:
        """Replace an instance that a name killed; what it missed must be looked for."""
        with self._opening:
            if not self._closed and instance.last_cookie is None:
                self._open(instance.directories)
            self._lose()  # before a barrier can find that all that is left has its cookie
            self.ended(instance)

    def ended(self, instance: Instance) -> None:
        """Forget an instance that is no more."""
        with self._inbox.changed:
            self._instances.remove(instance)
            self._inbox.changed.notify_all()

    def _sort(self, batch: set[str]) -> tuple[set[RepoPath], bool, set[int]]:
        """Return covered paths, whether Git's directory was touched, the cookies."""
        paths: set[RepoPath] = set()
        cookies: set[int] = set()
        git_dir, top = False, self._root.rstrip("/") + "/"
        for text in batch:
            head, _, name = text.rpartition("/")
            if head == self._cookie_dir:
                if name.isdecimal():
                    cookies.add(int(name))
            elif head == self._git_dir:
                git_dir |= name in GIT_NAMES
            elif text.startswith(top) and text != self._git_dir:
                paths.add(RepoPath(os.fsencode(text[len(top) :])))
        return paths, git_dir, cookies

    def _report(self, paths: set[RepoPath], listed: set[RepoPath]) -> None:
        with self._inbox.changed:
            self._inbox.paths |= paths
            self._inbox.listed |= listed
        self._active = time.monotonic()
        self._wake()

    def _is_doubtful(self) -> bool:
        """Return whether so much came at the end of a standstill that more may have been there.

        The first of it can be taken before the signal that ended the standstill.
        """
        if time.monotonic() - self._resumed > _RESUMING_S:
            return False
        around = (
            size for at, size in self._backlog if at > self._resumed - _RESUMING_S
        )
        return sum(around) >= _DOUBTFUL

    def _lose(self) -> None:
        with self._inbox.changed:
            self._inbox.lost = True
            self._inbox.changed.notify_all()
        self._wake()

    def _open(self, directories: frozenset[RepoPath]) -> bool:
        """Open one more instance; if that is impossible, walks replace it."""
        with self._opening:
            try:
                before = self._inodes(directories)
                notify = open_notify(self._places(before))
                # A directory may be replaced while its watch is added; only an inode that stayed is
                # watched.
                inodes = dict(before.items() & self._inodes(before).items())
            except UnicodeEncodeError:
                self._walks.reason = "the path of the repository is not UTF-8: move it"
                return False
            except OSError:
                self._walks.reason = self._machine.WATCH_HINT
                return False
            instance = Instance(self, notify, directories, inodes)
            instance.cookies = self._cookies.count
            with self._inbox.changed:
                self._instances.append(instance)
            instance.start()
            return True

    def _inodes(self, directories: Iterable[RepoPath]) -> dict[RepoPath, int]:
        """Return what can be watched, with the inode by which it is known to the kernel."""
        looks = ((path, directory_inode(self._absolute(path))) for path in directories)
        return {path: inode for path, inode in looks if inode is not None}

    def _places(self, directories: Iterable[RepoPath]) -> list[str]:
        own = [self._git_dir, self._cookie_dir]
        return own + [self._absolute(path) for path in sorted(directories)]

    def _merge(self, *, whole: bool) -> None:
        """Merge instances into one, the largest only if that is cheap.

        Opening takes 45 µs a directory, in which nothing else in this process runs.
        """
        with self._opening:
            old = sorted(self._living(), key=lambda one: len(one.directories))
            if not whole and old and len(old[-1].directories) > _COSTLY:
                old.pop()
            if len(old) > 1 and self._open(_union(old)):
                self._retire(old)

    def _retire(self, old: Iterable[Instance]) -> None:
        """End instances after what they saw before now has been taken."""
        # An old instance may end when it has seen this cookie: what came before it is then taken.
        number = self._cookies.number()
        for instance in old:
            instance.last_cookie = number
        self._cookies.drop(number)

    def _living(self) -> list[Instance]:
        with self._inbox.changed:
            return [one for one in self._instances if one.last_cookie is None]

    def _all_saw(self, number: int) -> bool:
        return all(one.cookie >= number for one in self._instances)

    def _absolute(self, path: RepoPath) -> str:
        return os.path.join(self._root, os.fsdecode(path)) if path else self._root


def _split(
    directories: Iterable[RepoPath], polled: Iterable[RepoPath]
) -> tuple[frozenset[RepoPath], frozenset[RepoPath]]:
    """Return what can be watched and what must be polled: watchfiles takes UTF-8 alone."""
    listed = set(polled)
    wanted = frozenset(directories) - listed
    listed |= {path for path in wanted if not _is_utf8(path)}
    return wanted - listed, frozenset(listed)


def _union(instances: Iterable[Instance]) -> frozenset[RepoPath]:
    return frozenset[RepoPath]().union(*(one.directories for one in instances))


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True
