"""Walk a worktree, compare it with the recorded state, and read what differs.

The steps of one path: look → verdict → compare stat → read → compare oid.
Invariant: links and other repositories are never entered. One bad path or directory never stops
the rest.
"""

import errno
import os
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from stat import S_ISREG
from typing import NamedTuple

from gitshadow.capture.coverage import (
    FOREIGN,
    RULING,
    UNREADABLE,
    UNTRACKED_DATA,
    Coverage,
    lineage,
)
from gitshadow.capture.states import StateTable
from gitshadow.errors import raise_shortage
from gitshadow.model import Excluded, FileState, Oid, RepoPath, StatKey, git_mode
from gitshadow.store.files import Look, Reading, WorkFiles, is_racy, look_of
from gitshadow.store.journal.state import Looks, States
from gitshadow.store.trees import Entry

_TOP = RepoPath(b"")
# What vanishes during a walk is no failure: its removal is found by comparing.
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@dataclass(slots=True)
class Walk:
    """Collect what a walk found.

    `directories` are those to watch (the top is `b""`), `modes` their permission bits. `excluded`
    are topmost. `data` is the untracked data left out.
    """

    files: Looks = field(default_factory=Looks)
    directories: list[RepoPath] = field(default_factory=list)
    modes: dict[RepoPath, int] = field(default_factory=dict)
    excluded: list[tuple[Excluded, StatKey | None]] = field(default_factory=list)
    data: dict[RepoPath, Excluded] = field(default_factory=dict)
    unreadable: list[tuple[RepoPath, str]] = field(default_factory=list)


Entering = Callable[[Mapping[RepoPath, int]], None]
"""Called with directories and their inodes before these are listed."""


def walk(
    files: WorkFiles,
    coverage: Coverage,
    entering: Entering | None = None,
    directory: RepoPath = _TOP,
) -> Walk:
    """Walk one directory and what is below it, by the rules that are found on the way.

    One that is excluded or gone has no files.
    """
    found = Walk()
    look = files.look(directory)
    if look is None or not look.is_dir:
        return found
    coverage.refresh_submodules()
    barred = coverage.enters(directory) if directory else None
    if barred is not None:
        # It may be inside of what is not covered, as in the `.git` of another repository.
        top = files.look(barred.path)
        found.excluded.append((barred, top and top.stat))
        return found
    stack, inner = [(directory, look)], [(directory, look)]
    while stack:
        if entering is not None and inner:
            entering({path: look.stat.inode for path, look in inner})
        inner = _list(files, coverage, *stack.pop(), found)
        stack.extend(inner)
    return found


def relist(
    files: WorkFiles,
    coverage: Coverage,
    directories: Mapping[RepoPath, Look],
    known: Container[RepoPath],
) -> Walk:
    """List some covered directories, and those in them that are not known with all below."""
    found = Walk()
    coverage.refresh_submodules()
    stack: list[tuple[RepoPath, Look]] = []
    for directory, look in directories.items():
        # That looks at the rules above it first.
        barred = coverage.enters(directory)
        if barred is None:
            stack.append((directory, look))
        else:
            found.excluded.append((replace(barred, path=directory), look.stat))
    while stack:
        inner = _list(files, coverage, *stack.pop(), found)
        stack += [(path, look) for path, look in inner if path not in known]
    return found


def _list(
    files: WorkFiles, coverage: Coverage, directory: RepoPath, own: Look, found: Walk
) -> list[tuple[RepoPath, Look]]:
    """Sort the entries of one directory; return the directories to go into."""
    try:
        entries = dict(files.scan(directory))
    except OSError as error:
        raise_shortage(error)
        if error.errno not in _GONE:
            found.unreadable.append((directory, error.strerror or str(error)))
            found.excluded.append((Excluded(directory, UNREADABLE), own.stat))
        return []
    ruling = {name: look_of(entries[name]) for name in RULING if name in entries}
    barred = coverage.listed(directory, ruling)
    if barred is not None:
        found.excluded.append((barred, own.stat))
        return []
    # Git's own directory, or the file of a linked worktree or submodule in its place.
    entries.pop(b".git", None)
    found.directories.append(directory)
    found.modes[directory] = own.directory_mode
    return _sort(coverage, directory, entries, found)


def _sort(
    coverage: Coverage,
    directory: RepoPath,
    entries: Mapping[bytes, os.stat_result],
    found: Walk,
) -> list[tuple[RepoPath, Look]]:
    """Note the files of one directory; return the directories in it to go into."""
    inner: list[tuple[RepoPath, Look]] = []
    prefix = directory + b"/" if directory else b""
    doubtful, most = (
        coverage.doubtful(directory, entries.keys()),
        coverage.plain_size(directory),
    )
    for name, stat in entries.items():
        path = RepoPath(prefix + name)
        # Most entries are such files, and nothing more is asked or made of them.
        if S_ISREG(stat.st_mode) and name not in doubtful and stat.st_size <= most:
            found.files.note(path, stat)
            continue
        look = look_of(stat)
        if look.is_dir:
            excluded = coverage.enters_listed(path)
            if excluded is None:
                inner.append((path, look))
        else:
            excluded = coverage.verdict(path, look)
            if excluded is None:
                found.files[path] = look
        if excluded is None:
            continue
        if excluded.reason == UNTRACKED_DATA:
            found.data[excluded.path] = excluded
        else:
            found.excluded.append((replace(excluded, path=path), look.stat))
    return inner


