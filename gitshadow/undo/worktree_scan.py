"""The survey: what the disk holds at the paths of a plan, and what stands around them.

Invariant: only looks; no link is followed and no unsafe path is asked for.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.model import FileState, FileVersion, Oid, RepoPath
from gitshadow.store.files import Look, WorkFiles
from gitshadow.store.safe_paths import parents, safe_path
from gitshadow.undo.path_plans import Below, World
from gitshadow.undo.report import Reason
from gitshadow.undo.reverse import blob_oid

_UNREAD = Oid("0" * 40)


class PathSources(NamedTuple):
    """Hold whom to ask about a path.

    `state` is what was recorded of it, `uncovered` why it is not covered (None: it is).
    """

    state: Callable[[RepoPath], FileState | None]
    uncovered: Callable[[RepoPath], Reason | None]


def survey(paths: Iterable[RepoPath], files: WorkFiles, known: PathSources) -> World:
    """Look at every path, and at what is in the way above and below it."""
    surveyor = _Surveyor(files, known)
    for path in sorted(set(paths)):
        if safe_path(path):
            surveyor.visit(path)
    return World(
        present=surveyor.present,
        directories=surveyor.directories,
        barriers=frozenset(surveyor.barriers),
        excluded=surveyor.excluded,
    )


def version_at(files: WorkFiles, path: RepoPath) -> FileVersion | None:
    """Read what a file or link holds at this moment; None where there is neither.

    Raises:
        OSError: it stands there but cannot be read.
    """
    reading = files.read(path)
    if reading is None:
        return None
    return FileVersion(blob_oid(reading.data), reading.mode)


@dataclass(slots=True)
class _Surveyor:
    files: WorkFiles
    known: PathSources
    present: dict[RepoPath, FileVersion | None] = field(default_factory=dict)
    directories: dict[RepoPath, Below] = field(default_factory=dict)
    barriers: set[RepoPath] = field(default_factory=set)
    excluded: dict[RepoPath, Reason] = field(default_factory=dict)
    _open: set[RepoPath] = field(default_factory=set)

    def visit(self, path: RepoPath) -> None:
        """Look at one path."""
        reason = self.known.uncovered(path)
        if reason is not None:
            self.excluded[path] = reason
        self.present[path] = None
        if not self._reachable(path):
            return
        look = self.files.look(path)
        if look is None:
            return
        if look.is_dir:
            self.directories[path] = self._below(path)
        elif look.is_file or look.is_link:
            self.present[path] = self._version(path, look)
        else:
            self.barriers.add(path)

    def _reachable(self, path: RepoPath) -> bool:
        """Tell whether the directories above a path exist; note what bars the way."""
        for parent in parents(path):
            if parent in self._open:
                continue
            look = self.files.look(parent)
            if look is None:
                return False
            if not look.is_dir:
                self.barriers.add(parent)
                return False
            self._open.add(parent)
        return True

    def _version(self, path: RepoPath, look: Look) -> FileVersion:
        if path in self.excluded:
            return FileVersion(_UNREAD, look.mode)
        state = self.known.state(path)
        if state is not None and not state.racy and state.stat == look.stat:
            return FileVersion(state.version.oid, look.mode)
        try:
            version = version_at(self.files, path)
        except OSError:
            self.excluded[path] = Reason.IO_ERROR
            return FileVersion(_UNREAD, look.mode)
        return version or FileVersion(_UNREAD, look.mode)

    def _below(self, directory: RepoPath) -> Below:
        inner: set[RepoPath] = set()
        found: set[RepoPath] = set()
        todo = [directory]
        while todo:
            at = todo.pop()
            try:
                entries = self.files.list(at)
            except OSError:
                found.add(at)  # what cannot be listed is not empty
                continue
            for name, look in entries:
                path = RepoPath(at + b"/" + name)
                if look.is_dir:
                    inner.add(path)
                    todo.append(path)
                else:
                    found.add(path)
        return Below(frozenset(found), frozenset(inner))
