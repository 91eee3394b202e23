"""Read what the disk has at the paths of a plan, and which directories the unit created.

A directory that the unit created is removed if it is empty after the undo.
Invariant: reads only; no link is followed and no unsafe path is read. A directory that contained
anything recorded before the unit, or in which anybody else ever wrote, is never the unit's. What a
sparse checkout leaves out is in no directory.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import (
    TREE_MODE,
    FileState,
    FileVersion,
    Gap,
    Oid,
    PathChange,
    RepoPath,
    paths_of,
)
from gitshadow.store.files import Look, WorkFiles
from gitshadow.store.journal import events, state
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.paths import parents, safe_path
from gitshadow.store.repo import Repo
from gitshadow.undo.path_plans import Below, Respelled, World
from gitshadow.undo.report import Reason


def survey(
    paths: Iterable[RepoPath],
    files: WorkFiles,
    recorded: Callable[[RepoPath], FileState | None],
    uncovered: Callable[[RepoPath], Reason | None],
) -> World:
    """Look at every path, and at what is in the way above and below it.

    `recorded` returns what was recorded of a path, `uncovered` why it is not covered (None: it is).
    """
    surveyor = _Surveyor(files, recorded, uncovered)
    with files.together():
        for path in sorted(set(paths)):
            if safe_path(path):
                surveyor.visit(path)
    return World(
        present=surveyor.present,
        directories=surveyor.directories,
        barriers=frozenset(surveyor.barriers),
        excluded=surveyor.excluded,
        respelled=surveyor.respelled,
    )


def version_at(files: WorkFiles, path: RepoPath) -> FileVersion | None:
    """Read what a file or link holds at this moment; None where there is neither.

    Raises:
        OSError: it exists but cannot be read.
    """
    reading = files.read(path)
    if reading is None:
        return None
    return FileVersion(files.format.blob(reading.data), reading.mode)


@dataclass(slots=True)
class _Surveyor:
    files: WorkFiles
    recorded: Callable[[RepoPath], FileState | None]
    uncovered: Callable[[RepoPath], Reason | None]
    present: dict[RepoPath, FileVersion | None] = field(default_factory=dict)
    directories: dict[RepoPath, Below] = field(default_factory=dict)
    barriers: set[RepoPath] = field(default_factory=set)
    excluded: dict[RepoPath, Reason] = field(default_factory=dict)
    respelled: dict[RepoPath, Respelled] = field(default_factory=dict)
    _open: set[RepoPath] = field(default_factory=set)

    def visit(self, path: RepoPath) -> None:
        """Look at one path."""
        reason = self.uncovered(path)
        if reason is not None:
            self.excluded[path] = reason
        self.present[path] = None
        if not self._reachable(path):
            return
        look = self.files.look(path)
        if look is None:
            self._seek_other_spelling(path)
            return
        if look.is_dir:
            self.directories[path] = self._below(path)
        elif look.is_file or look.is_link:
            self.present[path] = self._version(path, look)
        else:
            self.barriers.add(path)

    def _reachable(self, path: RepoPath) -> bool:
        """Return whether the directories above a path exist; note what bars the way."""
        for parent in parents(path):
            if parent in self._open:
                continue
            look = self.files.look(parent)
            if look is None:
                self._seek_other_spelling(parent)
                return False
            if not look.is_dir:
                self.barriers.add(parent)
                return False
            self._open.add(parent)
        return True

    def _seek_other_spelling(self, path: RepoPath) -> None:
        """Note what a path that is not there leads to all the same, where names fold."""
        if not self.files.folds or path in self.respelled:
            return
        there = self.files.spelled(path)
        look = self.files.look(there) if there != path else None
        if look is not None and look.is_dir:
            below = self._below(there)
            directories = below.directories | {there}
            self.respelled[path] = Respelled(there, below.files, directories)
        elif look is not None:
            self.respelled[path] = Respelled(there, frozenset({there}))

    def _version(self, path: RepoPath, look: Look) -> FileVersion:
        # What is not recorded may be large or private, so it is read only before it is replaced.
        if path in self.excluded:
            return self._unread(look)
        state = self.recorded(path)
        # The recorded stat is trusted, as Git trusts its index, unless the file was written in the
        # tick of the clock in which it was read (racy).
        if state is not None and not state.racy and state.stat == look.stat:
            return FileVersion(state.version.oid, look.mode)
        try:
            version = version_at(self.files, path)
        except OSError:
            self.excluded[path] = Reason.IO_ERROR
            return self._unread(look)
        return version or self._unread(look)

    def _unread(self, look: Look) -> FileVersion:
        # No blob has this id, so a file that was not read equals no recorded version.
        return FileVersion(self.files.format.null, look.mode)

    def _below(self, directory: RepoPath) -> Below:
        inner: set[RepoPath] = set()
        found: set[RepoPath] = set()
        # A loop, not recursion: a tree can be deeper than Python's stack.
        todo = [directory]
        while todo:
            at = todo.pop()
            try:
                entries = self.files.list(at)
            except OSError:
                # What cannot be listed may have files, so it counts as one.
                found.add(at)
                continue
            for name, look in entries:
                path = RepoPath(at + b"/" + name)
                if look.is_dir:
                    inner.add(path)
                    todo.append(path)
                else:
                    found.add(path)
        return Below(frozenset(found), frozenset(inner))


class DirectoryOwner(NamedTuple):
    """Which directories a unit created.

    `tree` is the working tree before it, None where that is not known: then none is. `since`
    is its first event, `mine` distinguishes its events from those of others.
    """

    repo: Repo
    db: Db
    worktree: str
    tree: Oid | None
    since: int
    mine: Callable[[PathChange], bool]

    def owns(self, directory: RepoPath) -> bool:
        """Return whether a directory came with the unit and only the unit wrote in it."""
        inside = EventFilter(
            worktree=self.worktree, paths=(directory,), after_seq=self.since - 1
        )
        found = events.rows(self.db, inside)
        rows = events.path_changes(found)
        # A gap there hides writes of anybody, so the directory may have somebody else's files.
        if len(rows) < len(found):
            return False
        if any(row.op is None and not self.mine(row) for row in rows):
            return False
        try:
            before = self._before(directory)
        except StoreError:
            return False
        if not before:
            return before is not None
        # What was recorded there, nobody wrote and is not there, a sparse checkout leaves out:
        # Git made no directory for it.
        known = set(state.below(self.db, self.worktree, directory))
        return (known | paths_of(rows)).isdisjoint(before)

    def _before(self, directory: RepoPath) -> list[RepoPath] | None:
        """Return what was recorded in a directory before the unit, None where it is unknown."""
        # Without the tree before the unit, nothing proves that the unit created the directory.
        if self.tree is None:
            return None
        entry = self.repo.trees.entry(self.tree, directory)
        if entry is None:
            return []
        if entry[0] != TREE_MODE:
            return None
        inside = self.repo.trees.flat(entry[1])
        return [RepoPath(directory + b"/" + name) for name in inside]


def tree_before(repo: Repo, event: PathChange) -> Oid | None:
    """Return the working tree's tree just before an event, None where it cannot be read."""
    try:
        above = repo.commit(event.commit).parents
        return repo.commit(above[0]).tree if above else None
    except StoreError:
        return None


def tree_at(repo: Repo, db: Db, worktree: str, moment_ns: int) -> Oid | None:
    """Return the working tree's tree at a moment, None where it was not recorded."""
    wanted = EventFilter(worktree=worktree, until_ns=moment_ns, limit=1)
    for row in events.rows(db, wanted):
        if not isinstance(row, Gap):
            try:
                return repo.commit(row.commit).tree
            except StoreError:
                return None
    return None
