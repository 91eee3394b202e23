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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from gitshadow.capture.coverage import NOT_RECORDED, UNREADABLE, UNTRACKED_DATA, lineage
from gitshadow.capture.reconcile import Entering, Walk, relist, suspects, walk
from gitshadow.errors import StoreError, raise_shortage
from gitshadow.model import Excluded, RepoPath, StatKey
from gitshadow.recording.pipeline import Pipeline
from gitshadow.recording.workspace import Workspace
from gitshadow.store import git_index
from gitshadow.store.files import Look, is_racy
from gitshadow.store.journal import meta, state
from gitshadow.store.journal.db import Db

# A path is looked at in 20 microseconds, in a walk of everything in 8.
_MOST_LOOKED_AT = 5_000

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

    def note(self, seen: Mapping[RepoPath, int], *, whole: bool) -> dict[RepoPath, int]:
        """Remember the modes of directories that are there; return the former ones that differ.

        Args:
            seen: Permission bits by path.
            whole: Whether these are all directories of the worktree.
        """
        odd, usual = self._load(), self._usual
        former = {path: odd.get(path, usual) for path in seen}
        if whole and seen:
            self._usual = Counter(seen.values()).most_common(1)[0][0]
        if self._usual is None:
            return {}
        now = {path: mode for path, mode in odd.items() if path not in seen}
        now |= {path: mode for path, mode in seen.items() if mode != self._usual}
        if (now, self._usual) != (odd, usual):
            self._odd = now
            self._store()
        return {
            path: mode
            for path, mode in former.items()
            if mode is not None and mode != seen[path]
        }

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