Witness = Callable[[Mapping[RepoPath, Look]], Mapping[RepoPath, Oid]]


class Change(NamedTuple):
    """Store one path whose bytes, mode or existence differ from the recorded state.

    `after` is None where the path is gone, with `oid`. Its bytes are empty where it was not read:
    only the mode changed, and nobody may read the file; or its blob is `stored` already.
    """

    path: RepoPath
    before: FileState | None
    after: Reading | None
    oid: Oid | None
    stored: bool = False

    @property
    def entry(self) -> Entry | None:
        """Return what a tree has of the path from now on."""
        if self.after is None or self.oid is None:
            return None
        return git_mode(self.after.mode), self.oid


@dataclass(slots=True)
class ObservedChanges:
    """Collect what a look at some paths found.

    `restat`: same bytes under a new stat. `directories`: paths that are directories. `left`:
    recorded paths that are absent because a sparse checkout leaves them out.
    """

    changes: list[Change] = field(default_factory=list)
    restat: list[tuple[RepoPath, FileState]] = field(default_factory=list)
    excluded: list[tuple[RepoPath, Excluded]] = field(default_factory=list)
    unreadable: list[tuple[RepoPath, str]] = field(default_factory=list)
    directories: list[RepoPath] = field(default_factory=list)
    left: list[RepoPath] = field(default_factory=list)

    def extend(self, other: "ObservedChanges") -> None:
        """Add what a look at other paths found."""
        self.changes += other.changes
        self.restat += other.restat
        self.excluded += other.excluded
        self.unreadable += other.unreadable
        self.directories += other.directories
        self.left += other.left


class Suspects(NamedTuple):
    """Store what a walk makes necessary to read, found gone, or no longer covered."""

    read: list[RepoPath]
    gone: list[RepoPath]
    left_coverage: list[RepoPath]


def suspects(
    found: Walk,
    states: States,
    files: WorkFiles,
    skipped: Iterable[RepoPath] = (),
) -> Suspects:
    """Compare a walk with the recorded states by stat alone.

    What is below an unreadable directory is not judged. A known file that the walk missed
    although it is covered (an editor was just saving it) is read.

    Args:
        found: A walk of the whole worktree.
        states: The recorded states.
        files: To distinguish deleted paths from those that are no longer covered.
        skipped: Paths that a sparse checkout leaves out: they are not deleted.
    """
    # Packed stats are compared without making an object for each of all files.
    looks = found.files.packed()
    read = [path for path, look in looks if not states.stands(path, look)]
    gone: list[RepoPath] = []
    left: list[RepoPath] = []
    sparse = frozenset(skipped)
    uncovered = {item.path for item, _ in found.excluded}
    foreign = {item.path for item, _ in found.excluded if item.reason in FOREIGN}
    unreadable = {path for path, _ in found.unreadable}
    for path in states.keys() - found.files.keys():
        above = lineage(path)
        # What cannot be listed may still be there, and must not count as deleted.
        if not unreadable.isdisjoint(above):
            continue
        # A sparse checkout, or a repository in the directory's place, is no deletion by somebody.
        if path in sparse or not foreign.isdisjoint(above):
            left.append(path)
        elif not _stands(files, path):
            gone.append(path)
        elif uncovered.isdisjoint(above):
            read.append(path)
        else:
            left.append(path)
    return Suspects(sorted(read), sorted(gone), sorted(left))


def observe(
    files: WorkFiles,
    coverage: Coverage,
    states: StateTable | Mapping[RepoPath, FileState],
    paths: Iterable[RepoPath],
    seen_ns: int,
    staged: Witness | None = None,
) -> ObservedChanges:
    """Look at paths and read those that may differ from the recorded state.

    The rules that decide about these paths are looked at first. What vanished below what became
    another repository is left for a walk to judge.

    Args:
        files: The worktree.
        coverage: What is to be recorded.
        states: The recorded states.
        paths: Where to look.
        seen_ns: When this is.
        staged: Returns the blobs of the files, of some, whose bytes the store has already; None:
            all are read.
    """
    wanted = list(paths)
    observer = _Observer(files, coverage, states, seen_ns)
    with files.together():
        # A rule file may have changed in the same batch as the files that it decides about.
        coverage.refresh(wanted)
        looks = {} if staged is None else observer.differing(wanted)
        known = {} if staged is None else staged(looks)
        for path in wanted:
            try:
                if path in known:
                    observer.note(path, looks[path], known[path])
                else:
                    observer.look_at(path)
            except OSError as error:
                raise_shortage(error)
                why = error.strerror or str(error)
                observer.found.unreadable.append((path, why))
    return observer.found


