"""Count the bytes that agents' processes wrote, to find files that they cannot have written.

Linux counts for each process what it wrote, and a parent inherits the counts of the children that
it waits for (proc(5), /proc/PID/io). Only exclusion may be drawn from that: processes that wrote
fewer bytes than a file needs did not write the file.
"""

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gitshadow.attribution.process import ProcessId
from gitshadow.store.clock import EpochClock

_PAGE = 4096
_READINGS = 64
# A process that ends while its siblings are listed can hide one of them (proc(5), children).
_TRIES = 3
# To count more processes than this takes longer than the name of an author is worth.
_MOST_PROCESSES = 256
_MOST_BYTES = 4 * 1024 * 1024
# Here a copy cannot share the blocks of its original (ioctl_ficlone(2)), and so has to be written.
_WITHOUT_SHARING = frozenset({b"ext2", b"ext3", b"ext4", b"tmpfs"})
_WITHOUT_PAGES = frozenset({b"tmpfs"})
"""File systems that do not count which pages became dirty."""
# With these options (ext4(5)) content is written past the page cache, or by the journal's thread.
_UNCOUNTED_OPTIONS = (b"dax", b"data=journal")
_CENTISECOND_NS = 10_000_000


class Counts(NamedTuple):
    """What processes did, with their children that are gone.

    `written`: bytes by write(2) and its kin. `dirtied`: bytes of the pages that became dirty by any
    means. `faults`: page faults, which every program has when it starts.
    """

    written: int = 0
    dirtied: int = 0
    faults: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Return the sums."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: "Counts") -> "Counts":
        """Return the differences."""
        return Counts(*(a - b for a, b in zip(self, other, strict=True)))


class TreeCounts(NamedTuple):
    """What the processes of an agent did: `whole` with its own threads, `below` without them."""

    whole: Counts
    below: Counts


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


class FileSystem(NamedTuple):
    """What a file system lets conclude: `counts_copies` and `counts_pages` of what is written."""

    counts_copies: bool = False
    counts_pages: bool = False


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


def file_systems(mounts: bytes) -> dict[int, FileSystem]:
    """Return what the mounted file systems let conclude, by device number.

    Args:
        mounts: The content of /proc/self/mountinfo; proc(5).
    """
    found: dict[int, FileSystem] = {}
    for line in mounts.splitlines():
        fields, _, rest = line.partition(b" - ")
        major, _, minor = fields.split()[2].partition(b":")
        kind, _, *options = rest.split()
        is_known = kind in _WITHOUT_SHARING
        counts_pages = (
            is_known
            and kind not in _WITHOUT_PAGES
            and not any(
                option.startswith(_UNCOUNTED_OPTIONS)
                for option in b",".join(options).split(b",")
            )
        )
        device = os.makedev(int(major), int(minor))
        found[device] = FileSystem(is_known, counts_pages)
    return found


def time_to_disk_ns(proc: "ProcFiles") -> int | None:
    """Return after how long an unchanged file is on the disk; None where nobody knows.

    Linux looks for dirty pages from time to time, and writes those that are old enough
    (Documentation/admin-guide/sysctl/vm.rst). Twice that time, because disks can be slow.
    """
    expire = proc.read("sys/vm/dirty_expire_centisecs")
    pause = proc.read("sys/vm/dirty_writeback_centisecs")
    # Without a pause nothing is written by itself.
    if not expire or not pause or int(pause) == 0:
        return None
    return 2 * (int(expire) + int(pause)) * _CENTISECOND_NS


class ProcFiles:
    """The files of /proc, as they are at each moment."""

    def __init__(self, top: str = "/proc") -> None:
        self.top = top

    def read(self, name: str) -> bytes | None:
        """Return what a file holds, None where it is gone or not for us to read."""
        try:
            with open(f"{self.top}/{name}", "rb", buffering=0) as file:
                # One read returns a page of most of these files, whatever is left.
                return file.readall()
        except OSError:
            return None

    def threads(self, pid: int) -> Sequence[str]:
        """Return the threads of a process; none where it is gone."""
        try:
            return os.listdir(f"{self.top}/{pid}/task")
        except OSError:
            return ()

    def io(self, name: str) -> Counts | None:
        """Return what an `io` file says of a process or thread; proc(5)."""
        words = (self.read(name) or b"").split()
        if len(words) < 12:
            return None
        return Counts(written=int(words[3]), dirtied=int(words[11]))


