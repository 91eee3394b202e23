"""Delete what a unit made and nobody stored, where a person asks for it: no redo brings it back.

Invariant: a file goes only if it belongs to untracked data that a call of the unit touched, if it
came to be during such a call, and if it has not changed since.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gitshadow.capture.coverage import UNTRACKED_DATA, Coverage, lineage
from gitshadow.model import Call, RepoPath, Touch
from gitshadow.store.clock import EpochClock
from gitshadow.store.files import Look, WorkFiles
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db
from gitshadow.store.paths import UnsafePathError
from gitshadow.store.refs import display_path
from gitshadow.store.sqlite_files import database_of
from gitshadow.undo.apply import rmdir_quietly
from gitshadow.undo.choose import UnitWindow
from gitshadow.undo.databases import FindDatabases
from gitshadow.undo.report import Action, Item, Reason, State
from gitshadow.undo.report_context import touches_of
from gitshadow.words import byte_size, counted


class Unstored(NamedTuple):
    """Files of one place that is left out, each as it was when it was found.

    `directories` are those above them that came with the units, the lowest first.
    """

    top: RepoPath
    files: Sequence[tuple[RepoPath, Look]]
    directories: Sequence[RepoPath] = ()

    def in_words(self) -> str:
        """Return how much it is: `8 files, 4.0 MiB`."""
        size = sum(look.stat.size for _, look in self.files)
        return f"{counted(len(self.files), 'file')}, {byte_size(size)}"

    def item(self, left: int = 0) -> Item:
        """Return what a report says of its deletion, with how many of its files are left."""
        rest = f"; {counted(left, 'file')} could not be deleted" if left else ""
        return Item(
            path=display_path(self.top),
            action=Action.DELETE if left < len(self.files) else Action.NONE,
            state=State.NOT_REVERSED if left else State.REVERSED,
            reason=Reason.IO_ERROR if left else None,
            detail=f"{self.in_words()}, not stored: no redo brings them back{rest}",
            erased=len(self.files) - left,
        )


@dataclass(frozen=True, slots=True)
class UnstoredFiles:
    """The untracked data of one worktree that nobody stored."""

    files: WorkFiles
    coverage: Coverage
    clock: EpochClock
    databases: FindDatabases

    def made_in(
        self, db: Db, worktree: str, windows: Sequence[UnitWindow]
    ) -> list[Unstored]:
        """Return what units made in their windows, by path."""
        if not self.coverage.data_left_out():
            return []
        calls: dict[RepoPath, set[Call]] = {}
        for window in windows:
            for touch in touches_of(db, worktree, window):
                call = _call_of(db, touch) if touch.why == UNTRACKED_DATA else None
                if call is not None:
                    calls.setdefault(self._top_of(touch.path), set()).add(call)
        found: list[Unstored] = []
        for top, makers in sorted(calls.items()):
            with self.files.together():
                made = [
                    (path, look)
                    for path, look in self._below(top)
                    if self._is_in(makers, look.stat.ctime_ns)
                    and self._is_in(makers, self.files.born_ns(path, look.stat.inode))
                ]
                above = {up for path, _ in made for up in lineage(path)[1:-1]}
                new = [up for up in above if self._is_new(up, windows)]
            if made:
                found.append(Unstored(top, made, sorted(new, reverse=True)))
        return found

    def delete(self, one: Unstored) -> Item:
        """Delete files that are still as they were found; return what became of them."""
        left = 0
        held = self.databases([path for path, _ in one.files])
        with self.files.together():
            for path, then in one.files:
                try:
                    is_held = held.get(database_of(path))
                    if not is_held and self.files.look(path) == then:
                        self.files.unlink(path)
                        continue
                except (OSError, UnsafePathError):
                    pass
                left += 1
            for directory in one.directories:
                rmdir_quietly(self.files, directory)
        return one.item(left)

    def _is_new(self, directory: RepoPath, windows: Sequence[UnitWindow]) -> bool:
        """Return whether a directory came to be while the units were at work."""
        look = self.files.look(directory)
        born_ns = look and self.files.born_ns(directory, look.stat.inode)
        return born_ns is not None and any(one.contains(born_ns) for one in windows)

    def _top_of(self, path: RepoPath) -> RepoPath:
        """Return the place that is left out by now, where a file of it was the first."""
        look = self.files.glance(path)
        return (look and self._data_at(path, look)) or path

    def _below(self, top: RepoPath) -> Iterator[tuple[RepoPath, Look]]:
        """Yield the files that are left out at a place or below it."""
        look, todo = self.files.look(top), [top]
        if look is not None and self._data_at(top, look) == top:
            yield top, look
        while todo:
            directory = todo.pop()
            try:
                entries = self.files.list(directory)
            except (OSError, UnsafePathError):
                continue
            for name, look in entries:
                path = RepoPath(directory + b"/" + name)
                if look.is_dir:
                    todo.append(path)
                elif self._data_at(path, look) == top:
                    yield path, look

    def _data_at(self, path: RepoPath, look: Look) -> RepoPath | None:
        """Return to which untracked data a file belongs that is left out; None: to none."""
        found = self.coverage.verdict(path, look)
        return found.path if found and found.reason == UNTRACKED_DATA else None

    def _is_in(self, calls: Collection[Call], at_ns: int | None) -> bool:
        tolerance_ns = self.clock.tolerance_ns
        return at_ns is not None and any(
            call.contains(at_ns, tolerance_ns) for call in calls
        )


def _call_of(db: Db, touch: Touch) -> Call | None:
    """Return the call that touched a path, None while it runs or where it is not known."""
    if touch.session is None or touch.call is None:
        return None
    call = turns.get_call(db, touch.session, touch.call)
    return call if call is not None and call.closed_ns is not None else None
