"""Collect what processes show about a write: who may have made it, and who cannot have made it.

No system records who wrote a file. Open files show who may still write it, start times show which
process outlived its call, and counters what an agent's processes did at most between two looks.
What a system does not show is no evidence. An agent without hooks is named only if no other one is
in the worktree.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gitshadow.attribution.native_ids import is_guessed
from gitshadow.attribution.process import (
    AgentProcess,
    Living,
    ProcessId,
    is_alive,
    process_start,
    started_ns,
    tools_of,
)
from gitshadow.attribution.windows import ProcessHint
from gitshadow.model import PATHLESS_WRITERS, Actor, Call, Session
from gitshadow.platform import current
from gitshadow.platform.port import (
    Activity,
    Counts,
    ProcessCounters,
    ProcessEnd,
    ProcessState,
)
from gitshadow.store.backends import git_pipes
from gitshadow.store.clock import EpochClock
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import discover

# Start times are in clock ticks of 10 ms, and the time of the boot and file stamps are as inexact.
_TICK_NS = 20_000_000
INTERVAL_S = 1.0
EXIT_THREAD = "process end"
"""The name of the threads that wait for the end of a process."""
# On a machine with very many open files a look takes long: then it is made less often, so that it
# costs at most a hundredth of the time.
_LOOK_SHARE = 100
_MAX_LEFTOVERS = 64
_REMEMBERED_NS = 60_000_000_000
"""How long a leftover that has ended is kept: its last write may be noticed late."""
# Looks come with the kernel's events, so these are those of the last second of a busy machine.
_LOOKS = 256
# A process that ends while its siblings are listed can hide one of them.
_TRIES = 3
# To count more processes than this takes longer than the name of an author is worth.
_MOST_PROCESSES = 256
_UNKNOWN = Counts(1 << 62, 1 << 62)
"""More than any file needs."""


def outliving(db: Db, living: Iterable[Living], end_ns: int) -> tuple[ProcessHint, ...]:
    """Return those of some living processes that a call started which is over by now.

    Args:
        db: The journal.
        living: Living processes of sessions.
        end_ns: The moment of the write that they might explain.
    """
    found: list[ProcessHint] = []
    for process in living:
        begin_ns = process.started_ns - _TICK_NS
        # A process that was started outside every call is no tool's: agents keep servers for
        # themselves.
        windows = turns.windows_between(db, begin_ns, process.started_ns + _TICK_NS)
        over = {call.session: call for call in windows if _is_over(call, end_ns)}
        for session in (one for one in process.sessions if one in over):
            pid, name = process.id.pid, process.name
            found.append(ProcessHint(pid, session, name, over[session].turn))
            rivals = process.rivals(session)
            found += (ProcessHint(pid, rival, name) for rival in rivals)
    return tuple(found)


def running(db: Db, session: Session, before_ns: int) -> frozenset[str]:
    """Return the calls of a session whose processes run, by id.

    A process belongs to the call that was reported last before it started: an earlier call whose
    end was not reported has no process any more.

    Args:
        db: The journal.
        session: An agent's; its shells are processes that it started itself.
        before_ns: The moment before which the processes started.
    """
    if session.pid is None or session.pid_started is None:
        return frozenset()
    calls = [
        call
        for call in turns.list_calls(db, session.id)
        if call.tool_class in PATHLESS_WRITERS
    ]
    found: set[str] = set()
    for process in tools_of(ProcessId(session.pid, session.pid_started)):
        begin_ns = started_ns(process)
        if begin_ns + _TICK_NS < before_ns:
            began = (one for one in calls if one.opened_ns <= begin_ns + _TICK_NS)
            found.update(one.id for one in list(began)[-1:])
    return frozenset(found)


def without_hooks(
    agents: Iterable[AgentProcess], live: Iterable[Session], root: str, begin_ns: int
) -> AgentProcess | None:
    """Return the agent's process that is the only one in a worktree without hooks.

    Args:
        agents: The processes that run agents or what may be one: editors, shared names.
        live: The sessions that have not ended.
        root: The real path of the worktree.
        begin_ns: When the write may have begun; who started later did not do it.

    Returns:
        None if a hook reported a session, if several processes or a possible editor are in the
        worktree, or if none is.
    """
    # If hooks report a session, the mere process of another agent is not evidence enough.
    if any(one.actor is Actor.AGENT and not is_guessed(one) for one in live):
        return None
    here = [one for one in agents if _stands_in(one.cwd, root)]
    if len(here) != 1 or here[0].agent is None:
        return None
    return here[0] if here[0].started_ns + _TICK_NS <= begin_ns else None


def _stands_in(cwd: str, root: str) -> bool:
    """Return whether a directory belongs to a worktree and not to another one inside it."""
    if cwd != root and not cwd.startswith(root + "/"):
        return False
    # A directory below the worktree can be in a submodule or another worktree.
    found = discover(cwd)
    return found is not None and found.root == root


def _is_over(call: Call, end_ns: int) -> bool:
    """Return whether a call that can write had ended by a moment."""
    if call.tool_class not in PATHLESS_WRITERS:
        return False
    return call.closed_ns is not None and call.closed_ns <= end_ns


class OpenFiles:
    """Find who holds a file below one directory open for writing.

    All processes are looked at once a second, and a holder that was found then once more.
    """

    def __init__(
        self,
        root: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._top = os.fsencode(root).rstrip(b"/") + b"/"
        self._clock = clock
        self._writers: Mapping[bytes, tuple[int, ...]] = {}
        self._next_s: float | None = None

    def writers(
        self, path: bytes, pids: Callable[[], Iterable[int]]
    ) -> tuple[int, ...]:
        """Return the processes that hold a file open for writing, in the order of their pids.

        Args:
            path: Its absolute path, links followed.
            pids: Gives the processes to look at, where it is time to look again.
        """
        now_s = self._clock()
        if self._next_s is None or now_s >= self._next_s:
            self._writers = self._look(pids())
            cost_s = self._clock() - now_s
            self._next_s = now_s + max(INTERVAL_S, _LOOK_SHARE * cost_s)
            return self._writers.get(path, ())
        # Who closed the file since did not write what was seen now.
        return tuple(
            pid for pid in self._writers.get(path, ()) if self._holds(pid, path)
        )

    def _holds(self, pid: int, path: bytes) -> bool:
        return path in current().process_facts().written_files(pid, self._top)

    def _look(self, pids: Iterable[int]) -> Mapping[bytes, tuple[int, ...]]:
        facts = current().process_facts()
        found: dict[bytes, dict[int, None]] = {}
        for pid in sorted(pids):
            for target in facts.written_files(pid, self._top):
                found.setdefault(target, {})[pid] = None
        return {path: tuple(holders) for path, holders in found.items()}


@dataclass(slots=True)
class _Watch:
    """A process whose end is waited for.

    `lived_ns` is when it was last seen alive, `ended_ns` when its thread noted the end; both by the
    monotonic clock. `is_late`: the end was seen before it was noted, or noted a while after it. The
    thread closes `end` when it notes the end.
    """

    end: ProcessEnd
    lived_ns: int
    ended_ns: int | None = None
    is_late: bool = False


# An agent that is killed reports nothing. Its last hook may be much older than its last write, and
# a look at it comes after both. So a thread waits for the end of each process. On a busy machine
# a write that came later can be judged before that thread runs. So `ended` asks the kernel, too:
# then only the moments are known between which the process ended.
class Exits:
    """The moments at which watched processes ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[ProcessId, _Watch] = {}
        self._unsure_ns: dict[ProcessId, tuple[int, int]] = {}

    def watch(self, process: ProcessId) -> None:
        """Note from now on when a process ends, where the kernel can report it."""
        if process in self._watched:
            return
        end = current().process_facts().end_of(process.pid)
        if end is None:
            return
        lived_ns = time.monotonic_ns()
        if not is_alive(process):
            end.close()
            return
        watch = self._watched[process] = _Watch(end, lived_ns)
        threading.Thread(
            target=self._wait, args=(watch,), name=EXIT_THREAD, daemon=True
        ).start()

    def is_alive(self, process: ProcessId) -> bool:
        """Return whether a process lives; a watched one until its last thread has ended."""
        watch = self._watched.get(process)
        return is_alive(process) if watch is None else not self._is_over(watch)

    def has_not_ended(self, process: ProcessId) -> bool:
        """Return whether a process lived when `ended` was called last, or lives if not watched."""
        return process in self._watched or is_alive(process)

    def ended(self, now_ns: Callable[[], int]) -> dict[ProcessId, int]:
        """Return until when the processes may have lived that have ended since the last call.

        Args:
            now_ns: The clock of the moments.
        """
        over = [one for one, watch in self._watched.items() if self._is_over(watch)]
        if not over and not self._unsure_ns:
            return {}
        present_ns = now_ns()
        offset_ns = present_ns - time.monotonic_ns()
        found: dict[ProcessId, int] = {}
        for process in over:
            watch = self._watched.pop(process)
            ended_ns = watch.ended_ns
            latest_ns = present_ns if ended_ns is None else offset_ns + ended_ns
            found[process] = latest_ns
            if watch.is_late:
                self._unsure_ns[process] = offset_ns + watch.lived_ns, latest_ns
        self._unsure_ns = {
            process: unsure
            for process, unsure in self._unsure_ns.items()
            if present_ns - unsure[1] <= _REMEMBERED_NS
        }
        return found

    def is_unsure(self, process: ProcessId, begin_ns: int, end_ns: int) -> bool:
        """Return whether nobody knows if a process still lived at a moment of an interval."""
        unsure = self._unsure_ns.get(process)
        return unsure is not None and unsure[0] <= end_ns and begin_ns <= unsure[1]

    def _is_over(self, watch: _Watch) -> bool:
        """Return whether a process has ended, and note that it was seen alive if it has not."""
        with self._lock:
            if watch.ended_ns is not None or watch.is_late:
                return True
            now_ns = time.monotonic_ns()
            watch.is_late = watch.end.has_come()
            if not watch.is_late:
                watch.lived_ns = now_ns
            return watch.is_late

    def _wait(self, watch: _Watch) -> None:
        moment = watch.end.wait()
        with self._lock:
            watch.ended_ns = max(watch.lived_ns, moment.at_ns)
            watch.is_late |= moment.is_late
            watch.end.close()