class _LastWalk(NamedTuple):
    """What a walk leaves for the next process, which then looks only at what may differ since.

    It is valid while `mark` is: the index and the rules are the same. `directories` are those
    that were walked. `doubtful` are the paths whose recorded state may not be what the index
    vouches for: what it has not, and what it did not have as it was.
    """

    mark: str
    began_ns: int
    directories: dict[RepoPath, StatKey]
    doubtful: frozenset[RepoPath]

    def text(self) -> str:
        """Return it as the journal keeps it."""
        directories = {os.fsdecode(path): key for path, key in self.directories.items()}
        doubtful = [os.fsdecode(path) for path in sorted(self.doubtful)]
        return json.dumps([self.mark, self.began_ns, directories, doubtful])

    @classmethod
    def read(cls, text: str) -> "_LastWalk":
        """Return what `text` returned."""
        mark, began_ns, directories, doubtful = json.loads(text)
        looks = {RepoPath(os.fsencode(p)): StatKey(*k) for p, k in directories.items()}
        return cls(
            mark, began_ns, looks, frozenset(RepoPath(os.fsencode(p)) for p in doubtful)
        )


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
        self._last_key = state.LAST_WALK + workspace.layout.worktree

    def settle(self) -> None:
        """Record what differs from the disk where nothing watches it."""
        ws = self._ws
        if ws.coverage.stale():
            ws.coverage.reload()
        mark = self._mark()
        if mark is None:
            self.full()
            return
        last = self._last()
        if last is None or last.mark != mark or not self._look_since(last):
            self._walk_and_remember(mark)

    def full(
        self,
        *,
        offline: bool = False,
        ripe: Ripe | None = None,
        entering: Entering | None = None,
    ) -> list[RepoPath]:
        """Compare everything with the disk, record what differs, return what to watch.

        Args:
            offline: Nothing watched when it was written.
            ripe: Leaves out paths that are being written; its owner looks at them again. None:
                everything is recorded as it is.
            entering: What `walk` calls with directories before it lists them.
        """
        if self._ws.coverage.stale():
            self._ws.coverage.reload()
        # It would not know which rules were in force since.
        self._remember(None)
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
        return found.directories

    def _mark(self) -> str | None:
        """Return what has to be the same for a look at less than all; None for a small worktree."""
        ws = self._ws
        index = None if ws.config.include else ws.index.mark()
        return None if index is None else f"{index} {ws.coverage.mark()}"

    def _last(self) -> _LastWalk | None:
        text = meta.get(self._ws.db, self._last_key)
        try:
            return _LastWalk.read(text) if text else None
        # What another version or a damaged journal has in another form is made again.
        except (ValueError, TypeError, AttributeError):
            return None

    def _remember(self, last: _LastWalk | None) -> None:
        known = self._mark() and meta.get(self._ws.db, self._last_key)
        text = "" if last is None else last.text()
        if (known or "") != text:
            with self._ws.db.write():
                meta.put(self._ws.db, self._last_key, text)

    def _walk_and_remember(self, mark: str) -> None:
        """Walk, and ask Git at the same time what its index vouches for."""
        ws = self._ws
        began = ws.clock.now_ns()
        with (
            ws.git.feed(*git_index.LISTED) as listed,
            ws.git.feed(*git_index.CHANGED) as changed,
        ):
            found = self.full()
            try:
                compared = git_index.compared(listed.answers())
                differing = _paths(changed.answers())
            except StoreError:  # the next process walks, too
                return
        # A file that was changed after this walk began has a later ctime than any in the index, so
        # what has the stat in the index at a later time was the same during the walk. Most builds
        # of Git compare whole seconds only (USE_NSEC in its Makefile).
        is_old = ws.index.is_older(began)
        is_whole = not self._pipeline.missed
        if compared is None or not (is_old and is_whole) or self._mark() != mark:
            return
        looks = self._directory_looks(found)
        directories = {path: look.stat for path, look in looks.items()}
        doubtful = differing | (ws.states.all().keys() - compared)
        self._remember(_LastWalk(mark, began, directories, frozenset(doubtful)))

    def _directory_looks(self, paths: Iterable[RepoPath]) -> dict[RepoPath, Look]:
        """Return how those of some paths look that are directories."""
        with self._ws.files.together():
            found = [(path, self._ws.files.glance(path)) for path in sorted(paths)]
        return {path: look for path, look in found if look is not None and look.is_dir}

    def _look_since(self, last: _LastWalk) -> bool:
        """Record what differs since the last walk; return whether that could be done so.

        The index is the witness: a file that has the stat in it now had it at that walk.
        """
        ws = self._ws
        began = ws.clock.now_ns()
        if began < last.began_ns:  # the clock was set back
            return False
        ws.index.know_no_gitlinks()
        try:
            with ws.git.feed(*git_index.CHANGED) as changed:
                looks = self._directory_looks(last.directories)
                # A directory that changed right after it was listed may have the same stat.
                moved = {
                    path: look
                    for path, look in looks.items()
                    if look.stat != last.directories[path]
                    or is_racy(look.stat, last.began_ns)
                }
                found = relist(ws.files, ws.coverage, moved, last.directories)
                differing = _paths(changed.answers())
        except StoreError:
            return False
        barred = {one.path for one, _ in found.excluded} & last.directories.keys()
        if found.unreadable or barred or self._mark() != last.mark:
            return False
        recent = state.seen_since(ws.db, ws.layout.worktree, last.began_ns)
        wanted = last.doubtful | differing | recent | found.files.keys()
        if len(wanted) > _MOST_LOOKED_AT:
            return False
        # Each of them is read on its own, and not all states for a few.
        ws.states.shed()
        ws.states.fetch(wanted)
        new = {path for path in found.files if ws.states.get(path) is None}
        if not self._record_since(wanted, found):
            return False
        if not self._pipeline.settled(began):
            self._remember(None)
            return True
        ws.recorder.settled(began)
        kept = (one for one in new | recent if ws.states.get(one) is not None)
        doubtful = last.doubtful | differing | set(kept)
        if moved or doubtful != last.doubtful:
            looks |= self._directory_looks(found.directories)
            directories = {path: look.stat for path, look in looks.items()}
            self._remember(_LastWalk(last.mark, began, directories, doubtful))
        return True

    def _record_since(self, wanted: Collection[RepoPath], found: Walk) -> bool:
        """Record what differs at some paths; return whether nothing else can be affected."""
        ws, uncovered = self._ws, self._pipeline.uncovered
        rules = {path for path in wanted if ws.coverage.is_rule_file(path)}
        for path in rules:
            look, known = ws.files.glance(path), ws.states.get(path)
            there = None if look is None else look.stat
            if there != (known and known.stat) or (known and known.racy):
                return False
        if not self._pipeline.look_at_uncovered():
            return False
        self._note_modes(found.modes, whole=False)
        done = self._pipeline.capture(frozenset(wanted) - rules)
        # What was recorded and is not covered any more leaves: a walk knows how.
        if any(ws.states.get(path) is not None for path in done.excluded):
            return False
        known_looks = uncovered.known()
        new = [
            (item, key)
            for item, key in found.excluded
            if key is not None and known_looks.get(item.path) != key
        ]
        self._pipeline.touched([(item.path, item.reason) for item, _ in new])
        looks = {item.path: key for item, key in new}
        uncovered.extend({**looks, **done.unreadable})
        # Why each of them is not recorded, is asked when somebody wants to know it.
        uncovered.walked(Excluded(path, NOT_RECORDED) for path in uncovered.known())
        return True

    def excluded_now(self) -> tuple[Excluded, ...]:
        """Return the topmost paths that are not covered, sorted.

        They are as of the last barrier, without another walk where this process has walked before.
        """
        reasons = self._pipeline.uncovered.reasons
        is_on = self._ws.config.enabled
        if reasons is None or not is_on:
            barred = sorted(
                _barred(walk(self._ws.files, self._ws.coverage)), key=attrgetter("path")
            )
            if is_on:
                self._pipeline.uncovered.walked(barred)
            return tuple(barred)
        with self._ws.files.together():
            found = [self._still_excluded(reasons[path]) for path in sorted(reasons)]
        topmost = {one.path: one for one in found if one is not None}
        self._pipeline.uncovered.walked(topmost.values())
        return tuple(sorted(topmost.values(), key=attrgetter("path")))

    def _still_excluded(self, known: Excluded) -> Excluded | None:
        """Return why a path is not covered, or a directory above it; None if it is, or is gone."""
        coverage, files = self._ws.coverage, self._ws.files
        look = files.glance(known.path)
        if look is None:
            return None
        if known.reason == UNTRACKED_DATA:
            is_out = coverage.data is not None and known.path in coverage.data.tops
            return known if is_out else None
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
        found = walk(self._ws.files, self._ws.coverage, directory=directory)
        self._note_modes(found.modes, whole=False)
        uncovered = self._pipeline.uncovered
        uncovered.saw(item for item, _ in found.excluded)
        uncovered.extend(
            {item.path: key for item, key in found.excluded if key is not None}
        )
        return found

    def look_at_top(self) -> None:
        """Note the mode of the top directory: a watcher hints only at what is in it."""
        top = RepoPath(b"")
        look = self._ws.files.glance(top)
        if look is not None:
            self._note_modes({top: look.directory_mode}, whole=False)

    def _note_modes(self, seen: Mapping[RepoPath, int], *, whole: bool) -> None:
        """Note the modes of directories, before the files in new ones are recorded."""
        former = self.modes.note(seen, whole=whole)
        self._pipeline.touched(
            (path, f"the mode of a directory is not undone; it was {mode:04o}")
            for path, mode in former.items()
            # One that nothing was recorded in is new, whatever had its name before.
            if self._ws.states.below(path)
        )

    def _record(
        self, found: Walk, *, offline: bool = False, ripe: Ripe | None = None
    ) -> _Recorded:
        """Record what differs."""
        ws = self._ws
        self._note_modes(found.modes, whole=True)
        # What is left out from now on was not yet when this walk was made.
        if ws.coverage.data is not None:
            ws.coverage.data.keep(found.data)
        states = ws.states.all()
        doubt = suspects(found, states, ws.files, ws.index.skipped())
        differs: Collection[RepoPath] = [*doubt.read, *doubt.gone]
        wanted = differs if ripe is None else ripe(differs)
        done = self._pipeline.capture(wanted, offline=offline)
        self._note_leaving(doubt.left_coverage)
        self._pipeline.leave(doubt.left_coverage)
        for path, why in found.unreadable:
            self._pipeline.gap(f"could not read it: {why}", path)
        self._note_excluded(found, done.unreadable)
        left_out = not set(differs).issubset(wanted)
        return _Recorded(done.rules_changed, left_out)

    def _note_leaving(self, paths: Iterable[RepoPath]) -> None:
        """Note writes to what is no longer covered, and was recorded before them."""
        ws = self._ws
        for path in paths:
            look, known = ws.files.glance(path), ws.states.get(path)
            if look is None or known is None or look.stat == known.stat:
                continue
            why = ws.coverage.of(path, look, known.stat)
            if why is not None:
                self._pipeline.touched([(path, why.reason)])

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
            why = why or self._pipeline.uncovered.was_not(path, look, known[path])
            moved += [(path, why.reason)] if why is not None else []
        # The first walk of a worktree knows no earlier state to compare with.
        if known:
            self._pipeline.touched(moved)
        self._pipeline.uncovered.walked(_barred(found))
        looks = {path: key for path, (_, key) in now.items() if key is not None}
        self._pipeline.uncovered.replace({**looks, **unreadable})


def _paths(listing: bytes) -> set[RepoPath]:
    return {RepoPath(path) for path in listing.split(b"\0") if path}


def _barred(found: Walk) -> Iterator[Excluded]:
    """Yield what a walk found not to be recorded."""
    yield from (item for item, _ in found.excluded)
    yield from found.data.values()
