"""Count the bytes that agents' processes wrote, to find files that they cannot have written.

A kernel may count for each process what it wrote, so that a parent inherits the counts of the
children that it waits for, and how often each was given a processor. Where it does not, nothing is
watched here. Only exclusion may be drawn from that: processes that wrote fewer bytes than a file
needs, or that did not run at all, did not write the file.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from gitshadow.platform.port import (
    CountedStat,
    Counts,
    FileSystem,
    ProcessCounters,
    ProcessId,
)
from gitshadow.store.backends import git_pipes
from gitshadow.store.clock import EpochClock

_PAGE = 4096
_BARRIERS = 64
# Looks come with the kernel's events, so these are those of the last second of a busy machine.
_LOOKS = 256
# A process that ends while its siblings are listed can hide one of them.
_TRIES = 3
# To count more processes than this takes longer than the name of an author is worth.
_MOST_PROCESSES = 256
_MOST_BYTES = 4 * 1024 * 1024


class TreeCounts(NamedTuple):
    """What the processes of an agent did: `whole` with its own threads, `below` without them.

    `slept`: no process below it ran.
    """

    whole: Counts
    below: Counts
    slept: bool = False


class CountSpan(NamedTuple):
    """Which looks at processes a change came between, by their numbers.

    It was made after the look `before` was over, and before the look `after` began. `ctime_ns` is
    its stamp, None where it left none. `by_call`: its content can only come by write(2) and its
    kin, which hint at it first and count the bytes then.
    """

    before: int
    after: int
    ctime_ns: int | None = None
    by_call: bool = False


class Needs(NamedTuple):
    """What it takes at least to make the new content of a file.

    `since_ns`: the write did not begin before. `written`: bytes that have to be written.
    `is_new`: the file was made since then. `is_text`: programs that write through a memory map make
    no text. `dirties`: all written pages had been clean before, or were not there.
    """

    since_ns: int
    written: int
    is_new: bool
    is_text: bool
    dirties: bool


def needs(
    old: bytes | None, new: bytes, since_ns: int, *, was_clean: bool = False
) -> Needs:
    """Return what it takes to write a file.

    Args:
        old: What the file held before, None for a file that is new.
        new: What it holds now.
        since_ns: When it held the old content, or was created.
        was_clean: Whether the old content was on the disk by then.
    """
    now = new[:_MOST_BYTES]
    before = (old or b"")[:_MOST_BYTES].ljust(len(now), b"\0")[: len(now)]
    differs = int.from_bytes(before) ^ int.from_bytes(now)
    differing = len(now) - differs.to_bytes(len(now)).count(0)
    # Zeros need no write: a file can have holes, and be truncated and made longer again.
    written = max(0, differing - now.count(0))
    is_new = old is None
    return Needs(since_ns, written, is_new, b"\0" not in now, is_new or was_clean)


def excludes(most: Counts, wanted: Needs, where: FileSystem) -> bool:
    """Return whether processes cannot have written a file.

    Args:
        most: The most that they can have done since the write began.
        wanted: What it takes.
        where: The file system of the file.
    """
    pages = -(-wanted.written // _PAGE) * _PAGE
    # All that they wrote went elsewhere: to terminals, pipes, sockets.
    if where.counts_pages and wanted.dirties and most.dirtied < pages:
        return True
    if most.written >= wanted.written:
        return False
    if most.faults == 0:  # they did not even start a program
        return True
    return where.counts_copies and wanted.is_text


class _Activity(NamedTuple):
    """What shows whether processes run: how often each was given a processor, by process.

    `all_sleep`: none of them has run since it was looked at. `top` are the children of the agent
    itself, and `reaped` are the faults of those that it has waited for.
    """

    ran: Mapping[ProcessId, bytes]
    all_sleep: bool
    top: Sequence[int]
    reaped: int = 0


class _Reading(NamedTuple):
    """What was counted at one look: by process, and what the agent's own threads did.

    These are counted before the agent itself is and after that, because they go on in between.
    `recorders` did a part of all this, and are no work of the agent.
    """

    number: int
    began_ns: int
    at_ns: int
    counts: Mapping[ProcessId, Counts]
    own_before: Counts
    own_after: Counts
    activity: _Activity
    recorders: Counts = Counts()


_NOTHING = Counts()
_FROM_START = _Reading(0, 0, 0, {}, _NOTHING, _NOTHING, _Activity({}, False, ()))
"""The look before a process did anything."""


class _Tree:
    """The processes of one agent: it, what is below it, and what was below it once.

    A process whose parent ends is given to another one. `known` are all that were there at the last
    look, each after its parent; those that were elsewhere are `abandoned`, and those that had ended
    and were not waited for are `ended`. `is_complete`: nothing was added to them since that look.
    Writes are measured up to `now`: those to a new file from one of the last `looks`, others from
    the look before a barrier, kept with the moment when it began; where there is none,
    from `first`.
    """

    def __init__(self, root: ProcessId, first: _Reading | None = None) -> None:
        self.root = root
        self.first = first
        self.barriers: deque[tuple[int, _Reading]] = deque(maxlen=_BARRIERS)
        self.looks: deque[_Reading] = deque(maxlen=_LOOKS)
        self.before: _Reading | None = None
        self.now: _Reading | None = None
        self.is_complete = False
        self.known: Sequence[ProcessId] = ()
        self.abandoned: frozenset[ProcessId] = frozenset()
        self.ended: frozenset[ProcessId] = frozenset()

    def forget_readings(self) -> None:
        """Forget what was counted: it cannot be compared with later counts."""
        self.barriers.clear()
        self.looks.clear()
        self.before = self.first = None


class ByteLedger:
    """The most that the processes of agents can have done between two moments.

    Without counters nothing is watched. Looks are numbered: `begun` is the last one that has begun,
    `done` the last one that is over. Any thread may look. `recorders` returns the least that was
    written below an agent to record, not by it.
    """

    def __init__(
        self,
        clock: EpochClock,
        counters: ProcessCounters | None,
        recorders: Callable[[ProcessId], Counts] = lambda _: _NOTHING,
    ) -> None:
        self._clock = clock
        self._known = counters
        self._recorders = recorders
        self._own = os.getpid()
        self._trees: dict[ProcessId, _Tree] = {}
        self._lock = threading.RLock()
        self.begun = 0
        self.done = 0

    @property
    def _counters(self) -> ProcessCounters:
        assert self._known is not None, "nothing is watched without counters"
        return self._known

    @property
    def watched(self) -> tuple[ProcessId, ...]:
        """Return the agents whose processes are counted."""
        return tuple(self._trees)

    def watch(self, root: ProcessId, *, adopts: bool = False) -> bool:
        """Start to count the processes of an agent; return whether they were not counted yet.

        Args:
            root: The agent.
            adopts: Whether it has adopted every orphan below it since its start. Then all that
                they ever did is in its counts, whenever they are first read.
        """
        with self._lock:
            if self._known is None or root in self._trees:
                return False
            self._trees[root] = _Tree(root, _FROM_START if adopts else None)
            return True

    def begin_barrier(self) -> None:
        """Count what all agents did before a barrier."""
        with self._lock:
            self.look()
            for tree in self._trees.values():
                tree.before = tree.now

    def adopt(self, root: ProcessId, processes: Iterable[ProcessId]) -> None:
        """Count more processes as an agent's, wherever they are."""
        with self._lock:
            tree = self._trees.get(root)
            if tree is None:
                return
            new = [one for one in processes if one != root and one not in tree.known]
            if new:
                tree.known = (*tree.known, *new)
                tree.is_complete = False

    def settled(self, began_ns: int) -> None:
        """Note that all is recorded that was written before a barrier began."""
        with self._lock:
            for tree in self._trees.values():
                if tree.before is not None:
                    tree.barriers.append((began_ns, tree.before))

    def look(self) -> None:
        """Count what all agents did so far; those that are gone are forgotten."""
        with self._lock:
            if not self._trees:
                return
            self.begun += 1
            began_ns = self._clock.now_ns()
            # In this order: no more is subtracted than was counted.
            ours = {root: self._recorders(root) for root in self._trees}
            found = {tree: self._look(tree) for tree in self._trees.values()}
            at_ns = self._clock.now_ns()
            for tree, reading in found.items():
                if reading is not None:
                    reading = reading._replace(
                        number=self.begun,
                        began_ns=began_ns,
                        at_ns=at_ns,
                        recorders=ours[tree.root],
                    )
                    tree.looks.append(reading)
                elif not self._is_there(tree.root):
                    del self._trees[tree.root]
                tree.now = reading
            known = (one for tree in self._trees.values() for one in tree.known)
            roots = (root.pid for root in self._trees)
            self._counters.keep((*(one.pid for one in known), *roots))
            self.done = self.begun

    def covers(self, span: CountSpan) -> bool:
        """Return whether a look was made after a change, and began after it for certain."""
        with self._lock:
            return all(self._last(tree, span) for tree in self._trees.values())

    def most(
        self, root: ProcessId, wanted: Needs | None, span: CountSpan | None = None
    ) -> TreeCounts | None:
        """Return the most that an agent's processes can have done while a change was made.

        Args:
            root: The agent.
            wanted: What the change needs; None if that is nothing that is counted.
            span: Between which looks it was made; None: up to the last one.

        Returns:
            None if it is not known: nothing was counted before the change; or processes came and
            went too fast, or one belongs to another user.
        """
        with self._lock:
            tree = self._trees.get(root)
            last = None if tree is None else self._last(tree, span)
            if tree is None or last is None:
                return None
            old = None if wanted is None else self._since(tree, wanted, last)
            near = None if span is None else _numbered(tree, span.before)
            if wanted is not None and wanted.is_new:
                near = old  # its file was made before it got its path
            slept = near is not None and _slept(near, last)
            if span is not None and span.by_call and near is not None:
                done = _done_by_call(root, near, old, last)
            else:
                done = None if old is None else _done(old, last)
            if done is None:
                return TreeCounts(_UNKNOWN, _UNKNOWN, slept=True) if slept else None
            return done._replace(slept=slept)

    def _since(self, tree: _Tree, wanted: Needs, last: _Reading) -> _Reading | None:
        """Return the last look before a write began."""
        # If the clock went back since the write, a look after it can have an earlier time.
        if wanted.since_ns > last.at_ns + self._clock.tolerance_ns:
            return None
        if wanted.is_new:
            # The stamp of a look can be older than the look, by one tick of the clock.
            latest_ns = wanted.since_ns - self._clock.tolerance_ns
            known = (one for one in reversed(tree.looks) if one.at_ns <= latest_ns)
        else:
            since_ns, barriers = wanted.since_ns, reversed(tree.barriers)
            known = (one for began, one in barriers if began <= since_ns)
        return next(known, tree.first)

    def _last(self, tree: _Tree, span: CountSpan | None) -> _Reading | None:
        """Return the first look that began when a change was made, None if there is none."""
        if span is None:
            return tree.now
        # Where stamps are coarse, that of the change may be older than it.
        if span.ctime_ns is not None and self._clock.tolerance_ns:
            return None
        found = None
        for one in reversed(tree.looks):
            if one.number < span.after or one.began_ns <= (span.ctime_ns or 0):
                break
            found = one
        return found

    def _look(self, tree: _Tree) -> _Reading | None:
        """Return a reading without its times."""
        for _ in range(_TRIES):
            reading = self._read_agent(tree) or self._read(tree)
            if reading is not None:
                return reading
        return None

    # Only a process that runs can write, start another one, or wait for one that ended: then what
    # was read of it after it slept is what would be read now. A process below the agent gets a new
    # child without running only where it adopts one whose parent has ended; that parent was below
    # it, and ran to start the child and to end, or one above it did to start that parent.
    def _read_agent(self, tree: _Tree) -> _Reading | None:
        """Count what an agent itself did, if nothing below it ran since the last look."""
        last = tree.now
        if last is None or not last.activity.all_sleep or not tree.is_complete:
            return None
        for one, ran in last.activity.ran.items():
            if self._counters.has_run(one.pid, ran):
                return None
        threads = self._counters.threads(tree.root.pid)
        if self._children(tree.root.pid, threads) != last.activity.top:
            return None
        return self._with_agent(tree, threads, dict(last.counts), last.activity)

    def _read(self, tree: _Tree) -> _Reading | None:
        """Count what an agent's processes did; None if one of them ended during the count."""
        threads = self._counters.threads(tree.root.pid)
        top = self._children(tree.root.pid, threads)
        ran: dict[int, bytes | None] = {}
        below = [*top, *self._below(top, ran, tree.ended)]
        left = {one.pid: one for one in tree.known if one.pid not in below}
        pids = list(dict.fromkeys([*below, *left, *self._below(left, ran, tree.ended)]))
        if len(pids) > _MOST_PROCESSES:
            return None
        # Each is read before its parent: what ends in between is counted twice, never left out.
        found: dict[ProcessId, Counts] = {}
        slept: dict[ProcessId, bytes] = {}
        ended: set[ProcessId] = set()
        for pid in reversed(pids):
            process = self._process(pid)
            if process is None and pid not in left:
                return None
            if process is not None and left.get(pid, process[0].id) == process[0].id:
                found[process[0].id] = process[1]
                if process[0].ended:
                    ended.add(process[0].id)
                if (counted := ran.get(pid)) is not None:
                    slept[process[0].id] = counted
        # Nobody in the tree waited for an abandoned process: what it did at last is in no count.
        if not tree.abandoned <= found.keys():
            tree.forget_readings()
        activity = _Activity(slept, len(slept) == len(found), top)
        known = tuple(reversed(found))
        reading = self._with_agent(tree, threads, found, activity)
        if reading is not None:
            tree.known, tree.is_complete = known, True
            tree.ended = frozenset(ended)
            tree.abandoned = frozenset(one for one in known if one.pid not in below)
        return reading

    def _with_agent(
        self,
        tree: _Tree,
        threads: Sequence[str],
        counts: dict[ProcessId, Counts],
        activity: _Activity,
    ) -> _Reading | None:
        """Return a reading with what the agent did; None if it is gone."""
        pid = tree.root.pid
        written = self._counters.counts_of_threads
        before, root = written(pid, threads), self._process(pid)
        after = written(pid, threads)
        if root is None or root[0].id != tree.root:
            return None
        stat, counts[tree.root] = root
        before = Counts(before.written, before.dirtied, stat.faults)
        after = Counts(after.written, after.dirtied, stat.faults)
        if activity.reaped != stat.reaped:
            activity = activity._replace(reaped=stat.reaped)
        return _Reading(0, 0, 0, counts, before, after, activity)

    def _below(
        self,
        tops: Iterable[int],
        ran: dict[int, bytes | None],
        ended: Container[ProcessId],
    ) -> list[int]:
        """Return the descendants of processes, each after its parent.

        Args:
            tops: The processes.
            ran: Is given how often each has run that does not run now, None for the others.
            ended: Those that had ended at the last look: what they left has its new parents.
        """
        found, todo = list[int](), list(tops)
        for pid in todo:  # which grows
            counted = self._counters.runs(pid)
            stat = self._counters.stat_of(pid)
            is_single = stat is not None and stat.threads == 1
            # In this order: if it is found to have run no more often later, it has slept since its
            # state was read. Only the first thread of a process is counted here.
            is_still = is_single and stat is not None and stat.sleeps
            is_still |= stat is not None and stat.ended and stat.id in ended
            ran[pid] = counted if is_still else None
            children = self._children(pid, (str(pid),) if is_single else None)
            found += children
            todo += children
            if len(found) > _MOST_PROCESSES:
                break
        return found

    def _children(self, pid: int, threads: Sequence[str] | None) -> list[int]:
        """Return the children of a process, those of each of its threads."""
        found = self._counters.children_of(pid, threads)
        # This process records what the others wrote: it may have been started by an agent's hook,
        # or be what the session is about (`exec` without a daemon), with git commands of its own.
        ours = {self._own, *git_pipes.children()}
        return [child for child in found if child not in ours]

    def _process(self, pid: int) -> tuple[CountedStat, Counts] | None:
        """Return what a process did, and its children that it waited for."""
        counts, stat = self._counters.counts_of(pid), self._counters.stat_of(pid)
        # What one wrote that ended and was not waited for is only for root to read.
        if counts is None and stat is not None and stat.ended:
            counts = _UNKNOWN
        if stat is None or counts is None:
            return None
        return stat, counts._replace(faults=stat.faults + stat.reaped)

    def _is_there(self, process: ProcessId) -> bool:
        stat = self._counters.stat_of(process.pid)
        return stat is not None and stat.id == process


