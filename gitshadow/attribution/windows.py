"""The evidence for the ladder: one observed write, and what was going on at that time.

Values and pure predicates only. All times are of the worktree's file system.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.model import PATHLESS_WRITERS, Call, RepoPath, Session
from gitshadow.store.paths import is_within

OUTCOME_FAILED = "failed"
OUTCOME_DENIED = "denied"
OUTCOME_UNREPORTED = "expired: no end reported"
DID_NOT_RUN = (OUTCOME_DENIED, OUTCOME_UNREPORTED)
"""Outcomes of calls of which only the hook before the tool came."""


class ProcessHint(NamedTuple):
    """One living process that is evidence for a writer.

    `session` is None for a foreign one. `turn` is that in which a background process was started.
    """

    pid: int
    session: str | None
    name: str = ""
    turn: str | None = None


class Witnessed(NamedTuple):
    """Who wrote, as the kernel reported it, with the reason.

    `session` is None for a process that no known agent started. `call` is None for what was left
    running. `candidates` are the sessions of several writers.
    """

    reason: str
    session: str | None = None
    turn: str | None = None
    call: Call | None = None
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Store what is known about the moment of one write.

    Attributes:
        path: The path that changed.
        old_path: Where a renamed file stood before.
        also: Other names of the file, one of which may have been written: hard links, and the
            name that a temporary file gets when it is whole.
        begin_ns: The last time at which the path is known to have held its old state.
        end_ns: The write's ctime; for a deletion the moment it was noticed, or the ctime of the
            nearest living ancestor, whichever is earlier.
        exact: Whether the write happened at `end_ns` itself. False for a deletion, which
            happened at some time up to then.
        offline: Whether nothing watched at the time: the change was found at a start.
        editor: Whether there is a sign that only an editor leaves: a swap or lock file, vim's
            `4913`. A temporary file that was renamed is none: agents and formatters save like
            that too.
        holder: A living process that holds the path open.
        excluded: Calls and turns, by session and id, whose processes did not run at the time, or
            wrote fewer bytes than this write needs.
        unlisted: Calls, by session and id, whose agents listed all files that were different
            afterwards, without this one.
        ending: Sessions whose agents' processes ended at about that time: nobody knows whether
            before the write or after it.
        lost: Sessions whose agents died unseen before that, in a call that may have made the write.
        witnessed: Who wrote by the kernel's report, where there is one for the whole interval.
    """

    path: RepoPath
    begin_ns: int
    end_ns: int
    old_path: RepoPath | None = None
    also: tuple[RepoPath, ...] = ()
    exact: bool = True
    offline: bool = False
    editor: bool = False
    holder: ProcessHint | None = None
    excluded: frozenset[tuple[str, str]] = frozenset()
    unlisted: frozenset[tuple[str, str]] = frozenset()
    ending: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    witnessed: Witnessed | None = None


class OpenTurn(NamedTuple):
    """A turn that was open at the time of the write.

    `covers_all` is set if every writing tool of the agent opens a window of its own.
    """

    session: str
    turn: str | None
    agent: str | None
    covers_all: bool
    started_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Store what was going on at the time of one write.

    Attributes:
        windows: Every call window that meets the interval of the evidence, of any session.
        turns: The turns that were open at its end.
        sessions: The sessions that the windows, turns and processes name, and their parents.
        human: The session that a person declared and that was open at the end.
        background: Living processes that a session started and that outlived their call.
        alone: The only agent's process in the worktree, if no hook has reported any session.
        tolerance_ns: By how much two stamps of one moment may differ.
    """

    windows: tuple[Call, ...] = ()
    turns: tuple[OpenTurn, ...] = ()
    sessions: tuple[Session, ...] = ()
    human: str | None = None
    background: tuple[ProcessHint, ...] = ()
    alone: ProcessHint | None = None
    tolerance_ns: int = 0
    _by_id: dict[str, Session] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {one.id: one for one in self.sessions})

    def session(self, session_id: str | None) -> Session | None:
        """Return a session of the scene."""
        return None if session_id is None else self._by_id.get(session_id)

    def ancestors(self, session_id: str) -> tuple[str, ...]:
        """Return the sessions above one, nearest first, as far as the scene knows them."""
        found: list[str] = []
        here = self.session(session_id)
        while here is not None and here.parent is not None and here.parent not in found:
            found.append(here.parent)
            here = self.session(here.parent)
        return tuple(found)

    def without(self, excluded: frozenset[tuple[str, str]]) -> "Scene":
        """Return the scene without some calls and turns, given by session and id."""
        silent = {session for session, _ in excluded}
        return replace(
            self,
            windows=tuple(c for c in self.windows if (c.session, c.id) not in excluded),
            turns=tuple(t for t in self.turns if (t.session, t.turn) not in excluded),
            background=tuple(p for p in self.background if p.session not in silent),
        )

    def root(self, session_id: str) -> str:
        """Return the topmost session above one, itself where it has no parent."""
        above = self.ancestors(session_id)
        return above[-1] if above else session_id


def names(call: Call, evidence: Evidence) -> bool:
    """Return whether a window's hook names the path, a directory above it, or its old path."""
    wanted = [evidence.path, *evidence.also]
    if evidence.old_path is not None:
        wanted.append(evidence.old_path)
    return any(is_within(path, named) for named in call.paths for path in wanted)


def could_write(call: Call, evidence: Evidence) -> bool:
    """Return whether a call can have written the path, by what its tool is and names."""
    # The hook before the tool came, and then the user refused it: it never ran.
    if call.outcome in DID_NOT_RUN:
        return False
    if call.paths:
        return names(call, evidence)
    return call.tool_class in PATHLESS_WRITERS


def possible(scene: Scene, evidence: Evidence) -> tuple[Call, ...]:
    """Return the windows of the scene that can have written the path."""
    return tuple(call for call in scene.windows if could_write(call, evidence))


def is_around(call: Call, calls: Iterable[Call], scene: Scene) -> bool:
    """Return whether a window is only open around that of a session which it started."""
    # A tool that runs a subagent is open as long as the subagent works. The subagent's own window
    # names the writer better, and two candidates would make each of its writes ambiguous.
    if call.paths:
        return False
    return any(
        call.session in scene.ancestors(other.session) and _started(call, other, scene)
        for other in calls
        if other.session != call.session
    )


def _started(call: Call, other: Call, scene: Scene) -> bool:
    child = scene.session(other.session)
    if child is None:
        return False
    # A later call may continue the session that an earlier one has started.
    begun = (one.started_ns for one in scene.turns if one.session == child.id)
    return any(
        call.contains(one_ns, scene.tolerance_ns)
        for one_ns in (child.started_ns, *begun)
    )
