"""Find the calls and turns whose processes cannot have made a change.

They slept, or wrote fewer bytes than it needs. The kernel counts how often each process was given a
processor, and how many bytes it wrote; a parent inherits the bytes of the children that it waits
for. The watcher's thread looks at these counts when it reads events, so the looks before and after
a change are some milliseconds apart. Where the kernel counts nothing, nothing is concluded.
Invariant: only exclusion may be drawn from the counts, and what is not known excludes nobody.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gitshadow.attribution.native_ids import ProcessMarks, is_command
from gitshadow.attribution.process import Living, ProcessId, process_of
from gitshadow.attribution.process_evidence import Did, ProcessLook, ProcessTree
from gitshadow.attribution.windows import Scene
from gitshadow.capture.drafts import Draft
from gitshadow.errors import StoreError
from gitshadow.model import EventKind, RepoPath, Session, ToolClass
from gitshadow.platform import current
from gitshadow.platform.port import Counts, FileSystem, ProcessCounters
from gitshadow.recording.workspace import Workspace
from gitshadow.store.clock import EpochClock

_PAGE = 4096
_MOST_BYTES = 4 * 1024 * 1024
_MOST_MOMENTS = 8192
_MOST_MADE = 1000
_File = tuple[int, int]
_CallOrTurn = tuple[str, str]
_WRITES = (EventKind.CREATE, EventKind.MODIFY)
# Looks take a fifth of the time at most while files are finished one after the other, and a five
# hundredth while nothing happens.
_SOON_SHARE = 4
_LATE_SHARE = 500
_LATE_S = 0.02


class EventLooks(NamedTuple):
    """Between which looks a path changed since it was last recorded, by their numbers.

    Every change was hinted at after the look `before`, and before the look `after` began. `before`
    is None if events may be missing, `after` if the last change may not be over.
    """

    before: int | None
    after: int | None


class _Moment(NamedTuple):
    """When a change was made: after the look `before`, and before the look `after` began.

    `born_ns`: when a new file was made, which may have got its path later. `ctime_ns`: the stamp of
    the change, or when it was noticed; 0 if the look `after` is known to have begun after it.
    """

    before: int
    after: int
    born_ns: int | None
    ctime_ns: int


class Needed(NamedTuple):
    """What has to be written at least to make a change: bytes, and bytes of clean pages."""

    written: int = 0
    dirtied: int = 0

    def is_more_than(self, most: Counts | None) -> bool:
        """Return whether processes that wrote no more than this cannot have made the change."""
        if most is None:
            return False
        # Where enough bytes made no page dirty, they went to terminals, pipes and sockets.
        return most.written < self.written or most.dirtied < self.dirtied


def bytes_needed(old: bytes, new: bytes) -> int:
    """Return how many bytes have to be written at least to make a content of another one."""
    now = new[:_MOST_BYTES]
    before = old[:_MOST_BYTES].ljust(len(now), b"\0")[: len(now)]
    differs = int.from_bytes(before) ^ int.from_bytes(now)
    differing = len(now) - differs.to_bytes(len(now)).count(0)
    # Zeros need no write: a file can have holes, and be truncated and made longer again.
    return max(0, differing - now.count(0))


# An event is in the kernel's queue before the system call returns that made it. So where the queue
# was read to its end without an event of a path, a look that was over before that reading came
# before all calls that changed the path later returned. A call counts its bytes after its event.
class AgentActivity:
    """What the processes of agents did around each change in one worktree.

    Looks are numbered: `begun` is the last one that has begun, `done` the last one that is over.
    Any thread may look. The watcher's thread does when something was finished, and now and then;
    `on_start` wakes it. `is_on` says whether it notes events, and `taken` are the events of what is
    being judged. `trees` are the agents whose processes are looked at; there are none where the
    kernel counts nothing.
    """

    def __init__(
        self,
        workspace: Workspace,
        marks: ProcessMarks,
        clock: EpochClock | None = None,
        counters: ProcessCounters | None = None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ws = workspace
        self._marks = marks
        self._clock = clock or workspace.clock
        self._counters = counters or current().process_facts().counters()
        self._seconds = seconds
        self._top = os.fsencode(workspace.layout.root)
        self.trees: dict[ProcessId, ProcessTree] = {}
        self._looking = threading.RLock()
        self.begun = self.done = 0
        # What the watcher reads; `_lock` is never kept for long.
        self._lock = threading.Lock()
        self._events: dict[RepoPath, EventLooks] = {}
        self._mark: int | None = None
        self.is_on = self._is_whole = self._is_finished = False
        self._soon_s = self._late_s = 0.0
        self.on_start: Callable[[], None] = lambda: None
        self.taken: dict[RepoPath, EventLooks] = {}
        self._is_current = False  # whether a look came after what is being judged
        # Where each was made last, and who did not do it.
        self._made: dict[
            _File | None, tuple[RepoPath, frozenset[_CallOrTurn] | None]
        ] = {}
        self._barrier = 0
        self._settled = 0, 0
        self._file_systems: dict[int, FileSystem] = {}

    # Whose processes are looked at

    def watch(self, process: ProcessId | None, *, adopts: bool = False) -> bool:
        """Look at a process and those below it from now on; return whether that is new.

        It is an agent's, or that of `exec`, which `adopts` every orphan below it.
        """
        counters = self._counters
        if process is None or counters is None or not self._ws.config.ledger:
            return False
        with self._looking:
            if process in self.trees:
                return False
            ours = self._ws.own_bytes.below
            self.trees[process] = ProcessTree(process, counters, ours, adopts=adopts)
            return True

    def adopt(self, agents: Iterable[Session], living: Iterable[Living]) -> None:
        """Look at processes of agents' sessions, too, that are not below the agents any more."""
        roots = {one.id: process_of(one) for one in agents}
        with self._looking:
            for process in living:
                for root in map(roots.get, process.sessions):
                    tree = None if root is None else self.trees.get(root)
                    if tree is not None and process.id not in (root, *tree.known):
                        tree.known = (*tree.known, process.id)

    def close(self) -> None:
        """Look at nothing any more."""
        if self._counters is not None:
            self._counters.keep(())

    # What is recorded

    def begin_barrier(self, agents: Iterable[ProcessId]) -> None:
        """Look at what the processes of agents did before a barrier."""
        if not self._ws.config.ledger:
            return
        for agent in agents:
            self.watch(agent)
        if self.trees:
            self._start()
            self._look()
            self._barrier = self.done

    def settled(self, began_ns: int) -> None:
        """Note that all is recorded that was written before a barrier began."""
        self._settled = began_ns, self._barrier
        # The next file system that is mounted may have the number of one that is gone.
        self._file_systems.clear()
        with self._lock:
            self._is_whole = self.is_on

    def take(self, paths: Iterable[RepoPath]) -> None:
        """Note which paths are going to be read, recorded and judged."""
        self._is_current = False
        with self._lock:
            pop = self._events.pop
            self.taken = {path: one for path in paths if (one := pop(path, None))}

    def spoil(self, paths: Iterable[RepoPath]) -> None:
        """Note that paths were not recorded though they may have changed."""
        with self._lock:
            if self.is_on:
                self._events.update(dict.fromkeys(paths, EventLooks(None, None)))

    # What the watcher reports

    def stop(self) -> None:
        """Forget all events, and note none; a look under way is over when this returns."""
        with self._looking:
            self.lost()

    def lost(self) -> None:
        """Note that events are missing, which have to be found by a walk."""
        with self._lock:
            self._forget()

    def begin(self) -> int:
        """Return a mark; to be called before the queue is read to its end."""
        return self.done

    def see(self, path: RepoPath, *, is_finished: bool) -> None:
        """Note an event of a path."""
        with self._lock:
            if not self.is_on:
                return
            known = self._events.get(path)
            now = self._mark if self._is_whole else None
            before = now if known is None else known.before
            after = self.begun + 1 if is_finished else None
            self._events[path] = EventLooks(before, after)
            self._is_finished |= is_finished
            if len(self._events) > _MOST_MOMENTS:
                self._forget()

    def end(self, mark: int) -> None:
        """Note that the queue was read to its end."""
        with self._lock:
            self._mark = mark if self.is_on else None

    def due(self) -> float | None:
        """Return when the next look is due, None where none is."""
        if not self.is_on:
            return None
        return self._soon_s if self._is_finished else self._late_s

    def look(self) -> bool:
        """Look if it is due; return whether it was. The queue is to be read after that."""
        with self._looking:
            due, began = self.due(), self._seconds()
            if due is None or began < due:
                return False
            self._is_finished = False
            self._look()
            now = self._seconds()
            self._soon_s = now + _SOON_SHARE * (now - began)
            self._late_s = now + max(_LATE_S, _LATE_SHARE * (now - began))
            return True

    def _start(self) -> None:
        """Note events from now on; `settled` says when nothing from before is missing."""
        with self._lock:
            was_on, self.is_on = self.is_on, True
        if not was_on:
            self.on_start()

    def _forget(self) -> None:
        self.is_on = self._is_whole = False
        self._mark = None
        self._events.clear()

    def _look(self) -> None:
        """Look at what all agents did so far; those that are gone are forgotten."""
        with self._looking:
            if not self.trees or self._counters is None:
                return
            self.begun += 1
            for tree in list(self.trees.values()):
                if not tree.look(self.begun, self._clock):
                    del self.trees[tree.root]
            known = (one.pid for tree in self.trees.values() for one in tree.known)
            self._counters.keep((*known, *(root.pid for root in self.trees)))
            self.done = self.begun

    # Who did not do it

    def excluded(self, draft: Draft, scene: Scene) -> frozenset[_CallOrTurn]:
        """Return the calls and turns, by session and id, that cannot have made a change."""
        # Without a daemon the process of `exec` judges at its end, and looked at nothing before.
        for call in scene.windows:
            if _wraps(scene.session(call.session)):
                self.watch(process_of(call), adopts=True)
        if not (self._ws.config.ledger and self.trees):
            return frozenset()
        made = _file_of(draft)
        if draft.kind is EventKind.DELETE and made in self._made:
            # A save by rename: its temporary file, which is deleted next, is the same file.
            path, excluded = self._made[made]
            if path != draft.path and excluded is not None:
                return excluded
        moment = self._moment(draft)
        with self._looking:
            if not all(self._last(tree, moment) for tree in self.trees.values()):
                if not self._is_current:
                    self._look()
                    self._is_current = True
                # All that is recorded now was read before that look.
                moment = moment._replace(after=self.done, ctime_ns=0)
            done: dict[ProcessId | None, Did] = {
                root: tree.did(self._first(tree, moment), self._last(tree, moment))
                for root, tree in self.trees.items()
            }
        found = self._ruled_out(scene, done, self._needed(draft, moment))
        if moment.born_ns is not None and made is not None:
            while len(self._made) >= _MOST_MADE:
                del self._made[next(iter(self._made))]
            # Of a file that has another name still, nobody knows who will delete that one.
            is_moved = self._has_one_name(draft.path)
            self._made[made] = draft.path, found if is_moved else None
        return found

    def _ruled_out(
        self, scene: Scene, done: Mapping[ProcessId | None, Did], needed: Needed
    ) -> frozenset[_CallOrTurn]:
        """Return the calls and turns of which the processes did not do enough."""
        found: set[_CallOrTurn] = set()
        for call in scene.windows:
            session = scene.session(call.session)
            is_program = session is not None and self._marks.is_program(session)
            # A server that an agent only talks to writes for it outside its processes.
            if call.paths or not (is_program or call.tool_class is ToolClass.SHELL):
                continue
            # The session goes on with a process that the command left, which is no wrapper.
            wraps = _wraps(session)
            process = process_of(call) if wraps else self._agent(session)
            did = done.get(process, Did())
            # A program runs tools in its own threads, an agent runs shells below it.
            did_less = needed.is_more_than(did.whole if is_program else did.below)
            if did_less or (did.slept and not is_program):
                found.add((call.session, call.id))
                if wraps and call.turn is not None:
                    found.add((call.session, call.turn))
        for turn in scene.turns:
            agent = self._agent(scene.session(turn.session))
            if turn.turn and needed.is_more_than(done.get(agent, Did()).whole):
                found.add((turn.session, turn.turn))
        return frozenset(found)

    def _agent(self, session: Session | None) -> ProcessId | None:
        """Return the process of a session of which all writers are below it."""
        if session is None or not self._marks.is_alone(session):
            return None
        return process_of(session)

    def _moment(self, draft: Draft) -> _Moment:
        """Return between which looks a change was made, as far as that is known."""
        paths = {draft.path, draft.old_path or draft.path}
        taken = [self.taken[path] for path in paths if path in self.taken]
        before, after = None, self.begun + 1  # a look that is still to be made
        # It may be written by another name.
        is_single = draft.after is None or (
            self._has_one_name(draft.path) and not draft.twins
        )
        if len(taken) == len(paths) and is_single:
            starts = [one.before for one in taken if one.before is not None]
            before = min(starts) if len(starts) == len(paths) else None
        ends = [one.after for one in taken if one.after is not None]
        with self._lock:
            is_over = self.is_on and self._events.keys().isdisjoint(paths)
        if is_over and len(ends) == len(paths):
            after = max(ends)
        if before is None:
            began_ns, number = self._settled
            before = number if began_ns <= draft.begin_ns else 0
        # An event may be of an earlier change than what was found on the disk.
        ctime_ns = draft.end_ns if draft.after is None else draft.after.stat.ctime_ns
        return _Moment(before, after, self._born_ns(draft), ctime_ns)

    def _has_one_name(self, path: RepoPath) -> bool:
        """Return whether the file at a path has no other name now."""
        try:
            return os.lstat(os.path.join(self._top, path)).st_nlink == 1
        except OSError:
            return False

    def _born_ns(self, draft: Draft) -> int | None:
        """Return when a new file was made, None if it may have been finished elsewhere."""
        if draft.after is None or not _is_new(draft):
            return None
        born_ns = draft.born_ns
        if born_ns is None:
            born_ns = self._ws.files.born_ns(draft.path, draft.after.stat.inode)
        # That of a temporary file can be, too, but it was made here. Where stamps are coarse, one
        # of the same tick may be older.
        is_older = (born_ns or 0) < draft.begin_ns + self._clock.tolerance_ns
        return None if is_older and _file_of(draft) not in self._made else born_ns

    def _first(self, tree: ProcessTree, moment: _Moment) -> ProcessLook | None:
        """Return the last look before a change began."""
        looks, born_ns = reversed(tree.looks), moment.born_ns
        if born_ns is None:
            return next((one for one in looks if one.number <= moment.before), None)
        tolerance_ns = self._clock.tolerance_ns
        # If the clock went back since, a look after the change can have an earlier time.
        if tree.looks and born_ns > tree.looks[-1].at_ns + tolerance_ns:
            return None
        return next((one for one in looks if one.at_ns <= born_ns - tolerance_ns), None)

    def _last(self, tree: ProcessTree, moment: _Moment) -> ProcessLook | None:
        """Return the first look that began when a change was made, None if there is none."""
        # Where stamps are coarse, that of the change may be older than it.
        if moment.ctime_ns and self._clock.tolerance_ns:
            return None
        found = None
        for one in reversed(tree.looks):
            if one.number < moment.after or one.began_ns <= moment.ctime_ns:
                break
            found = one
        return found

    def _needed(self, draft: Draft, moment: _Moment) -> Needed:
        """Return the least that is written to make a change; nothing where that is not known."""
        before, after = draft.before, draft.after
        if after is None or after.version.is_link or draft.kind not in _WRITES:
            return Needed()
        is_new = moment.born_ns is not None
        where = self._file_system(draft.path)
        if not where.counts_copies or is_new is not _is_new(draft):
            return Needed()
        try:
            new, old = self._ws.repo.read_blob(after.version.oid), b""
            if before is not None and not is_new:
                old = self._ws.repo.read_blob(before.version.oid)
        except StoreError:
            return Needed()
        # Programs that write through a memory map make no text.
        if b"\0" in new[:_MOST_BYTES]:
            return Needed()
        needed = bytes_needed(old, new)
        # In place, pages may be dirty already.
        has_pages = is_new and where.counts_pages
        return Needed(needed, -(-needed // _PAGE) * _PAGE if has_pages else 0)

    def _file_system(self, path: RepoPath) -> FileSystem:
        """Return what can be concluded of the bytes of a file."""
        full = os.path.join(self._top, path)
        try:
            device = os.stat(os.path.dirname(full)).st_dev
            # A small file without blocks may be in its inode, as ext4 can keep it.
            has_blocks = (
                os.path.lexists(full) and os.lstat(full).st_blocks * 512 >= _PAGE
            )
        except OSError:
            return FileSystem()
        if device not in self._file_systems and self._counters is not None:
            self._file_systems[device] = self._counters.file_system(device)
        known = self._file_systems.get(device, FileSystem())
        return known if has_blocks else known._replace(counts_pages=False)


def _wraps(session: Session | None) -> bool:
    """Return whether a session is that of a command of `exec`."""
    return session is not None and is_command(session)


def _is_new(draft: Draft) -> bool:
    """Return whether a path has another file than before, or none before."""
    before, after = draft.before, draft.after
    if before is None or after is None:
        return before is None
    return before.stat.inode != after.stat.inode


def _file_of(draft: Draft) -> _File | None:
    """Return what a file keeps that is moved: its inode number and the time of its content."""
    state = draft.after or draft.before
    return None if state is None else (state.stat.inode, state.stat.mtime_ns)