class _Leftover(NamedTuple):
    """Store a process that outlived its call.

    The counts are those of the last look that found another one, None where they tell nothing.
    `until_ns` is when it ended.
    """

    hints: tuple[ProcessHint, ...]
    counted: Activity | None = None
    written_ns: int = 0
    ran_ns: int = 0
    until_ns: int | None = None


# A background command writes last and then ends, and its agent may end before it. So what is left
# running is remembered while the agent reports something, and looked at from then on. The counters
# only exclude: a server that wrote nothing did not write the file that a person saved.
class Leftovers:
    """The processes that calls of agents have left running."""

    def __init__(self) -> None:
        self._known: dict[ProcessId, _Leftover] = {}
        self._exits = Exits()

    def __bool__(self) -> bool:
        """Return whether there is any, or was a moment ago."""
        return bool(self._known)

    def note(self, db: Db, living: Iterable[Living], now_ns: int) -> None:
        """Remember those of some living processes of sessions that outlived their call."""
        for process in living:
            if process.id not in self._known and not self._is_full():
                hints = outliving(db, (process,), now_ns)
                if hints:
                    self._add(process.id, hints)

    def _add(self, process: ProcessId, hints: tuple[ProcessHint, ...]) -> None:
        self._known[process] = _Leftover(hints)
        self._exits.watch(process)

    def look(self, clock: Callable[[], int]) -> None:
        """See which of them live, what they have started, and whether they did anything."""
        if not self._known:
            return
        for process, ended_ns in self._exits.ended(clock).items():
            known = self._known[process]
            self._known[process] = known._replace(until_ns=ended_ns)
        now_ns, todo = clock(), list(self._known)
        while todo:
            process = todo.pop()
            known = self._known[process]
            if known.until_ns is not None:
                if now_ns - known.until_ns > _REMEMBERED_NS:
                    del self._known[process]
            elif self._exits.is_alive(process):
                todo += self._add_children(process, known)
                self._known[process] = self._looked(process, known, now_ns)
            else:
                self._known[process] = known._replace(until_ns=now_ns)

    def at(self, moment_ns: int, *, writes_bytes: bool) -> tuple[ProcessHint, ...]:
        """Return those that may have made a change.

        Args:
            moment_ns: When it was made; the last look came after it.
            writes_bytes: Whether it cannot be made without writing any.
        """
        found: list[ProcessHint] = []
        for one in self._known.values():
            since_ns = one.written_ns if writes_bytes else one.ran_ns
            is_quiet = one.counted is not None and since_ns < moment_ns - _TICK_NS
            has_ended = one.until_ns is not None and one.until_ns < moment_ns
            if not has_ended and (one.until_ns is not None or not is_quiet):
                found += one.hints
        return tuple(found)

    def _looked(self, process: ProcessId, known: _Leftover, now_ns: int) -> _Leftover:
        now, before = current().process_facts().activity(process.pid), known.counted
        written_ns = ran_ns = now_ns
        if now is not None and before is not None:
            written_ns = known.written_ns if now.written == before.written else now_ns
            ran_ns = known.ran_ns if now.ran_ns == before.ran_ns else now_ns
        return known._replace(counted=now, written_ns=written_ns, ran_ns=ran_ns)

    def _add_children(self, process: ProcessId, known: _Leftover) -> list[ProcessId]:
        """Remember what a process has started since; the kernel counts it there when it ends."""
        found: list[ProcessId] = []
        for child in current().process_facts().children(process.pid):
            started = process_start(child)
            one = None if started is None else ProcessId(child, started)
            if one is None or one in self._known or self._is_full():
                continue
            hints = tuple(hint._replace(pid=one.pid) for hint in known.hints)
            self._add(one, hints)
            found.append(one)
        return found

    def _is_full(self) -> bool:
        return len(self._known) >= _MAX_LEFTOVERS


