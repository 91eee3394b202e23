"""Find which processes exist, since when, and to which agent or session they belong.

Each answer may be out of date a moment later, and what cannot be read is None.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from gitshadow.attribution.markers import (
    MANAGED_MARK,
    PID_MARKERS,
    AncestorProcess,
    KnownSessions,
    ProgramName,
    owners,
    program_of,
    read_variables,
    runs_hook_alone,
)
from gitshadow.attribution.windows import ProcessHint
from gitshadow.model import Actor, Call, Session
from gitshadow.platform import current
from gitshadow.platform.port import ProcessId as ProcessId
from gitshadow.platform.port import ProcessStat
from gitshadow.store.backends import git_pipes

PROGRAM = "git-agent-undo"
"""How the name begins that the kernel has for a process that runs our command."""

# A scan reads hundreds of files, and a burst of writes asks for each one.
SCAN_INTERVAL_S = 1.0
_MAX_ANCESTORS = 64
_Key = tuple[int, int, int]
_SHELLS = frozenset({b"sh", b"bash", b"dash", b"ash", b"zsh", b"ksh", b"fish"})
# Programs that agents start hooks through. They live only as long as the hook, so a session must
# not be bound to one of them: it would end with it.
_AGENT_NAME = re.compile(rb"[a-z][a-z-]*")
_WRAPPERS = frozenset(
    {
        b"env",
        b"git",  # `git agent-undo hook` waits for the command that it finds
        b"timeout",
        b"nice",
        b"nohup",
        b"setsid",
        b"stdbuf",
        b"time",
        b"uv",
        b"uvx",
    }
)
_MOST_SCRIPT_BYTES = 64 * 1024


class Living(NamedTuple):
    """Store one living process and the sessions to which it may belong.

    `roots` are the topmost sessions above each: several different ones where it is not clear
    whose it is.
    """

    id: ProcessId
    sessions: tuple[str, ...]
    roots: tuple[str, ...]
    name: str
    started_ns: int

    def rivals(self, session: str) -> tuple[str, ...]:
        """Return the sessions of others to which it may as well belong as to one of its own."""
        own = self.roots[self.sessions.index(session)]
        pairs = zip(self.sessions, self.roots, strict=True)
        return tuple(one for one, root in pairs if root != own)


class AgentProcess(NamedTuple):
    """Store one living process that runs an agent; None: a program that may be one."""

    id: ProcessId
    agent: str | None
    cwd: str
    started_ns: int


def process_start(pid: int) -> int | None:
    """Return when a process started, in the unit of `ProcessId`.

    Returns:
        None when no such process lives; one that ended and was not waited for is dead too.
    """
    stat = current().process_facts().stat(pid)
    return None if stat is None or stat.dead else stat.id.started


def living(pid: int | None, at_ns: int | None = None) -> ProcessId | None:
    """Return what names a process, None unless it lives now, and lived at a moment."""
    started = None if pid is None else process_start(pid)
    if pid is None or started is None:
        return None
    found = ProcessId(pid, started)
    is_newer = at_ns is not None and at_ns + _coarse_ns() < started_ns(found)
    return None if is_newer else found


def process_of(owner: Session | Call) -> ProcessId | None:
    """Return the process of a session or call; a server's many sessions have one and the same."""
    if owner.pid is None or owner.pid_started is None:
        return None
    return ProcessId(owner.pid, owner.pid_started)


def is_alive(process: ProcessId) -> bool:
    """Return whether this very process lives, not another that got its pid."""
    return process_start(process.pid) == process.started


def ancestors(pid: int) -> tuple[ProcessId, ...]:
    """Return a process and its ancestors, nearest first, init left out."""
    facts = current().process_facts()
    found: list[ProcessId] = []
    while pid > 1 and len(found) < _MAX_ANCESTORS:
        stat = facts.stat(pid)
        if stat is None:
            break
        found.append(stat.id)
        pid = stat.parent
    return tuple(found)


def command_line(pid: int) -> tuple[bytes, ...]:
    """Return a process's arguments, empty when they cannot be read."""
    return current().process_facts().command_line(pid)