class _Process(NamedTuple):
    """One process as it was counted; `own_faults` are without those of its children."""

    id: ProcessId
    counts: Counts
    own_faults: int


class _Reading(NamedTuple):
    """What was counted at one look: by process, and what the agent's own threads did.

    These are counted before the agent itself is and after that, because they go on in between.
    """

    at_ns: int
    counts: Mapping[ProcessId, Counts]
    own_before: Counts
    own_after: Counts


class _Tree:
    """The processes of one agent: it, what is below it, and what was below it once.

    A process whose parent ends is given to another one. `known` are all that were there at the last
    look, each after its parent; those that were elsewhere are `abandoned`. Writes are measured up
    to `now`: those to a new file from one of the last `looks`, others from the look before a
    barrier, kept with the moment when it began; where there is none, from `first`.
    """

    def __init__(self, root: ProcessId, first: _Reading | None = None) -> None:
        self.root = root
        self.first = first
        self.barriers: deque[tuple[int, _Reading]] = deque(maxlen=_READINGS)
        self.looks: deque[_Reading] = deque(maxlen=_READINGS)
        self.before: _Reading | None = None
        self.now: _Reading | None = None
        self.known: Sequence[ProcessId] = ()
        self.abandoned: frozenset[ProcessId] = frozenset()

    def forget_readings(self) -> None:
        """Forget what was counted: it cannot be compared with later counts."""
        self.barriers.clear()
        self.looks.clear()
        self.before = self.first = None


