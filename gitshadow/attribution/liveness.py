"""Sessions of agents that died: ended when last seen, never left to claim what a person writes.

Invariant: a session ends here only when its process is provably gone; a call without a known
process, or of an agent that reports no ends, ends after ten minutes in which nothing was heard of
its session.
"""

from gitshadow.adapters import registry
from gitshadow.attribution import lifecycle
from gitshadow.attribution.background_processes import is_guessed
from gitshadow.attribution.process import ProcessId, is_alive
from gitshadow.attribution.process import process_start as process_start
from gitshadow.model import Actor, Call, Session
from gitshadow.store.journal import sessions
from gitshadow.store.journal.db import Db

SILENCE_NS = 600 * 1_000_000_000
WATCHED_NS = 1_000_000_000
"""A process that was seen this shortly before it was missed has died just now."""


def close_gone(
    db: Db, now_ns: int, alive: dict[ProcessId, int] | None = None
) -> tuple[str, ...]:
    """End every agent's session whose process is gone, with its turn and calls.

    Args:
        db: The journal.
        now_ns: The present moment.
        alive: When each process was last seen alive; brought up to date.

    Returns:
        The ids of the sessions that ended.

    Raises:
        JournalError: the journal could not be written.
    """
    live = [one for one in sessions.live(db) if one.actor is Actor.AGENT]
    known = {one for one in map(_process, live) if one is not None}
    dead = {one for one in known if not is_alive(one)}
    seen = {} if alive is None else alive
    seen |= dict.fromkeys(known - dead, now_ns)
    gone = [one for one in live if _process(one) in dead]
    silent = [one for one in live if _is_silent(one, now_ns)]
    spoken_for = [s for s in live if is_guessed(s) and _is_spoken_for(s, live)]
    if not gone and not silent and not spoken_for:
        return ()
    ended: list[str] = []
    with db.write():
        for session in gone:
            end_ns, named_ns = _last_ns(session, now_ns, seen)
            lifecycle.expire_calls(
                db, session.id, named_ns, lifecycle.PROCESS_GONE, _names_paths
            )
            ended += lifecycle.end_session(db, session, end_ns, lifecycle.PROCESS_GONE)
        for session in spoken_for:
            lifecycle.end_session(db, session, now_ns, "its hooks are active now")
        for session in silent:
            end_ns = session.last_seen_ns or now_ns
            lifecycle.expire_calls(db, session.id, end_ns, lifecycle.TIMED_OUT)
    return tuple(dict.fromkeys(ended))


def _last_ns(
    session: Session, now_ns: int, seen: dict[ProcessId, int]
) -> tuple[int, int]:
    """Return until when a dead process may have worked, and until when at paths that it named.

    Nobody knows when it died. What was written after it was last seen may be somebody else's: only
    at a path that its open call names is the write its own, if it was seen a moment ago.
    """
    process = _process(session)
    seen_ns = 0 if process is None else seen.get(process, 0)
    last_ns = min(now_ns, max(seen_ns, session.last_seen_ns or now_ns))
    return last_ns, now_ns if 0 <= now_ns - seen_ns <= WATCHED_NS else last_ns


def _names_paths(call: Call) -> bool:
    return bool(call.paths)


def _process(session: Session) -> ProcessId | None:
    """Return the process of a session; a server's many sessions have one and the same."""
    if session.pid is None or session.pid_started is None:
        return None
    return ProcessId(session.pid, session.pid_started)


def _is_spoken_for(guessed: Session, live: list[Session]) -> bool:
    """Tell whether a hook has told of the session of a process that was only guessed at."""
    process = (guessed.pid, guessed.pid_started)
    return any(
        (one.pid, one.pid_started) == process for one in live if not is_guessed(one)
    )


def _is_silent(session: Session, now_ns: int) -> bool:
    heard_ns = session.last_seen_ns or session.started_ns
    unsure = session.pid is None or registry.traits(session.agent).never_ends
    return unsure and now_ns - heard_ns > SILENCE_NS