def program_at(pid: int) -> ProgramName:
    """Return what a process runs, nothing when it cannot be read."""
    words = [os.fsdecode(word) for word in command_line(pid)]
    return program_of(current().process_facts().executable(pid), words)


def tools_of(agent: ProcessId) -> tuple[ProcessId, ...]:
    """Return the living processes that an agent has started, but not our hooks."""
    # The recorder can run below an agent, and even be what a session is about (`exec` without a
    # daemon). What it asks of Git is nothing that the agent does.
    ours = git_pipes.children()
    return tuple(
        one.id
        for one in current().process_facts().own()
        if one.parent == agent.pid
        and one.id.pid not in ours
        and not one.dead
        and not one.name.startswith(PROGRAM)
        and not _is_wrapper(one.id, None)
    )


class ProcessScan:
    """Find which processes belong to a session, looking at all of them once a second at most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._variables: dict[_Key, Mapping[str, str] | None] = {}
        self._programs: dict[_Key, ProgramName] = {}
        self._facts = current().process_facts()
        self._table = self._facts.table()
        self._stats: dict[int, ProcessStat] = {}
        self._agents: tuple[AgentProcess, ...] | None = None
        self._agents_before: tuple[AgentProcess, ...] = ()
        self._scanned_s: float | None = None

    def living(
        self, sessions: Iterable[Session], *, rescan: bool = False
    ) -> tuple[Living, ...]:
        """Return the processes of some sessions that live now, by pid.

        A process belongs to the nearest session that its variables and ancestors name, and
        with it to all of a family that have the same claim. The agents
        themselves are left out, and so are our own programs and what waits for them: a hook
        that has just closed a window is none that outlived it. Only processes of this user are
        seen. One that started within the last second may be missing without `rescan`.
        """
        if rescan:
            self._scanned_s = None
            self._table.forget()
        self._scan()
        kept = tuple(sessions)
        known, agents = KnownSessions(kept), _agents_of(kept)
        # A hook that has just closed a window must not count as a process that outlived it: our
        # hooks and commands are left out, with all their ancestors.
        ours = {os.getpid()}
        for stat in self._stats.values():
            if stat.name.startswith(PROGRAM):
                ours.update(one.id.pid for one in self._chain(stat))
        found: list[Living] = []
        for pid in sorted(self._stats.keys() - ours):
            stat = self._stats[pid]
            owned = () if stat.id in agents else self._owners(stat, known, agents)
            if owned and is_alive(stat.id):
                roots = tuple(map(known.root, owned))
                began_ns = started_ns(stat.id)
                found.append(Living(stat.id, owned, roots, stat.name, began_ns))
        return tuple(found)

    def session_of(self, pid: int, sessions: Iterable[Session]) -> str | None:
        """Return the session that a process belongs to, as known within the last second.

        Returns:
            The innermost of a family; None if it has none or it is not clear.
        """
        kept = tuple(sessions)
        found, known = self.sessions_of(pid, kept), KnownSessions(kept)
        return found[-1] if len({known.root(one) for one in found}) == 1 else None

    def sessions_of(self, pid: int, sessions: Iterable[Session]) -> tuple[str, ...]:
        """Return all sessions that a process may belong to, as known within the last second.

        Several if one program runs several of them and nothing shows which it is.
        """
        self._scan()
        kept = tuple(sessions)
        stat = self._stats.get(pid)
        return (
            ()
            if stat is None
            else self._owners(stat, KnownSessions(kept), _agents_of(kept))
        )

    def agents(self) -> tuple[AgentProcess, ...]:
        """Return the processes that run agents or what may be one, of each tree the topmost.

        Those of the scan before are among them: one that has ended since may still have written
        what is noticed only now.
        """
        self._scan()
        if self._agents is None:
            self._agents = tuple(self._agents_now())
        found = {one.id: one for one in (*self._agents_before, *self._agents)}
        return tuple(found.values())

    def _owners(
        self,
        stat: ProcessStat,
        known: KnownSessions,
        agents: Mapping[ProcessId, tuple[str, ...]],
    ) -> tuple[str, ...]:
        links = [
            AncestorProcess(agents.get(one.id, ()), self._variables_of(one))
            for one in self._chain(stat)
            # These adopt orphans; that one is an ancestor says nothing about who started them.
            if not self._facts.adopts_orphans(one) or one.id in agents
        ]
        return owners(links, known)

    def _chain(self, stat: ProcessStat) -> Iterator[ProcessStat]:
        here: ProcessStat | None = stat
        for _ in range(_MAX_ANCESTORS):
            if here is None:
                return
            yield here
            here = self._stats.get(here.parent)

    def _agents_now(self) -> Iterator[AgentProcess]:
        nothing = ProgramName()
        for stat in self._stats.values():
            program = self._program_of(stat)
            if program == nothing:
                continue
            above = islice(self._chain(stat), 1, None)
            if any(self._program_of(one) == program for one in above):
                continue
            cwd = self._facts.directory(stat.id.pid) or ""
            yield AgentProcess(stat.id, program.agent, cwd, started_ns(stat.id))

    def pids(self) -> tuple[int, ...]:
        """Return this user's processes, up to a second old, without this one."""
        self._scan()
        return tuple(pid for pid in self._stats if pid != os.getpid())

    def holder(
        self, pids: Iterable[int], sessions: Iterable[Session], before_ns: int
    ) -> ProcessHint | None:
        """Return the process, of some that hold a file, that shows whose it is.

        Args:
            pids: The processes that hold it.
            sessions: The sessions whose processes are known again.
            before_ns: When the first window was opened. A process outside all sessions tells
                something only if it is older: an editor runs the commands of an agent in it
                in processes that do not descend from the agent's.

        Returns:
            One outside all sessions before one of a session; None where there is none, or
            where those of several sessions hold the file, or it is not clear whose one is.
        """
        kept = tuple(sessions)
        known, agents = KnownSessions(kept), _agents_of(kept)
        hints: dict[str, ProcessHint] = {}
        for stat in (self._stats[pid] for pid in pids if pid in self._stats):
            found = self._owners(stat, known, agents)
            # Only an older process: an editor runs commands of an agent in processes that do not
            # descend from the agent's.
            if not found and started_ns(stat.id) + _coarse_ns() < before_ns:
                return ProcessHint(stat.id.pid, None, stat.name)
            for one in found:
                hints[known.root(one)] = ProcessHint(stat.id.pid, one, stat.name)
        return next(iter(hints.values())) if len(hints) == 1 else None

    def _scan(self) -> None:
        now_s = self._clock()
        if self._scanned_s is not None and now_s - self._scanned_s < SCAN_INTERVAL_S:
            return
        self._scanned_s = now_s
        # One that has ended since the last scan may have written what is noticed only now.
        self._agents_before, self._agents = self._agents or (), None
        ours = git_pipes.children()
        self._stats = {p: one for p, one in self._table.look().items() if p not in ours}
        # Programs come and go by the thousand in a build, so what is kept of dead ones is dropped
        # now and then.
        if len(self._variables) + len(self._programs) > 4 * len(self._stats):
            living = {stat.key for stat in self._stats.values()}
            self._variables = {k: v for k, v in self._variables.items() if k in living}
            self._programs = {k: v for k, v in self._programs.items() if k in living}

    def _variables_of(self, stat: ProcessStat) -> Mapping[str, str] | None:
        """Return the variables of the environment; a program never changes them later.

        None where it cannot be read, or where the program has written over it.
        """
        if stat.key not in self._variables:
            raw = self._facts.environment(stat.id.pid)
            self._variables[stat.key] = read_variables(raw) if raw else None
        return self._variables[stat.key]

    def _program_of(self, stat: ProcessStat) -> ProgramName:
        found = self._programs.get(stat.key)
        if found is None:
            found = self._programs[stat.key] = program_at(stat.id.pid)
        return found