class ByteLedger:
    """The most that the processes of agents can have done between two moments."""

    def __init__(self, clock: EpochClock, proc: ProcFiles | None = None) -> None:
        self._clock = clock
        self._proc = proc or ProcFiles()
        self._own = os.getpid()
        self._trees: dict[ProcessId, _Tree] = {}

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
        if root in self._trees:
            return False
        first = _Reading(0, {}, Counts(), Counts()) if adopts else None
        self._trees[root] = _Tree(root, first)
        return True

    def begin_barrier(self) -> None:
        """Count what all agents did before a barrier."""
        self.look()
        for tree in self._trees.values():
            tree.before = tree.now

    def adopt(self, root: ProcessId, processes: Iterable[ProcessId]) -> None:
        """Count more processes as an agent's, wherever they are."""
        tree = self._trees.get(root)
        if tree is not None:
            new = [one for one in processes if one != root and one not in tree.known]
            tree.known = (*tree.known, *new)

    def settled(self, began_ns: int) -> None:
        """Note that all is recorded that was written before a barrier began."""
        for tree in self._trees.values():
            if tree.before is not None:
                tree.barriers.append((began_ns, tree.before))

    def look(self) -> None:
        """Count what all agents did so far; those that are gone are forgotten."""
        for tree in list(self._trees.values()):
            root = self._process(tree.root.pid)
            if root is None or root.id != tree.root:
                del self._trees[tree.root]
                continue
            tree.now = self._look(tree)
            if tree.now is not None:
                tree.looks.append(tree.now)

    def most(self, root: ProcessId, wanted: Needs) -> TreeCounts | None:
        """Return the most that an agent's processes can have done since a write began.

        Args:
            root: The agent.
            wanted: What the write needs.

        Returns:
            What they did up to the last look. None if it is not known: nothing was counted before
            the write; or processes came and went too fast, or one belongs to another user.
        """
        tree = self._trees.get(root)
        if tree is None or tree.now is None:
            return None
        # If the clock went back since the write, a look after it can have an earlier time.
        if wanted.since_ns > tree.now.at_ns + self._clock.tolerance_ns:
            return None
        first = self._first(tree, wanted)
        if first is None:
            return None
        last = tree.now
        # A process that is gone is in the counts of its parent, with all that it ever did. So what
        # it had done before is subtracted only where it still lives.
        zero = Counts()
        whole = zero
        for process, counts in last.counts.items():
            done = counts.minus(first.counts.get(process, zero))
            if min(done) < 0:  # a counter that goes back says nothing
                return None
            whole = whole.plus(done)
        return TreeCounts(whole, whole.minus(last.own_before.minus(first.own_after)))

    def _first(self, tree: _Tree, wanted: Needs) -> _Reading | None:
        """Return the last look before a write began."""
        if wanted.is_new:
            # The stamp of a look can be older than the look, by one tick of the clock.
            latest_ns = wanted.since_ns - self._clock.tolerance_ns
            known = [one for one in tree.looks if one.at_ns <= latest_ns]
        else:
            known = [one for began, one in tree.barriers if began <= wanted.since_ns]
        return known[-1] if known else tree.first

    def _look(self, tree: _Tree) -> _Reading | None:
        for _ in range(_TRIES):
            reading = self._read(tree)
            if reading is not None:
                return reading
        return None

    def _read(self, tree: _Tree) -> _Reading | None:
        """Count what an agent's processes did; None if one of them ended during the count."""
        below = self._below([tree.root.pid])
        left = {one.pid: one for one in tree.known if one.pid not in below}
        pids = list(dict.fromkeys([*below, *left, *self._below(left)]))
        if len(pids) > _MOST_PROCESSES:
            return None
        # Each is read before its parent: what ends in between is counted twice, never left out.
        found: dict[ProcessId, Counts] = {}
        for pid in reversed(pids):
            process = self._process(pid)
            if process is None and pid not in left:
                return None
            if process is not None and left.get(pid, process.id) == process.id:
                found[process.id] = process.counts
        before, root = self._threads(tree.root.pid), self._process(tree.root.pid)
        after = self._threads(tree.root.pid)
        if root is None or root.id != tree.root:
            return None
        # Nobody in the tree waited for an abandoned process: what it did at last is in no count.
        if not tree.abandoned <= found.keys():
            tree.forget_readings()
        tree.known = tuple(reversed(found))
        tree.abandoned = frozenset(one for one in found if one.pid not in below)
        found[root.id] = root.counts
        before = before._replace(faults=root.own_faults)
        after = after._replace(faults=root.own_faults)
        return _Reading(self._clock.now_ns(), found, before, after)

    def _below(self, tops: Iterable[int]) -> list[int]:
        """Return the descendants of processes, each after its parent."""
        found, todo = list[int](), list(tops)
        for pid in todo:  # which grows
            children = self._children(pid)
            found += children
            todo += children
            if len(found) > _MOST_PROCESSES:
                break
        return found

    def _children(self, pid: int) -> list[int]:
        """Return the children of a process, those of each of its threads."""
        found: list[int] = []
        for thread in self._proc.threads(pid):
            raw = self._proc.read(f"{pid}/task/{thread}/children") or b""
            found += map(int, raw.split())
        # This process records what the others wrote: it may have been started by an agent's hook.
        return [child for child in found if child != self._own]

    def _threads(self, pid: int) -> Counts:
        """Return what the living threads of a process wrote themselves."""
        own = Counts()
        for thread in self._proc.threads(pid):
            own = own.plus(self._proc.io(f"{pid}/task/{thread}/io") or Counts())
        return own

    def _process(self, pid: int) -> _Process | None:
        """Return what a process did, and its children that it waited for."""
        raw, counts = self._proc.read(f"{pid}/stat"), self._proc.io(f"{pid}/io")
        # The name, which is in parentheses, can have blanks and parentheses too.
        fields = [] if raw is None else raw.rpartition(b")")[2].split()
        if counts is None or len(fields) < 20:
            return None
        faults, children_faults, more, children_more = map(int, fields[7:11])
        own = faults + more
        every = own + children_faults + children_more
        return _Process(
            ProcessId(pid, int(fields[19])), counts._replace(faults=every), own
        )
