"""Walk the whole worktree against the recorded state, and list what the watcher must watch.

The watcher only gives hints and the disk is the truth, so every doubt ends in a walk. A walk also
notes the modes of directories, because Git's trees do not contain them and an undo may recreate a
directory. Only modes that differ from the usual one are stored, also those of removed directories.
Invariant: after a walk the recorded state of every covered path equals the disk as it was read.
Losing the directory modes costs nothing else.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from gitshadow.capture.coverage import UNREADABLE, lineage
from gitshadow.capture.reconcile import Entering, Walk, subwalk, suspects, walk
from gitshadow.errors import raise_shortage
from gitshadow.model import Excluded, RepoPath, StatKey
from gitshadow.recording.pipeline import Pipeline
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db

Ripe = Callable[[Collection[RepoPath]], Collection[RepoPath]]


class DirectoryModes:
    """Remember the permission bits of the directories of one worktree."""

    def __init__(self, db: Db, worktree: str) -> None:
        self._db = db
        self._key = f"directory_modes:{worktree}"
        self._usual: int | None = None
        self._odd: dict[RepoPath, int] | None = None

    def of(self, directory: RepoPath) -> int | None:
        """Return the permission bits that a directory had when last seen, None: not known."""
        return self._load().get(directory, self._usual)

    def note(self, seen: Mapping[RepoPath, int], *, whole: bool) -> None:
        """Remember the modes of directories that are there.

        Args:
            seen: Permission bits by path.
            whole: Whether these are all directories of the worktree.
        """
        odd, usual = self._load(), self._usual
        if whole and seen:
            self._usual = Counter(seen.values()).most_common(1)[0][0]
        if self._usual is None:
            return
        now = {path: mode for path, mode in odd.items() if path not in seen}
        now |= {path: mode for path, mode in seen.items() if mode != self._usual}
        if (now, self._usual) != (odd, usual):
            self._odd = now
            self._store()

    def _load(self) -> dict[RepoPath, int]:
        if self._odd is None:
            text = meta.get(self._db, self._key)
            try:
                kept = json.loads(text or "{}")
                odd = kept.get("odd", {}).items()
                self._odd = {
                    RepoPath(os.fsencode(path)): int(mode) for path, mode in odd
                }
                self._usual = kept.get("usual")
            # The next walk fills what another version or a damaged journal has in another form.
            except (ValueError, TypeError, AttributeError):
                self._odd = {}
        return self._odd

    def _store(self) -> None:
        odd = {os.fsdecode(path): mode for path, mode in self._load().items()}
        text = json.dumps({"usual": self._usual, "odd": odd}, sort_keys=True)
        with self._db.write():
            meta.put(self._db, self._key, text)


class Watched(NamedTuple):
    """Store the directories that a watcher has to watch, and those it can only poll."""

    directories: tuple[RepoPath, ...]
    polled: tuple[RepoPath, ...]


class _Recorded(NamedTuple):
    """Whether coverage rules were recorded, and whether `ripe` left something out."""

    rules_changed: bool
    left_out: bool


class Walker:
    """Walk one workspace."""

    def __init__(self, workspace: Workspace, pipeline: Pipeline) -> None:
        self._ws = workspace
        self._pipeline = pipeline
        self.modes = DirectoryModes(workspace.db, workspace.layout.worktree)

    def full(
        self,
        *,
        offline: bool = False,
        ripe: Ripe | None = None,
        entering: Entering | None = None,
    ) -> Watched:
        """Compare everything with the disk and record what differs.

        Args:
            offline: Nothing watched when it was written.
            ripe: Leaves out paths that are being written; its owner looks at them again. None:
                everything is recorded as it is.
            entering: What `walk` calls with directories before it lists them.
        """
        if self._ws.coverage.stale():
            self._ws.coverage.reload()
        began = self._ws.clock.now_ns()
        found = walk(self._ws.files, self._ws.coverage, entering)
        done = self._record(found, offline=offline, ripe=ripe)
        # An ignore file among the changes decides which other files are recorded.
        if done.rules_changed:
            self._ws.coverage.reload()
            found = walk(self._ws.files, self._ws.coverage, entering)
            done = self._record(found, offline=offline)
        # What was left out is recorded later, with the time at which it was written.
        if not done.left_out and self._pipeline.settled(began):
            self._ws.recorder.settled(began)
        return Watched(tuple(found.directories), tuple(found.polled))

    def recover(self) -> Watched:
        """Read the coverage rules again, and record which paths enter and leave."""
        self._ws.coverage.reload()
        return self.full()

    def excluded_now(self) -> tuple[Excluded, ...]:
        """Return the topmost paths that are not covered, sorted.

        They are as of the last barrier, without another walk where this process has walked before.
        """
        reasons = self._pipeline.uncovered.reasons
        if reasons is None or not self._ws.config.enabled:
            walked = walk(self._ws.files, self._ws.coverage).excluded
            return tuple(sorted((item for item, _ in walked), key=_path))
        with self._ws.files.together():
            found = [self._still_excluded(reasons[path]) for path in sorted(reasons)]
        topmost = {one.path: one for one in found if one is not None}
        self._pipeline.uncovered.walked(topmost.values())
        return tuple(sorted(topmost.values(), key=_path))

    def _still_excluded(self, known: Excluded) -> Excluded | None:
        """Return why a path is not covered, or a directory above it; None if it is, or is gone."""
        coverage, files = self._ws.coverage, self._ws.files
        look = files.glance(known.path)
        if look is None:
            return None
        for above in lineage(known.path)[:-1]:
            barred = coverage.enters_listed(above) if above else None
            if barred is not None:
                return replace(barred, path=above)
        if not look.is_dir:
            why = coverage.verdict(known.path, look)
        else:
            why = coverage.enters_listed(known.path) or self._why_not_listed(known.path)
        return None if why is None else replace(why, path=known.path)

    def _why_not_listed(self, directory: RepoPath) -> Excluded | None:
        """Return why a directory is not covered, by what is in it; None: it is."""
        try:
            entries = dict(self._ws.files.list(directory))
        except OSError as error:
            raise_shortage(error)
            return Excluded(directory, UNREADABLE)
        return self._ws.coverage.listed(directory, entries)

    def below(self, directory: RepoPath) -> Walk:
        """List one directory and what is below it, without recording its files."""
        found = subwalk(self._ws.files, self._ws.coverage, directory)
        self.modes.note(found.modes, whole=False)
        uncovered = self._pipeline.uncovered
        uncovered.saw(item for item, _ in found.excluded)
        uncovered.extend(
            {item.path: key for item, key in found.excluded if key is not None}
        )
        return found

    def _record(
        self, found: Walk, *, offline: bool = False, ripe: Ripe | None = None
    ) -> _Recorded:
        """Record what differs."""
        ws = self._ws
        self.modes.note(found.modes, whole=True)
        states = ws.states.all()
        doubt = suspects(found, states, ws.files, ws.index.skipped())
        differs: Collection[RepoPath] = [*doubt.read, *doubt.gone]
        wanted = differs if ripe is None else ripe(differs)
        done = self._pipeline.capture(wanted, offline=offline)
        self._pipeline.leave(doubt.left_coverage)
        for path, why in found.unreadable:
            self._pipeline.gap(f"could not read it: {why}", path)
        self._note_excluded(found, done.unreadable)
        left_out = not set(differs).issubset(wanted)
        return _Recorded(done.rules_changed, left_out)

    def _note_excluded(
        self, found: Walk, unreadable: Mapping[RepoPath, StatKey]
    ) -> None:
        """Note which uncovered paths changed since the last walk, so that undo can say so."""
        known = self._pipeline.uncovered.known()
        now = {item.path: (item, key) for item, key in found.excluded}
        moved = [
            (path, item.reason)
            for path, (item, key) in now.items()
            if key is not None and known.get(path) != key
        ]
        # What is gone from a place that was not recorded was changed, too. A path that is recorded
        # now has its own row.
        for path in known.keys() - now.keys() - found.files.keys():
            look = self._ws.files.glance(path)
            why = self._ws.coverage.of(path, look, known[path])
            moved += [(path, why.reason)] if why is not None else []
        # The first walk of a worktree knows no earlier state to compare with.
        if known:
            self._pipeline.touched(moved)
        self._pipeline.uncovered.walked(item for item, _ in found.excluded)
        looks = {path: key for path, (_, key) in now.items() if key is not None}
        self._pipeline.uncovered.replace({**looks, **unreadable})


def _path(one: Excluded) -> RepoPath:
    return one.path