def _agents_of(sessions: Iterable[Session]) -> Mapping[ProcessId, tuple[str, ...]]:
    """Return which processes are the agents of which sessions."""
    found: dict[ProcessId, tuple[str, ...]] = {}
    for one in sessions:
        if one.actor is not Actor.AGENT:
            continue
        process = process_of(one)
        if process is not None:
            found[process] = (*found.get(process, ()), one.id)
    return found


def started_ns(process: ProcessId) -> int:
    """Return when a process started, in nanoseconds since the epoch."""
    return current().process_facts().started_ns(process.started)


def _coarse_ns() -> int:
    return current().process_facts().COARSE_NS


def agent_process(
    agent: str, pids: Sequence[ProcessId], env: Mapping[str, str]
) -> ProcessId | None:
    """Choose the agent among the ancestors of a hook.

    Args:
        agent: The agent's name.
        pids: The ancestors of the hook program, nearest first.
        env: The markers that the hook program found in its environment.

    Returns:
        The process that the agent names itself, where it is an ancestor and no nearer one runs
        the same agent: then the variable is an outer agent's, let through. Else the nearest
        living one that is no mere wrapper around the hook; None when none of them lives.
    """
    nearest = _nearest(pids)
    # An agent that names its own process is believed only if no nearer ancestor runs the same
    # agent: then the variable was inherited from an outer one.
    named = env.get(PID_MARKERS.get(agent, ""), "")
    for number, process in enumerate(pids):
        if named == str(process.pid) and is_alive(process):
            inner = pids.index(nearest) if nearest is not None else number
            return nearest if _is_nested(pids[inner:number], agent) else process
    return nearest


