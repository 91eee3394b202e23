"""How many bytes of untracked files are recorded, and what is left out when they are too many.

Invariant: sizes are added up before anything is read. What is recorded stays so, but as it grows
it leaves less room for others.
"""

import time
from collections.abc import Callable, Collection

from gitshadow.capture.coverage import UNTRACKED_DATA
from gitshadow.capture.reconcile import Change
from gitshadow.model import RepoPath
from gitshadow.recording.workspace import Workspace

_MANY_BYTES = 4 * 1024 * 1024
"""Fewer bytes of new files since this process began are recorded without adding up the others."""
_COUNTED_NS = 60 * 1_000_000_000


class DataLimit:
    """Hold one worktree to its limit; `gap` journals a gap at a path."""

    def __init__(
        self, workspace: Workspace, gap: Callable[[str, RepoPath], None]
    ) -> None:
        self._ws = workspace
        self._gap = gap
        self._new_bytes = 0
        self._untracked: int | None = None
        self._counted_ns = 0

    def leave_out(self, wanted: Collection[RepoPath]) -> None:
        """Add up the sizes of untracked files, and leave data out before any of it is read."""
        ws, data = self._ws, self._ws.coverage.data
        new = [path for path in wanted if ws.states.get(path) is None]
        if data is None or not new:
            return
        with ws.files.together():
            found = [(path, ws.files.glance(path)) for path in new]
        sizes = {path: look.stat.size for path, look in found if look and look.is_file}
        more = sum(sizes.values())
        # What Git tracks need not be asked for a few files.
        if self._new_bytes + more < min(_MANY_BYTES, data.limit):
            return
        looks = dict(found)
        # An empty one may be about to grow, and what is recorded once stays so.
        untracked = {
            path: max(sizes[path], 1)
            for path in ws.index.untracked(sizes)
            if (look := looks[path]) is not None
            and ws.coverage.verdict(path, look) is None
        }
        recorded = self._recorded(data.limit - sum(untracked.values()))
        for top in data.admit(untracked, recorded):
            self._gap(f"{UNTRACKED_DATA} is not recorded", top)

    def _recorded(self, most: int) -> int:
        """Return how many bytes of untracked files are recorded; over `most`, exactly."""
        ws, now_ns = self._ws, time.monotonic_ns()
        # What is tracked by now is not counted any more.
        is_old = now_ns - self._counted_ns > _COUNTED_NS
        if self._untracked is None or (is_old and self._untracked > most):
            self._counted_ns, states = now_ns, ws.states.all()
            self._untracked = sum(
                states[path].stat.size for path in ws.index.untracked(states)
            )
        return self._untracked

    def add_up(self, changes: Collection[Change]) -> None:
        """Keep up how many bytes of untracked files are recorded: many grow after a first look."""
        sizes = {path: one.stat.size if one else 0 for path, _, one, _, _ in changes}
        more = {
            path: sizes[path] - (before.stat.size if before else 0)
            for path, before, _, _, _ in changes
        }
        self._new_bytes += sum(size for size in more.values() if size > 0)
        if self._ws.coverage.data is not None:
            self._ws.coverage.data.is_now(sizes)
        if self._untracked is not None:
            self._untracked += sum(
                more[path] for path in self._ws.index.untracked(more)
            )