class ProcessLook(NamedTuple):
    """What was read of an agent's processes at one look.

    `own` is what the agent's threads wrote themselves, read before the rest and after it. Between
    looks with different `losses` a process ended whose bytes nobody inherited. `recorders` is the
    least that our own processes wrote of all this.
    """

    number: int
    began_ns: int
    at_ns: int
    states: Mapping[ProcessId, ProcessState]
    counts: Mapping[ProcessId, Counts]
    own: tuple[Counts, Counts]
    losses: int
    recorders: Counts = Counts()


_START = ProcessLook(0, 0, 0, {}, {}, (Counts(), Counts()), 0)
"""The look before a process did anything."""


class Did(NamedTuple):
    """The most that an agent's processes did between two looks.

    `whole`: what all of them wrote, `below`: without the agent's own threads; None if that is not
    known. `slept`: no process below the agent ran.
    """

    whole: Counts | None = None
    below: Counts | None = None
    slept: bool = False


class ProcessTree:
    """An agent's process, what is below it, and what was below it once, look by look."""

    def __init__(
        self,
        root: ProcessId,
        counters: ProcessCounters,
        recorders: Callable[[ProcessId], Counts] = lambda _: Counts(),
        *,
        adopts: bool = False,
    ) -> None:
        # A process that has adopted every orphan below it since its start has all that these ever
        # did in its counts, whenever they are first read.
        self.root = root
        self.looks: deque[ProcessLook] = deque([_START] if adopts else (), _LOOKS)
        self.known: tuple[ProcessId, ...] = ()
        self._counters = counters
        self._recorders = recorders
        self._own_pid = os.getpid()
        self._elsewhere: frozenset[ProcessId] = frozenset()
        self._losses = 0

    def look(self, number: int, clock: EpochClock) -> bool:
        """Read the counts; return whether the agent lives."""
        began_ns = clock.now_ns()
        # First: no more is subtracted than was counted.
        ours = self._recorders(self.root)
        for _ in range(_TRIES):
            found = self._read(number, began_ns)
            if found is not None:
                found = found._replace(at_ns=clock.now_ns(), recorders=ours)
                self.looks.append(found)
                return True
        state = self._counters.state(self.root.pid, None, is_agent=True)
        return state is not None and state.id == self.root

    def did(self, first: ProcessLook | None, last: ProcessLook | None) -> Did:
        """Return the most that the processes did between two looks."""
        if first is None or last is None:
            return Did()
        slept = _slept(self.root, first, last)
        whole = _written(first, last)
        if whole is None:
            return Did(slept=slept)
        return Did(whole, whole.minus(last.own[0].minus(first.own[1])), slept)

    def _read(self, number: int, began_ns: int) -> ProcessLook | None:
        """Return a look; None if a process ended during it, or there are too many."""
        last = self.looks[-1] if self.looks else None
        before = {} if last is None else {one.pid: s for one, s in last.states.items()}
        counters, agent = self._counters, self.root.pid
        threads = counters.threads(agent)
        own = counters.counts_of_threads(agent, threads)
        found: dict[int, ProcessState] = {}
        if not self._add({agent: self.root}, before, found) or agent not in found:
            return None
        below = set(found)
        left = {one.pid: one for one in self.known if one.pid not in below}
        if not self._add(left, before, found):
            return None
        done: dict[ProcessId, Counts] = {}
        # Each is read before its parent: what ends in between is counted twice, never left out.
        for pid, state in reversed(found.items()):
            if last is not None and state is before.get(pid):
                done[state.id] = last.counts[state.id]
                continue
            counts = counters.counts_of(pid)
            if counts is None and not state.ended:
                return None
            # What one wrote that ended and was not waited for is only for root to read.
            done[state.id] = counts or _UNKNOWN
        after = counters.counts_of_threads(agent, threads)
        states = {state.id: state for state in found.values()}
        # Nobody in the tree waited for what is elsewhere: what it did at last is in no count.
        self._losses += not self._elsewhere <= states.keys()
        self._elsewhere = frozenset(one for one in states if one.pid not in below)
        self.known = tuple(states)
        return ProcessLook(
            number, began_ns, 0, states, done, (own, after), self._losses
        )

    def _add(
        self,
        tops: Mapping[int, ProcessId],
        before: Mapping[int, ProcessState],
        found: dict[int, ProcessState],
    ) -> bool:
        """Add those of some processes that live, and their descendants, each after its parent.

        Return False if a descendant ended before it was read, or there are too many.
        """
        # This process records what the others wrote: it may have been started by an agent's hook.
        ours = {self._own_pid, *git_pipes.children()}
        todo = list(tops)
        for pid in todo:  # which grows
            if pid in found or (pid in ours and pid not in tops):
                continue
            is_agent = pid == self.root.pid
            state = self._counters.state(pid, before.get(pid), is_agent=is_agent)
            if pid in tops and (state is None or state.id != tops[pid]):
                continue
            if state is None or len(found) >= _MOST_PROCESSES:
                return False
            found[pid] = state
            todo += state.children
        return True


# Only a process that runs can write, start another one, or wait for one that ended. What an agent
# started and waited for between two looks has made page faults, as every process does.
def _slept(root: ProcessId, first: ProcessLook, last: ProcessLook) -> bool:
    """Return whether nothing below an agent ran between two looks."""
    if first.states.keys() != last.states.keys():
        return False
    return first.states[root].reaped == last.states[root].reaped and all(
        one == root or (state.runs and state.runs == first.states[one].runs)
        for one, state in last.states.items()
    )


def _written(first: ProcessLook, last: ProcessLook) -> Counts | None:
    """Return what processes wrote between two looks, None if that is not known."""
    # A process that is gone is in the counts of its parent, with all that it ever did. So what it
    # had done before is subtracted only where it still lives.
    if first.losses != last.losses:
        return None
    total = Counts()
    for one, counts in last.counts.items():
        done = counts.minus(first.counts.get(one, Counts()))
        if min(done) < 0:
            return None
        total = total.plus(done)
    return total.minus(last.recorders.minus(first.recorders))
