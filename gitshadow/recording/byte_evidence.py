"""Find the calls and turns whose processes did not run, or wrote less than a change needs."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gitshadow.attribution.ledger import ByteLedger, CountSpan, Needs, excludes, needs
from gitshadow.attribution.native_ids import ProcessMarks, is_command
from gitshadow.attribution.process import Living, ProcessId, process_of
from gitshadow.attribution.windows import Scene
from gitshadow.capture.drafts import Draft
from gitshadow.capture.fs_events import EventLooks, EventOrder
from gitshadow.errors import StoreError
from gitshadow.model import Call, EventKind, FileState, RepoPath, Session, ToolClass
from gitshadow.platform import current
from gitshadow.platform.port import FileSystem, ProcessCounters
from gitshadow.recording.workspace import Workspace
from gitshadow.store.clock import EpochClock

_WRITES = (EventKind.CREATE, EventKind.MODIFY)
_UNKNOWN = FileSystem()
_MOST_MADE = 1000


class _RuledOut(NamedTuple):
    """Whether an agent's processes, and those below it, cannot have made a change."""

    whole: bool = False
    below: bool = False


class ByteEvidence:
    """Compare what agents' processes wrote with what the files of one worktree need.

    Where the system counts nothing, nothing is ruled out.
    """

    def __init__(
        self,
        workspace: Workspace,
        clock: EpochClock | None = None,
        counters: ProcessCounters | None = None,
        marks: ProcessMarks | None = None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ws = workspace
        self._marks = marks or ProcessMarks()
        self._top = os.fsencode(workspace.layout.root)
        self._counters = counters or current().process_facts().counters()
        self._ledger = ByteLedger(
            clock or workspace.clock, self._counters, workspace.own_bytes.below
        )
        self._file_systems: dict[int, FileSystem] = {}
        self._to_disk_ns: int | None = None
        self._is_current = False
        self.order = EventOrder(self._ledger, seconds)
        self._moments: dict[RepoPath, EventLooks] = {}
        self._moved: dict[int, tuple[RepoPath, frozenset[tuple[str, str]]]] = {}
        self._made: dict[int, None] = {}

    def watch(self, session: Session) -> bool:
        """Count what the processes of a session's agent write; return whether that is new."""
        process = process_of(session)
        return process is not None and self.watch_process(process)

    def watch_process(self, process: ProcessId) -> bool:
        """Count what a process and those below it write; return whether that is new."""
        return self._ws.config.ledger and self._ledger.watch(process)

    def watch_command(self, wrapper: ProcessId) -> None:
        """Count what a command writes that `exec` runs."""
        self._ledger.watch(wrapper, adopts=True)

    def begin_barrier(self, agents: Iterable[ProcessId]) -> None:
        """Count what the processes of agents wrote before a barrier."""
        if not self._ws.config.ledger:
            return
        for agent in agents:
            self._ledger.watch(agent)
        if self._ledger.watched:
            self.order.start()
            self._ledger.begin_barrier()

    def close(self) -> None:
        """Count no more."""
        if self._counters is not None:
            self._counters.keep(())

    @property
    def is_counting(self) -> bool:
        """Return whether the processes of any agent are counted."""
        return bool(self._ledger.watched)

    def adopt(self, agents: Iterable[Session], living: Iterable[Living]) -> None:
        """Count processes of agents' sessions that are not below the agents any more."""
        roots = {
            one.id: root for one in agents if (root := process_of(one)) is not None
        }
        for process in living:
            for session in roots.keys() & set(process.sessions):
                self._ledger.adopt(roots[session], (process.id,))

    def settled(self, began_ns: int) -> None:
        """Note that all is recorded that was written before a barrier began."""
        self._ledger.settled(began_ns)
        self.order.settled()
        self._moved.clear()
        # The next file system that is mounted may have the number of one that is gone.
        self._file_systems.clear()

    def begin_capture(self, paths: Iterable[RepoPath]) -> None:
        """Note which paths are going to be read and recorded."""
        self._moments = self.order.take(paths)

    def begin(self) -> None:
        """Begin a batch of writes: what was counted before it does not include them."""
        self._is_current = False

    def excluded(self, draft: Draft, scene: Scene) -> frozenset[tuple[str, str]]:
        """Return the calls and turns, by session and id, that cannot have made a write."""
        if not self._ws.config.ledger:
            return frozenset()
        if draft.kind is EventKind.DELETE and draft.before is not None:
            # A save by rename: its temporary file, which is deleted next, is the same file.
            target, moved = self._moved.get(draft.before.stat.inode, (None, None))
            if moved is not None and target != draft.path:
                return moved
        commands = {
            (call.session, call.id): wrapper
            for call in scene.windows
            if (wrapper := _wrapper(call, scene)) is not None
        }
        # Without a daemon the wrapper's own process judges at its end, and counted nothing before.
        for wrapper in commands.values():
            self.watch_command(wrapper)
        wanted = self._needs(draft) if self._ledger.watched else None
        where = self._file_system(draft.path)
        span = self._span(draft, wanted, where)
        if wanted is None and (span is None or span.before < 0):
            return frozenset()
        if span is None or not self._ledger.covers(span):
            if not self._is_current:
                self._ledger.look()
                self._is_current = True
            # All that is recorded now was read before that look.
            if span is not None:
                span = span._replace(after=self._ledger.done, ctime_ns=None)
        found = self._ruled_out(
            scene, commands, lambda root: self._most(root, wanted, span, where)
        )
        if draft.before and draft.after and wanted is not None and wanted.is_new:
            self._moved[draft.after.stat.inode] = draft.path, found
        return found

    def _span(
        self, draft: Draft, wanted: Needs | None, where: FileSystem
    ) -> CountSpan | None:
        """Return between which looks a change was made, None where nobody knows."""
        paths = {draft.path, draft.old_path or draft.path}
        moments = [self._moments[path] for path in paths if path in self._moments]
        if len(moments) < len(paths):
            return None
        # What was written by another name hinted at that name.
        is_single = draft.after is None or self._has_one_name(draft)
        known = [one.before for one in moments if one.before is not None]
        before = min(known) if is_single and len(known) == len(paths) else -1
        ends = [one.after for one in moments if one.after is not None]
        is_over = len(ends) == len(paths) and not any(map(self.order.is_changed, paths))
        return CountSpan(
            before=before,
            # Else the next look, which is made because none covers this.
            after=max(ends) if is_over else self._ledger.begun + 1,
            ctime_ns=None if draft.after is None else draft.after.stat.ctime_ns,
            by_call=wanted is not None
            and wanted.is_text
            and not wanted.is_new
            and where.counts_copies,
        )

    def _has_one_name(self, draft: Draft) -> bool:
        """Return whether the file of a change has no other name, by which it may be written."""
        try:
            found = os.lstat(os.path.join(self._top, draft.path))
        except OSError:
            return False
        return found.st_nlink == 1 and not draft.twins

    def _ruled_out(
        self,
        scene: Scene,
        commands: Mapping[tuple[str, str], ProcessId],
        did_not: Callable[[ProcessId | None], "_RuledOut"],
    ) -> frozenset[tuple[str, str]]:
        """Return the calls and turns, by session and id, that cannot have made a change."""
        found: set[tuple[str, str]] = set()
        for call in scene.windows:
            session = scene.session(call.session)
            is_program = session is not None and self._marks.is_program(session)
            # A server that an agent only talks to writes for it outside its processes.
            if call.paths or not (is_program or call.tool_class is ToolClass.SHELL):
                continue
            wrapper = commands.get((call.session, call.id))
            ruled_out = did_not(wrapper or self._agent(session))
            # A program runs tools in its own threads, an agent runs shells below it.
            if ruled_out.whole if is_program else ruled_out.below:
                found.add((call.session, call.id))
                if wrapper is not None and call.turn is not None:
                    found.add((call.session, call.turn))
        for turn in scene.turns:
            agent = self._agent(scene.session(turn.session))
            if turn.turn and did_not(agent).whole:
                found.add((turn.session, turn.turn))
        return frozenset(found)

    def _agent(self, session: Session | None) -> ProcessId | None:
        """Return the process of a session of which all writers are below it."""
        if session is None or not self._marks.is_alone(session):
            return None
        return process_of(session)

    def _most(
        self,
        root: ProcessId | None,
        wanted: Needs | None,
        span: CountSpan | None,
        where: FileSystem,
    ) -> "_RuledOut":
        """Return whether an agent's processes cannot have made a change."""
        most = None if root is None else self._ledger.most(root, wanted, span)
        if most is None:
            return _RuledOut()
        if wanted is None:
            return _RuledOut(below=most.slept)
        return _RuledOut(
            whole=excludes(most.whole, wanted, where),
            below=most.slept or excludes(most.below, wanted, where),
        )

    def _needs(self, draft: Draft) -> Needs | None:
        """Return what it takes to make a write; None where bytes say nothing of it."""
        before, after = draft.before, draft.after
        if draft.kind not in _WRITES or after is None or after.version.is_link:
            return None
        is_new = before is None or before.stat.inode != after.stat.inode
        if is_new and self._came_from_outside(draft, after):
            return None
        since_ns = self._born_ns(draft) if is_new else draft.begin_ns
        if since_ns is None or (before is None and not is_new):
            return None
        try:
            new = self._ws.repo.read_blob(after.version.oid)
            if is_new or before is None:
                wanted = needs(None, new, since_ns)
                # It may have been made elsewhere, and its pages be dirty since then.
                return wanted._replace(dirties=draft.begin_ns <= since_ns)
            old = self._ws.repo.read_blob(before.version.oid)
        except StoreError:
            return None
        return needs(old, new, since_ns, was_clean=self._was_clean(before, since_ns))

    def _came_from_outside(self, draft: Draft, after: FileState) -> bool:
        """Return whether a file was finished elsewhere, and only moved or linked to its path."""
        # The content is older than the last moment at which nothing was there. That of a temporary
        # file can be, too, but it was made in the worktree. Where stamps are coarse, one of the
        # same tick may be older.
        inode, tolerance_ns = after.stat.inode, self._ws.clock.tolerance_ns
        if after.stat.mtime_ns < draft.begin_ns + tolerance_ns:
            return inode not in self._made
        while len(self._made) >= _MOST_MADE:
            del self._made[next(iter(self._made))]
        self._made[inode] = None
        return False

    def _was_clean(self, state: FileState, at_ns: int) -> bool:
        """Return whether what a file held at a moment was on the disk then."""
        if self._to_disk_ns is None:
            counters = self._counters
            self._to_disk_ns = (counters and counters.time_to_disk_ns()) or 0
        return 0 < self._to_disk_ns < at_ns - state.stat.ctime_ns

    def _born_ns(self, draft: Draft) -> int | None:
        """Return when the file of a write was made, which may have been elsewhere."""
        if draft.born_ns is not None or draft.after is None:
            return draft.born_ns
        return self._ws.files.born_ns(draft.path, draft.after.stat.inode)

    def _file_system(self, path: RepoPath) -> FileSystem:
        full = os.path.join(self._top, path)
        try:
            # A temporary file may be gone, but its directory is on the same file system.
            place = full if os.path.lexists(full) else os.path.dirname(full)
            device = os.lstat(place).st_dev
        except OSError:
            return _UNKNOWN
        if device not in self._file_systems:  # it may have been mounted since
            self._file_systems |= self._mounted(device)
        return self._file_systems[device]

    def _mounted(self, device: int) -> dict[int, FileSystem]:
        """Return what is mounted now, one device at least."""
        if self._counters is None:
            return {device: _UNKNOWN}
        mounts = self._counters.file_systems()
        own = self._device_of_pages(self._counters)
        found = {
            one: where if one == own else where._replace(counts_pages=False)
            for one, where in mounts.items()
        }
        return {device: _UNKNOWN} | found

    def _device_of_pages(self, counters: ProcessCounters) -> int | None:
        """Return our own file system, unless it keeps small files without any page."""
        from tempfile import TemporaryFile  # it loads `random`, which few commands need

        with (
            contextlib.suppress(OSError),
            TemporaryFile(dir=self._ws.layout.state_dir) as file,
        ):
            file.write(b"x")
            file.flush()
            if not counters.keeps_small_files_inline(file.fileno()):
                return os.fstat(file.fileno()).st_dev
        return None


def _wrapper(call: Call, scene: Scene) -> ProcessId | None:
    """Return the process of `exec` that runs the command of a call."""
    session = scene.session(call.session)
    if session is None or not is_command(session):
        return None
    # The session goes on with a process that the command left, which is no wrapper.
    return process_of(call)
