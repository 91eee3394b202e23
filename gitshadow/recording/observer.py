"""The observer: hints become recorded writes, barriers become certainty.

Three clocks with separate jobs: the watcher's step closes a batch, the grace here lets an atomic
save or a rename finish, the hold lets a git command finish that rewrites the tree.
Invariant: every barrier ends with the disk and the journal in agreement.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from gitshadow.capture.commit_plan import STORM_PATHS
from gitshadow.capture.coverage import lineage
from gitshadow.capture.fs_events import (
    GRACE_S,
    TEMPORARY_GRACE_S,
    WRITING_GRACE_S,
    is_being_written,
    is_temporary,
)
from gitshadow.capture.reconcile import Entering
from gitshadow.model import RepoPath
from gitshadow.platform.watching import Hints, WatchPort
from gitshadow.recording.index import HOLD_POLL_S, GitHold, lock_exists
from gitshadow.recording.pipeline import Pipeline
from gitshadow.recording.walker import Walker
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal.events import path_changes, unfolded
from gitshadow.store.spelling import fold_key

_BACKGROUND_WALK_S = 300.0
# A walk of very many files takes seconds: it is made less often, so that it costs 0.03 % at most.
_WALK_SHARE = 3000
_LOOK_S = 0.45
_REMOVAL_S = 2.0
_REMOVAL_STEP_NS = 100_000_000
_UNWATCHED = (
    "this directory was not watched for a while: only the last state of its files"
    " was recorded"
)
_LOST = "the watcher lost events; all files were rescanned"
_UNHEARD = "the watcher missed this change: only the last state was recorded"


class Observer:
    """Observe one workspace, with a watcher or without."""

    def __init__(
        self, workspace: Workspace, pipeline: Pipeline, walker: Walker
    ) -> None:
        self._ws = workspace
        self._pipeline = pipeline
        self._walker = walker
        self._port: WatchPort | None = None
        self._fresh: set[RepoPath] = set()
        self._touched: set[RepoPath] = set()
        self._deferred: dict[RepoPath, float] = {}
        self._held: set[RepoPath] = set()
        self._hold = GitHold(workspace.layout.git_dir, workspace.layout.root)
        self._settle_soon = False
        self._in_doubt = False
        self._next_walk = time.monotonic() + _BACKGROUND_WALK_S
        self._removal_since: float | None = None
        self._captured_at = 0.0
        self._started_ns: int | None = None

    def start(
        self,
        port: WatchPort,
        first: Callable[[Entering], Sequence[RepoPath]] | None = None,
    ) -> None:
        """Begin to watch; what changed since the last process is recorded as offline.

        Args:
            port: What watches.
            first: Walks in place of the walker, in a worktree of which nothing is recorded.
        """
        self._port = port
        port.follow(self._pipeline.processes.activity)
        found: Sequence[RepoPath]
        if first is not None:
            found = first(port.enter)
        else:
            found = self._walker.full(offline=True, entering=port.enter)
        port.replace(found)
        self._started_ns = self._ws.clock.now_ns()

    @property
    def watching(self) -> bool:
        """Return whether a watcher hints: this is the daemon."""
        return self._port is not None

    @property
    def pid(self) -> int | None:
        """Return the daemon's pid, None without one."""
        return os.getpid() if self._port is not None else None

    @property
    def started_ns(self) -> int | None:
        """Return since when the watcher hints, None without one."""
        return self._started_ns

    @property
    def degraded(self) -> str | None:
        """Return what the watcher cannot do, None where it can do all."""
        return self._port.degraded() if self._port is not None else None

    def hints(self, hints: Hints) -> None:
        """Record what was hinted, but for names that an unfinished save may explain."""
        with self._noticing():
            self._note(hints)
            if self._holds(hints):
                return
            if hints.lost:
                self._rewalk(patient=True)
                return
            with self._ws.files.together():
                ripe = self._ripe(self._hinted(hints), hints.finished)
                self._capture(ripe, patient=True)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Mark that the next barrier has to look at everything if the block fails."""
        # What the block took from the watcher, or from the deferred paths, is in no list any more.
        try:
            yield
        except BaseException:
            self._in_doubt = True
            self._pipeline.processes.activity.lost()
            raise

    def _barrier(self, port: WatchPort) -> Hints:
        """Return what came before now."""
        hints = port.barrier()
        self._note(hints)
        return hints

    def _note(self, hints: Hints) -> None:
        """Remember what hints say beyond paths: saves of editors, and events that are lost."""
        self._ws.traces.note(hints.paths)
        if hints.overflow:
            self._pipeline.gap(_LOST)

    def _hinted(self, hints: Hints) -> set[RepoPath]:
        """Return the paths to look at, and remember which of them are watched directories."""
        if self._port is not None:
            self._touched |= self._port.watching(hints.paths)
        return self._ws.spellings.every(hints.paths)

    def _holds(self, hints: Hints) -> bool:
        """Defer hints while a git command rewrites the tree; return whether they wait."""
        # A checkout of thousands of files is itself what makes a watcher lose events, so lost
        # events count as a sign of it while the index is locked.
        locked = hints.lost and lock_exists(self._ws.layout.git_dir)
        if not (hints.git_dir or locked or self._hold.is_on):
            return False
        if hints.git_dir:
            self._hold.note(head_moved=hints.head_moved)
        self._look_at_git()
        if not self._hold.is_on:
            return False
        self._held |= self._hinted(hints)
        self._in_doubt |= hints.lost
        return True

    @property
    def holds(self) -> bool:
        """Return whether to wait until a git command is over."""
        return self._hold.is_on

    def due(self) -> float | None:
        """Return the monotonic time of the next deferred work, None where there is none."""
        times = list(self._deferred.values())
        if self._hold.is_on:
            times.append(time.monotonic() + HOLD_POLL_S)
        return min(times) if times else None

    def tick(self) -> None:
        """Do deferred work that is due, and now and then a walk in the background."""
        if self._settle_soon:
            self._settle_soon = False
            self.settle()
        now = time.monotonic()
        if self._hold.is_on:
            self._look_at_git()
            if self._hold.is_on:
                return
        due = [path for path, at in self._deferred.items() if at <= now]
        ready = {path for path in due if not self._still_empty(path, now)}
        ready = self._wait_for_removal(ready, now)
        with self._noticing():
            for path in ready:
                del self._deferred[path]
            # An empty capture has a use: HEAD moves, and sessions die, without a hint.
            if ready or now - self._captured_at >= _LOOK_S:
                self._capture(self._with_new_names(ready))
        if now >= self._next_walk:
            self._look_around()

    def _ripe(
        self, paths: Iterable[RepoPath], finished: Collection[RepoPath] = ()
    ) -> set[RepoPath]:
        """Defer for a moment what an unfinished save may explain; return the rest."""
        # A deferred path is judged again at each hint, because another directory may be there now,
        # which has to be watched at once. Its first deadline stays: a file that is written all the
        # time would never be recorded otherwise.
        now = time.monotonic()
        ripe: set[RepoPath] = set()
        for path in paths:
            grace_s = self._grace_s(path, is_finished=path in finished)
            if grace_s is None:
                self._deferred.pop(path, None)
                ripe.add(path)
            else:
                self._deferred.setdefault(path, now + grace_s)
        return ripe

    def _grace_s(self, path: RepoPath, *, is_finished: bool) -> float | None:
        """Return how long a path may wait, None where nothing explains a wait."""
        states, look = self._ws.states, self._ws.files.glance(path)
        known = states.get(path) is not None
        if look is None and (known or states.below(path)):
            return GRACE_S
        if not known and is_temporary(path):
            return TEMPORARY_GRACE_S
        if look is None or is_finished:
            return None
        if look.is_file and is_being_written(look, time.time_ns()):
            return WRITING_GRACE_S
        return None

    def _ripe_with_ends(self, paths: Iterable[RepoPath]) -> set[RepoPath]:
        """Return what is ripe, with the old names of renamed files, which are not."""
        ripe = self._ripe(paths)
        return ripe | self._other_ends(ripe)

    def _still_empty(self, path: RepoPath, now: float) -> bool:
        """Defer a file again that was opened for writing and has no bytes yet."""
        look = self._ws.files.glance(path)
        if look is None or not look.is_file or look.stat.size:
            return False
        if not is_being_written(look, time.time_ns()):
            return False
        self._deferred[path] = now + WRITING_GRACE_S
        return True

    def _wait_for_removal(self, ready: set[RepoPath], now: float) -> set[RepoPath]:
        """Return what is ready; deletions wait if the repository itself may be going."""
        # An object that is written during `rm -rf` makes it fail: its directory is not empty.
        gone = {path for path in ready if self._ws.files.glance(path) is None}
        if not gone or not self._is_being_removed():
            self._removal_since = None
            return ready
        self._removal_since = self._removal_since or now
        if now - self._removal_since >= _REMOVAL_S:
            return ready
        self._deferred.update(dict.fromkeys(gone, now + GRACE_S))
        return ready - gone

    def _is_being_removed(self) -> bool:
        """Return whether no recorded file is left, or Git's directories lose entries just now."""
        top = self._ws.states.within(RepoPath(b""))
        if not any(self._ws.files.glance(path) for path in top):
            return True
        common_dir = self._ws.layout.common_dir
        places = (common_dir, f"{common_dir}/objects", f"{common_dir}/refs")
        try:
            newest_ns = max(os.stat(place).st_mtime_ns for place in places)
        except OSError:
            return True
        return time.time_ns() - newest_ns < _REMOVAL_STEP_NS

    def _look_at_git(self) -> None:
        if self._hold.look():
            self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, set()
        self._hold.end()
        if self._in_doubt:
            self._rewalk()
        else:
            self._capture(held)

    def settle(self) -> None:
        """Make everything written before this call visible in the journal."""
        if not self._ws.config.enabled:
            return
        # A hook that is processed in the middle of a batch must see directories as they are now.
        self._ws.files.doubt()
        self._hold.wait()
        if self._port is None:
            self._walker.settle()
            return
        self._pipeline.processes.begin_barrier()
        began = self._ws.clock.now_ns()
        with self._noticing():
            hints = self._barrier(self._port)
            if hints.lost or self._in_doubt:
                self._rewalk()
                return
            waiting = self._hinted(hints) | self._deferred.keys() | self._held
            waiting |= self._pipeline.missed.keys()
            self._deferred.clear()
            self._held.clear()
            self._capture(waiting | self._relist())
            self._pipeline.look_at_uncovered()
            self._walker.look_at_top()
            if self._ws.coverage.stale():
                self._rewalk()
                return
            self._prove_watches()
            self._pipeline.settled(began)

    def settle_soon(self) -> None:
        """Settle at the next tick: what is written later must not look as old as this."""
        self._settle_soon = True

    def settle_call(self) -> None:
        """Settle before the end of a call is answered: what is written later is not the call's."""
        # A git command that goes on after its call must not keep the agent waiting. Without a
        # watcher there is no next tick.
        is_held = self._hold.is_on or lock_exists(self._ws.layout.git_dir)
        if self.watching and is_held:
            self.settle_soon()
        else:
            self.settle()

    def _relist(self) -> set[RepoPath]:
        """List the directories again that were first seen since the last barrier."""
        # What was written before a new directory had its watch came without a hint.
        fresh, self._fresh = self._fresh, set()
        tops = [
            path for path in fresh if not path or path.rpartition(b"/")[0] not in fresh
        ]
        self._touched |= fresh
        return {path for top in tops for path in self._walker.below(top).files}

    def _prove_watches(self) -> None:
        """Enter directories again that were replaced, whose watch is on the old one."""
        # The directory above hints at each one that is replaced, so those that were hinted or
        # entered since the last barrier are enough; `_look_around` looks at all of them.
        touched, self._touched = self._touched, set()
        strays = self._port.unwatched(touched) if self._port is not None else None
        if self._port is None or not strays:
            return
        # They may have been replaced just now: then their hint is on its way.
        hints = self._barrier(self._port)
        if hints.lost:
            self._rewalk()
            return
        self._capture(self._hinted(hints))
        self._miss_directories(self._port.unwatched(strays))

    def store(self, paths: Collection[RepoPath]) -> None:
        """Record these paths now, without waiting for the watcher."""
        if not self._ws.config.enabled:
            return
        self._ws.files.doubt()
        wanted = self._ws.spellings.every(paths)
        for path in wanted:
            self._deferred.pop(path, None)
        self._capture(wanted)

    def _rewalk(self, *, patient: bool = False) -> None:
        self._deferred.clear()
        self._held.clear()
        self._fresh.clear()
        self._touched.clear()
        self._hold.end()
        self._next_walk = time.monotonic() + _BACKGROUND_WALK_S
        with self._noticing():
            ripe = self._ripe_with_ends if patient else None
            entering = self._port.enter if self._port is not None else None
            found = self._walker.full(ripe=ripe, entering=entering)
            self._watch(found)
        self._in_doubt = False

    def _watch(self, found: Sequence[RepoPath]) -> None:
        if self._port is not None:
            self._port.replace(found)

    def _look_around(self) -> None:
        """Walk now and then; what the watcher should have reported is a gap as well."""
        self.settle()
        began = time.monotonic()
        self._next_walk = began + _BACKGROUND_WALK_S
        suspected: set[RepoPath] = set()

        def keep(paths: Collection[RepoPath]) -> Collection[RepoPath]:
            suspected.update(paths)
            return ()

        found = self._walker.full(ripe=keep)
        took_s = time.monotonic() - began
        self._next_walk = max(self._next_walk, began + _WALK_SHARE * took_s)
        if self._port is None:
            self._capture(suspected)
            return
        strays = self._port.unwatched(found)
        with self._noticing():
            hints = self._barrier(self._port)
            if hints.lost:
                self._rewalk(patient=True)
                return
            heard = self._hinted(hints)
            self._watch(found)
            strays = {path for path in strays if not _is_under(path, heard)}
            self._miss_directories(strays)
            self._miss_files({path for path in suspected if not _is_under(path, heard)})
            self._capture(self._ripe(heard), patient=True)

    def _miss_directories(self, directories: Collection[RepoPath]) -> None:
        """Record what covered directories hold that nobody watched, with a gap for each."""
        enters = self._ws.coverage.enters
        missed = {path for path in directories if not path or enters(path) is None}
        for path in sorted(missed):
            self._pipeline.gap(_UNWATCHED, path or None)
        if missed:
            self._capture(missed)

    def _miss_files(self, paths: Collection[RepoPath]) -> None:
        """Record changes that no hint came for, and say so for each that there was."""
        done = self._pipeline.capture(paths)
        recorded = path_changes(unfolded(self._ws.db, done.events))
        missed = sorted({event.path for event in recorded} & set(paths))
        for path in missed[:STORM_PATHS]:
            self._pipeline.gap(_UNHEARD, path)
        if len(missed) > STORM_PATHS:
            self._pipeline.gap(f"{_UNHEARD} ({len(missed)} files in all)")

    def _capture(self, paths: Collection[RepoPath], *, patient: bool = False) -> None:
        """Record paths; with `patient`, files in new directories may be finished first."""
        # Rule files outside the worktree, and settings, change without a hint.
        if self._ws.coverage.stale():
            self._rewalk(patient=patient)
            return
        with self._noticing():
            fresh = self._unfold(paths, patient=patient)
            wanted = set(fresh)
            while ends := self._other_ends(fresh):
                fresh = self._unfold(ends, patient=patient) - wanted
                wanted |= fresh
            done = self._pipeline.capture(wanted)
            rules = any(self._ws.coverage.is_rule_file(path) for path in paths)
            if done.rules_changed or rules:
                # They decide which paths enter and leave.
                self._ws.coverage.reload()
                self._watch(self._walker.full())
        self._captured_at = time.monotonic()

    def _unfold(self, paths: Collection[RepoPath], *, patient: bool) -> set[RepoPath]:
        """Return the files that paths name; directories among them are then watched."""
        with self._ws.files.together():
            looks = {path: self._ws.files.glance(path) for path in sorted(paths)}
        roots = [path for path, look in looks.items() if look and look.is_dir]
        known = {root for root in roots if self._ws.states.get(root) is not None}
        wanted = set(paths) - set(roots) | known
        if roots:
            found = self._enter(roots)
            # Another directory may be where a known one was: its files are gone.
            for root in roots:
                found.update(self._ws.states.below(root))
            found -= wanted
            wanted |= self._ripe(found) if patient else found
        return wanted

    def _other_ends(self, paths: Collection[RepoPath]) -> set[RepoPath]:
        """Return deferred paths that turn out to be the old names of new ones."""
        if not self._deferred:
            return set()
        # If a directory was deferred, its files come too: another directory may have its name by
        # now, and must not hide that they are gone.
        states, files = self._ws.states, self._ws.files
        new = [path for path in paths if states.get(path) is None]
        looks = map(files.glance, new)
        inodes = {look.stat.inode for look in looks if look is not None}
        # A file that another one replaced by a new spelling of its name.
        keys = set(map(fold_key, new)) if files.folds else set()
        found: set[RepoPath] = set()
        for path in list(self._deferred) if inodes else ():
            olds = [path] if states.get(path) is not None else states.below(path)
            known = (states.get(old) for old in olds)
            if fold_key(path) in keys or any(
                one is not None and one.stat.inode in inodes for one in known
            ):
                del self._deferred[path]
                found.update((path, *olds))
        return found

    def _with_new_names(self, paths: set[RepoPath]) -> set[RepoPath]:
        """Add what came before some paths were found gone: it may be their files' new names."""
        # A rename is seen in two directories, whose events need not come together. One that is
        # recorded in two halves would be a deletion and a creation.
        inodes = self._gone(paths)
        if self._port is None or not inodes:
            return paths
        hints = self._barrier(self._port)
        if hints.lost:
            self._rewalk()
            return set()
        if self._holds(hints):
            self._held |= paths
            return set()
        came = self._hinted(hints) | self._relist()
        near = came | self._deferred.keys()
        new = {path for path in near if self._is_one_of(path, inodes)}
        for path in new:
            self._deferred.pop(path, None)
        return paths | new | self._ripe(came - new)

    def _gone(self, paths: Iterable[RepoPath]) -> set[int]:
        """Return the inodes of the known files among some paths that are gone."""
        states = self._ws.states
        gone = [path for path in paths if self._ws.files.glance(path) is None]
        known = [
            states.get(one) for path in gone for one in (path, *states.below(path))
        ]
        return {state.stat.inode for state in known if state is not None}

    def _is_one_of(self, path: RepoPath, inodes: Collection[int]) -> bool:
        """Return whether a path that is not known yet leads to one of some files."""
        look = self._ws.files.glance(path)
        if look is None or self._ws.states.get(path) is not None:
            return False
        return look.stat.inode in inodes

    def _enter(self, directories: Iterable[RepoPath]) -> set[RepoPath]:
        """Watch directories first and list them then, until no new one turns up."""
        roots = list(directories)
        files: set[RepoPath] = set()
        known: set[RepoPath] = set()
        frontier = set(roots)
        while frontier:
            if self._port is not None:
                self._port.add(frontier)
            known |= frontier
            listed = [self._walker.below(root) for root in roots]
            for path, why in (one for found in listed for one in found.unreadable):
                self._pipeline.gap(f"could not read it: {why}", path)
            files.update(*(found.files for found in listed))
            frontier = {path for found in listed for path in found.directories} - known
        self._fresh |= known
        return files


def _is_under(path: RepoPath, tops: set[RepoPath]) -> bool:
    """Return whether a path or a directory above it is among some."""
    return not tops.isdisjoint(lineage(path))


class StillObserver(Observer):
    """The observer of another machine's journal: it does not look at the disk."""

    def settle(self) -> None:
        """Do nothing."""
        # What another machine recorded has no working tree here: a walk would record the
        # differences of ours as its changes.
