"""What a watcher tells, and what it can be asked: the port between watching and observing.

Invariant: a hint may be wrong or missing; only a barrier promises anything.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from gitshadow.model import RepoPath


class Hints(NamedTuple):
    """Hold what was noticed since the last time.

    `lost`: events may be missing, everything must be looked at again. `git_dir`: something
    happened directly in the Git directory (HEAD, index, index.lock). `listed`: polled
    directories in which something changed; what came and went between two listings is in
    neither of them.
    """

    paths: frozenset[RepoPath] = frozenset()
    lost: bool = False
    git_dir: bool = False
    listed: frozenset[RepoPath] = frozenset()


class WatchPort(Protocol):
    """Watch directories."""

    def add(
        self, directories: Iterable[RepoPath], polled: Iterable[RepoPath] = ()
    ) -> None:
        """Watch more directories; returns when the watch is in place."""
        ...

    def replace(
        self, directories: Iterable[RepoPath], polled: Iterable[RepoPath]
    ) -> None:
        """Watch exactly these directories, the new watch in place before the old one ends."""
        ...

    def barrier(self, timeout_s: float) -> Hints | None:
        """Return every hint for what was written before the call; None: it cannot promise."""
        ...

    def watching(self, paths: Collection[RepoPath]) -> set[RepoPath]:
        """Return those paths under which a directory is watched."""
        ...

    def unwatched(self, directories: Iterable[RepoPath]) -> set[RepoPath]:
        """Return the directories that are not watched as what they are on the disk now."""
        ...

    def patrol(self) -> set[RepoPath]:
        """Return which of the next few watched directories are `unwatched`, a few per call."""
        ...

    def degraded(self) -> str | None:
        """Say what cannot be watched, and the remedy; None where all is."""
        ...