_UNKNOWN = Counts(*[1 << 62] * 3)
"""More than any file needs."""


def _numbered(tree: _Tree, number: int) -> _Reading | None:
    """Return the look with a number, or the last one before it that found anything out."""
    return next((one for one in reversed(tree.looks) if one.number <= number), None)


def _slept(first: _Reading, last: _Reading) -> bool:
    """Return whether nothing below an agent ran between two looks.

    What it started and waited for in between has made page faults, as every process does.
    """
    then, now = first.activity, last.activity
    # A new process that runs at the last look is only in its counts.
    if first.counts.keys() != last.counts.keys():
        return False
    return then.all_sleep and then.ran == now.ran and then.reaped == now.reaped


def _done(first: _Reading, last: _Reading) -> TreeCounts | None:
    """Return what an agent's processes did between two looks."""
    whole = _sum(last, first.counts)
    if whole is None:
        return None
    whole = whole.minus(last.recorders.minus(first.recorders))
    return TreeCounts(whole, whole.minus(last.own_before.minus(first.own_after)))


# A system call hints at its write and counts its bytes then, or both at once and the hint last
# (sendfile(2)); it has dirtied the pages before. So what a process had done at a look before the
# hint does not include the write, unless it was in the midst of that call. Then it ran, or waited
# for a disk, and did not sleep.
def _done_by_call(
    root: ProcessId, near: _Reading, old: _Reading | None, last: _Reading
) -> TreeCounts | None:
    """Return what an agent's processes did since the look before a hint.

    Args:
        root: The agent.
        near: That look.
        old: A look before the write began, to compare those with that did not sleep at `near`.
        last: The look after the write.
    """
    base = dict(old.counts) if old is not None else {}
    base |= {one: near.counts[one] for one in near.activity.ran}
    whole = _sum(last, base)
    # What its own threads did is subtracted. For a child that it waited for, all was counted.
    below = _sum(last, base | {root: near.counts[root]})
    if whole is None or below is None:
        return None
    return TreeCounts(whole, below.minus(last.own_before.minus(near.own_after)))


def _sum(last: _Reading, before: Mapping[ProcessId, Counts]) -> Counts | None:
    """Return what processes did since they were counted; None if a counter went back."""
    # A process that is gone is in the counts of its parent, with all that it ever did. So what it
    # had done before is subtracted only where it still lives.
    total = _NOTHING
    for process, counts in last.counts.items():
        done = counts.minus(before.get(process, _NOTHING))
        if min(done) < 0:
            return None
        total = total.plus(done)
    return total