def _nearest(pids: Sequence[ProcessId]) -> ProcessId | None:
    for number, process in enumerate(pids):
        above = pids[number + 1] if number + 1 < len(pids) else None
        if is_alive(process) and not _is_wrapper(process, above):
            return process
    return None


def _is_nested(between: Sequence[ProcessId], agent: str) -> bool:
    """Return whether the first of some processes is an agent that a tool of another one started.

    An agent's own workers run its program too, but they are right below it.
    """
    agents = [program_at(process.pid).agent for process in between]
    return agents[:1] == [agent] and any(one != agent for one in agents)


def _is_wrapper(process: ProcessId, above: ProcessId | None) -> bool:
    arguments = command_line(process.pid)
    if not arguments or not arguments[0]:
        return False
    if arguments[0].rsplit(b"/", 1)[-1] in _WRAPPERS or _passes_hook_on(arguments):
        return True
    if arguments[0].rsplit(b"/", 1)[-1].removeprefix(b"-") not in _SHELLS:
        return False
    # A subshell is a copy of its shell, with the same arguments.
    if above is not None and command_line(above.pid) == arguments:
        return True
    return _runs_hook_alone(process, arguments[1:])


def _passes_hook_on(arguments: Sequence[bytes]) -> bool:
    """Return whether a program was started with our command, which it starts in turn.

    People put `flock`, `mise exec` and the like before it; a shell may run a shim of its name.
    """
    names = [one.rsplit(b"/", 1)[-1] for one in arguments]
    # The name of an agent comes next. An agent whose prompt mentions us has no such argument.
    return any(
        (one, two) == (PROGRAM.encode(), b"hook") and _AGENT_NAME.fullmatch(three)
        for one, two, three in zip(names, names[1:], names[2:], strict=False)
    )


def _runs_hook_alone(process: ProcessId, arguments: Sequence[bytes]) -> bool:
    """Return whether the text or the script of a shell runs the hook and nothing after it.

    Some agents run a script per event by its path (Cline), so the hook is in no `-c` text. People
    may call us from a script of their own in that place.
    """
    for option, text in pairwise(arguments):
        if re.fullmatch(rb"-[a-z]*c[a-z]*", option):
            return runs_hook_alone(text)
    scripts = [one for one in arguments if not one.startswith(b"-")]
    text = _script_text(process, scripts[0]) if scripts else b""
    return MANAGED_MARK.encode() in text or runs_hook_alone(text)


def _script_text(process: ProcessId, script: bytes) -> bytes:
    """Return a script's text, nothing where it cannot be read; its path may be relative."""
    where = current().process_facts().place(process.pid, script)
    if where is None:
        return b""
    try:
        descriptor = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(descriptor, _MOST_SCRIPT_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
