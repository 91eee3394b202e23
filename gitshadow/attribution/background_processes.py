"""Processes that may have written without a window: left over from a call, or without hooks.

Invariant: a server that an agent keeps for itself is none that outlived a call: it was not
started in the window of a tool that can write. An agent without hooks is named only where it is
the only one that lives in the worktree.
"""

from collections.abc import Iterable

from gitshadow.attribution.process import AgentProcess, Living, ProcessId
from gitshadow.attribution.windows import ProcessHint
from gitshadow.model import PATHLESS_WRITERS, Actor, Call, Session
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import discover

GUESSED = "pid-"
"""How the native id begins of a session that stands for a process, without any word of a hook."""

_TICK_NS = 20_000_000
"""Start times are counted in clock ticks of 10 ms, from a boot time that is about as coarse."""


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
        windows = turns.windows_between(db, begin_ns, process.started_ns + _TICK_NS)
        over = {call.session: call for call in windows if _is_over(call, end_ns)}
        for session in (one for one in process.sessions if one in over):
            pid, name = process.id.pid, process.name
            found.append(ProcessHint(pid, session, name, over[session].turn))
            rivals = process.rivals(session)
            found += (ProcessHint(pid, rival, name) for rival in rivals)
    return tuple(found)


def guessed_id(process: ProcessId) -> str:
    """Return the native id of the session of an agent's process without hooks."""
    return f"{GUESSED}{process.pid}-{process.started}"


def is_guessed(session: Session) -> bool:
    """Tell whether a session is an agent's because of its process alone."""
    return session.actor is Actor.AGENT and session.native_id.startswith(GUESSED)


def without_hooks(
    agents: Iterable[AgentProcess], live: Iterable[Session], root: str, begin_ns: int
) -> AgentProcess | None:
    """Return the agent's process that is the only one in a worktree, where no hook speaks.

    Args:
        agents: The processes that run agents or what may be one: editors, shared names.
        live: The sessions that have not ended.
        root: The real path of the worktree.
        begin_ns: When the write may have begun; who started later did not do it.

    Returns:
        None where a hook has told of any session, where several processes or one that may be
        an editor stand in the worktree, and where none does.
    """
    if any(one.actor is Actor.AGENT and not is_guessed(one) for one in live):
        return None
    here = [one for one in agents if _stands_in(one.cwd, root)]
    if len(here) != 1 or here[0].agent is None:
        return None
    return here[0] if here[0].started_ns + _TICK_NS <= begin_ns else None


def _stands_in(cwd: str, root: str) -> bool:
    """Tell whether a directory belongs to a worktree and not to another one inside it."""
    if cwd != root and not cwd.startswith(root + "/"):
        return False
    found = discover(cwd)
    return found is not None and found.root == root


def _is_over(call: Call, end_ns: int) -> bool:
    """Tell whether a call that can write had ended by a moment."""
    if call.tool_class not in PATHLESS_WRITERS:
        return False
    return call.closed_ns is not None and call.closed_ns <= end_ns
