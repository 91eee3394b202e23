"""What a unit changed in a submodule or a nested repository, which is never recorded with this one.

Invariant: only file times are looked at, and no link is followed. A change at the time of the unit
is named as that, not as the unit's.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from stat import S_ISDIR
from typing import NamedTuple

from gitshadow.messages.undo import Uncovered
from gitshadow.model import RepoPath
from gitshadow.store.layout import discover
from gitshadow.store.refs import display_path
from gitshadow.undo.choose import UnitWindow

_MOST_ENTRIES = 20_000
"""So many entries of each repository are looked at: about a third of a second."""
_SHOWN = 3


class InnerRepository(NamedTuple):
    """A repository below a worktree; `kind` is the reason for which it is not recorded."""

    root: bytes
    path: RepoPath
    kind: str

    def holds(self, path: RepoPath) -> bool:
        """Return whether a path of the worktree is this repository or in it."""
        return path == self.path or path.startswith(self.path + b"/")

    def changed(
        self, windows: Sequence[UnitWindow], touched: Sequence[RepoPath] = ()
    ) -> Uncovered | None:
        """Return what was changed in it, and what undoes that; None for nothing.

        Args:
            windows: When the unit was at work.
            touched: Paths of the worktree in it that were noticed then: a deleted file has no time.
        """
        held = {
            path
            for path, at_ns in islice(self._times(), _MOST_ENTRIES)
            if any(one.contains(at_ns) for one in windows)
        }
        inside = (path[len(self.path) + 1 :] for path in touched)
        found = sorted(held.union(RepoPath(path) for path in inside if path))
        if not found:
            return self._named(self._advice()) if touched else None
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        shown = ", ".join(map(display_path, found[:_SHOWN])) + more
        return self._named(f"{shown} changed then; {self._advice()}")

    def _named(self, hint: str) -> Uncovered:
        shown = display_path(self.path)
        return Uncovered(shown, self.kind, shown, hint)

    def _advice(self) -> str:
        place = os.path.join(os.fsdecode(self.root), os.fsdecode(self.path))
        layout = discover(place)
        where = f"git -C {shlex.quote(os.fsdecode(self.path))} agent-undo"
        if layout is not None and layout.initialised:
            return f"to undo it there: {where} oops"
        return f"to record it from now on: {where} init"

    def _times(self) -> Iterator[tuple[RepoPath, int]]:
        """Yield the files in it, by paths in it, with the times of their last changes."""
        todo = [b""]
        while todo:
            directory = todo.pop()
            try:
                entries = list(
                    os.scandir(os.path.join(self.root, self.path, directory))
                )
            except OSError:
                continue
            for entry in entries:
                path = os.path.join(directory, entry.name)
                # Git writes there whatever it does, also where it only looks.
                if entry.name == b".git":
                    continue
                try:
                    stat = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if S_ISDIR(stat.st_mode):
                    todo.append(path)
                else:
                    yield RepoPath(path), stat.st_ctime_ns