class _Observer:
    """Look at one path after the other."""

    def __init__(
        self,
        files: WorkFiles,
        coverage: Coverage,
        states: StateTable | Mapping[RepoPath, FileState],
        seen_ns: int,
    ) -> None:
        self._files = files
        self._coverage = coverage
        self._states = states
        self._seen_ns = seen_ns
        self._left_out: set[RepoPath] | None = None
        self.found = ObservedChanges()

    def differing(self, paths: Iterable[RepoPath]) -> dict[RepoPath, Look]:
        """Return the files that do not look as recorded, with how they look."""
        found: dict[RepoPath, Look] = {}
        for path in paths:
            look = self._files.glance(path)
            # What has another name may be written by that: a reading notes it.
            if look is None or look.links > 1 or not (look.is_file or look.is_link):
                continue
            if _differs(look, self._states.get(path)):
                found[path] = look
        return found

    def note(self, path: RepoPath, look: Look, oid: Oid) -> None:
        """Note a file whose bytes the store has already."""
        excluded = self._coverage.verdict(path, look)
        if excluded is not None:
            self.found.excluded.append((path, excluded))
            return
        known = self._states.get(path)
        unread = Reading(b"", look.mode, look.stat, is_racy(look.stat, self._seen_ns))
        _compare(Change(path, known, unread, oid, True), self._seen_ns, self.found)

    def look_at(self, path: RepoPath) -> None:
        look = self._files.look(path)
        if look is None:
            self._vanished(path)
        elif look.is_dir:
            self.found.directories.append(path)
            self._gone(path)
        else:
            self._stands(path, look)

    def _stands(self, path: RepoPath, look: Look) -> None:
        excluded = self._coverage.verdict(path, look)
        known = self._states.get(path)
        if excluded is not None:
            self.found.excluded.append((path, excluded))
            if not look.is_file and not look.is_link:
                self._gone(path)
        elif _differs(look, known):
            try:
                reading = self._files.read(path)
            except PermissionError:
                if known is None or not _is_mode_alone(look, known):
                    raise
                # chmod 000: the content is known by its stat, and only the mode has to be recorded.
                unread = Reading(b"", look.mode, look.stat, False)
                change = Change(path, known, unread, known.version.oid)
                _compare(change, self._seen_ns, self.found)
                return
            if reading is None:
                self._gone(path)
                return
            if reading.stat.size != look.stat.size:  # it is being written
                look = look._replace(stat=reading.stat)
                excluded = self._coverage.verdict(path, look)
            if excluded is not None:
                self.found.excluded.append((path, excluded))
            else:
                oid = self._files.format.blob(reading.data)
                change = Change(path, known, reading, oid)
                _compare(change, self._seen_ns, self.found)

    def _vanished(self, path: RepoPath) -> None:
        uncovered = None
        if self._states.get(path) is None:
            uncovered = self._coverage.vanished(path)
        if uncovered is not None:
            self.found.excluded.append((path, uncovered))
        else:
            self._gone(path)

    def _gone(self, path: RepoPath) -> None:
        """Note that no file is there any more, unless its absence says nothing."""
        known = self._states.get(path)
        if known is None:
            return
        # Git removed it when the sparse patterns changed; the index still has it.
        if path in self._skipped():
            self.found.left.append(path)
            return
        above = self._coverage.enters(RepoPath(path.rpartition(b"/")[0]))
        if above is None or above.reason not in FOREIGN:
            self.found.changes.append(Change(path, known, None, None))

    def _skipped(self) -> set[RepoPath]:
        if self._left_out is None:
            self._left_out = self._coverage.left_out()
        return self._left_out


def _stands(files: WorkFiles, path: RepoPath) -> bool:
    """Return whether a file or link is there, or at least that nobody can deny it."""
    try:
        look = files.look(path)
    except OSError:
        return True
    return look is not None and (look.is_file or look.is_link)


def _compare(change: Change, seen_ns: int, found: ObservedChanges) -> None:
    """Note what a path holds, unless that is what is recorded."""
    known, now = change.before, change.after
    if (
        known is None
        or now is None
        or change.oid is None
        or not known.holds(change.oid)
    ):
        found.changes.append(change)
        return
    if known.version.mode != now.mode:
        found.changes.append(change._replace(oid=known.version.oid))
        return
    fresh = replace(known, stat=now.stat, seen_ns=seen_ns, racy=now.racy)
    # A touch without a change costs no row, only a new stat, and that only if it differs.
    if fresh != replace(known, seen_ns=seen_ns):
        found.restat.append((change.path, fresh))


def _is_mode_alone(look: Look, known: FileState) -> bool:
    """Return whether only the permissions of a file changed, as far as its stat shows."""
    # A change of the mode alone makes a state racy by its ctime; a write sets the mtime, too. What
    # nobody might write when it was read, nobody wrote in that tick.
    written = known.stat._replace(ctime_ns=known.stat.mtime_ns)
    racy = known.racy and is_racy(written, known.seen_ns)
    racy = racy and known.version.mode & 0o222 != 0
    return look.is_same_content(known.stat) and not racy


def _differs(look: Look, known: FileState | None) -> bool:
    if known is None or known.racy:
        return True
    return known.stat != look.stat or known.version.mode != look.mode
