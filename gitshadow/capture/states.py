"""Keep the last recorded state of every covered path of one worktree, with its exact mode.

The table is loaded whole where a walk compares everything, and row by row where a hook names two
paths. A daemon keeps only the states in use: those of half a million files would take 150 MiB.
Exact permissions are kept here too, because modes in a Git tree do not contain them.
A path may be named by another spelling, by a hook or a person: where file systems fold names, only
that on the disk is recorded; elsewhere every path is left as it is, without a look.
Invariant: memory and journal agree, and a change reaches both in one journal transaction.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from gitshadow.model import FileState, RepoPath, is_odd_mode
from gitshadow.store.files import WorkFiles
from gitshadow.store.journal import state as rows
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.state import States
from gitshadow.store.spelling import fold_key

# So many states of single paths stay in memory, of which each takes about half a KiB.
_MOST_NEAR = 2_000


class StateTable:
    """Store the file states of one worktree, in memory once they were loaded."""

    def __init__(self, db: Db, worktree: str) -> None:
        self._db = db
        self._worktree = worktree
        self._all: States | None = None
        self._near: dict[RepoPath, FileState | None] | None = None
        self._linked: dict[int, set[RepoPath]] = {}
        self._apart = False
        self._saving = False

    @property
    def apart(self) -> bool:
        """Return whether memory alone knows: the journal is to name nothing that Git may drop."""
        return self._apart

    def take_out(self) -> None:
        """Move all states from the journal to memory; call it inside `db.write()`.

        The next recorded write stores them again: it is published with all that it builds on.
        """
        self.all()
        # The states name blobs that no ref reaches yet; the user's gc may delete them.
        rows.drop_states(self._db, self._worktree)
        self._apart = True

    def get(self, path: RepoPath) -> FileState | None:
        """Return what a path held, or None where it was absent."""
        if self._all is not None:
            return self._all.get(path)
        if self._near is None:
            return rows.get(self._db, self._worktree, path)
        if path not in self._near:
            self._near[path] = rows.get(self._db, self._worktree, path)
        return self._near[path]

    def fetch(self, paths: Collection[RepoPath]) -> None:
        """Read the states of many paths at once, if they are to be asked for one by one."""
        if self._near is None or self._all is not None:
            return
        new = [path for path in paths if path not in self._near]
        if len(new) > 1:
            self._near.update(dict.fromkeys(new))
            self._near.update(rows.get_many(self._db, self._worktree, new))

    def all(self) -> States:
        """Return all states; loads them once."""
        if self._all is None:
            self._all = rows.load(self._db, self._worktree)
        return self._all

    def count(self) -> int:
        """Return how many paths have a state."""
        if self._all is None:
            return rows.count(self._db, self._worktree)
        return len(self._all)

    def below(self, directory: RepoPath) -> list[RepoPath]:
        """Return the known paths below a directory, sorted."""
        if not self._apart:
            return rows.below(self._db, self._worktree, directory)
        prefix = directory + b"/" if directory else b""
        return sorted(path for path in self.all() if path.startswith(prefix))

    def within(self, directory: RepoPath) -> set[RepoPath]:
        """Return the known files directly in a directory, and the directories that hold others."""
        if not self._apart:
            return rows.children(self._db, self._worktree, directory)
        end = len(directory) + 1 if directory else 0
        below = self.below(directory)
        return {RepoPath(path[:end] + path[end:].partition(b"/")[0]) for path in below}

    def twins(self, path: RepoPath, inode: int, links: int) -> set[RepoPath]:
        """Return the other known names of a file: a write through one changes them all.

        No watcher reports a write by the other names.
        """
        # To look for an inode takes a query, so it is done once per file with several links.
        if links > 1 and inode not in self._linked:
            self._linked[inode] = set(self.named({inode}))
        if inode not in self._linked:
            return set()
        self._linked[inode].add(path)
        named = {one: self.get(one) for one in self._linked[inode] - {path}}
        return {one for one, held in named.items() if held and held.stat.inode == inode}

    def named(self, inodes: Collection[int]) -> dict[RepoPath, FileState]:
        """Return the recorded paths whose file had one of some inodes."""
        if not self._apart:
            return rows.named(self._db, self._worktree, inodes)
        every = self.all().items()
        return {path: state for path, state in every if state.stat.inode in inodes}

    def begin(self, states: Mapping[RepoPath, FileState]) -> None:
        """Store the first states of a worktree that has none; call it inside `db.write()`."""
        rows.put_many(self._db, self._worktree, states)
        self._apart = False
        self._all = states if isinstance(states, States) else States.of(states)

    def update(
        self, put: Mapping[RepoPath, FileState], drop: Iterable[RepoPath]
    ) -> None:
        """Write states to the journal and to memory; call it inside `db.write()`."""
        drop = [path for path in drop if path not in put]
        # States that were only in memory are stored with the first recorded one.
        known = self._all if self._apart and self._all is not None else {}
        rows.put_many(self._db, self._worktree, {**known, **put})
        rows.drop_many(self._db, self._worktree, drop)
        self._saving = self._apart
        self.remember(put, drop)

    def remember(
        self, put: Mapping[RepoPath, FileState], drop: Collection[RepoPath]
    ) -> None:
        """Change states in memory alone."""
        if self._near is not None:
            self._near |= dict.fromkeys(drop) | dict(put)
        if self._all is None:
            return
        self._all.update(put)
        for path in drop:
            self._all.pop(path, None)

    def forget(self) -> None:
        """Drop the copy in memory, so that the journal is asked again, where it knows more."""
        if self._apart:
            return
        self._all = None
        self._linked = {}
        if self._near is not None:
            self._near = {}

    def shed(self) -> bool:
        """Drop the copy of all states; from now on those of single paths are kept instead.

        Returns:
            Whether there was a copy to drop.
        """
        if self._apart:
            return False
        was_whole = self._all is not None
        self._all = None
        if self._near is None or len(self._near) > _MOST_NEAR:
            self._near = {}
        return was_whole

    def odd_modes(self, plain: tuple[int, int]) -> dict[RepoPath, int]:
        """Return the exact mode of each file whose Git mode does not say it."""
        if self._all is None:
            return rows.odd_modes(self._db, self._worktree, plain)
        modes = self._all.modes()
        return {path: mode for path, mode in modes if is_odd_mode(mode, plain)}

    @contextmanager
    def consistent(self) -> Iterator[None]:
        """Forget the copy in memory if the block fails, since the journal rolled back."""
        self._saving = False
        try:
            yield
        # Also for KeyboardInterrupt: the transaction was rolled back, and memory must not keep it.
        except BaseException:
            self.forget()
            raise
        self._apart = self._apart and not self._saving


class Spellings:
    """Find true spellings in one worktree."""

    def __init__(self, files: WorkFiles, states: StateTable) -> None:
        self._files = files
        self._states = states

    def true(self, path: RepoPath) -> RepoPath:
        """Return the path on the disk that is meant, else the recorded one, else the path."""
        if not self._files.folds or not path:
            return path
        spelled = self._files.spelled(path)
        if self._files.glance(spelled) is not None:
            return spelled
        return self._recorded(spelled) or spelled

    def every(self, paths: Iterable[RepoPath]) -> set[RepoPath]:
        """Return paths with all that may be meant by them, on the disk or recorded."""
        found = set(paths)
        if self._files.folds:
            for path in [one for one in found if one]:
                spelled = self._files.spelled(path)
                recorded = self._recorded(path)
                found.add(spelled)
                found.update(() if recorded is None else (recorded,))
        return found

    def trues(self, paths: Collection[RepoPath]) -> tuple[RepoPath, ...]:
        """Return `true` of each path, each once."""
        return tuple(dict.fromkeys(map(self.true, paths)))

    def _recorded(self, path: RepoPath) -> RepoPath | None:
        """Return the recorded file or directory that is meant by a path."""
        found = RepoPath(b"")
        for part in path.split(b"/"):
            exact = RepoPath(found + b"/" + part if found else part)
            alike = sorted(
                one
                for one in self._states.within(found)
                if fold_key(one) == fold_key(exact)
            )
            if not alike:
                return None
            found = exact if exact in alike else alike[0]
        return found
