"""Begin and end sessions, turns and calls: as hooks report it, or as it shows without a report.

An agent that dies ends no session, and some agents never report the end of a tool. So a session
also ends with its process, and a call also ends when the only file that it names was written.
Functions that take a `Db` run inside `db.write()` of their caller, except `close_gone` and
`close_written`. Rows are right even if a payload comes late, twice or not at all.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from gitshadow.adapters import registry
from gitshadow.attribution.native_ids import is_command, is_guessed
from gitshadow.attribution.process import ProcessId, is_alive, process_of, program_at
from gitshadow.attribution.process import process_start as process_start
from gitshadow.attribution.windows import OUTCOME_UNREPORTED
from gitshadow.model import (
    PATHLESS_WRITERS,
    Actor,
    Attribution,
    Call,
    Session,
    Turn,
    micro,
)
from gitshadow.store.clock import EpochClock
from gitshadow.store.digests import digest
from gitshadow.store.journal import sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.machine import part
from gitshadow.store.refs import session_id

ENDED_BY_PROMPT = "expired: next prompt"
ENDED_BY_TURN = "expired: turn end"
ENDED_BY_SESSION = "expired: session end"
ENDED_BY_CALL = "expired: next call"
ENDED_BY_WRITE = "expired: its write"
PROCESS_GONE = "process gone"
TIMED_OUT = "timed out"
EXPIRIES = (
    ENDED_BY_PROMPT,
    ENDED_BY_TURN,
    ENDED_BY_SESSION,
    ENDED_BY_CALL,
    ENDED_BY_WRITE,
    PROCESS_GONE,
    TIMED_OUT,
    OUTCOME_UNREPORTED,
)
"""Outcomes of calls that no hook closed."""
_REVIVABLE = (PROCESS_GONE, TIMED_OUT, ENDED_BY_CALL)
_OWN_TURN = "turn-"
_HEX, _MOST_HEX = 6, 12
_SAME_PROMPT_NS = 2_000_000_000
IDLE_NS = 8 * 3_600 * 1_000_000_000
_DAY_NS = 24 * 3_600 * 1_000_000_000
# Open calls of a session expire if it reported nothing for ten minutes and its process is
# unknown, or its agent never reports ends: they would claim all later writes of the user.
SILENCE_NS = 600 * 1_000_000_000
_TOUCH_NS = 60_000_000_000
GRACE_NS = 50_000_000
"""How long an editor that empties a file first may take to fill it; no person saves within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A session as its agent names it; `parent` is an id of ours."""

    agent: str
    native_id: str
    parent: str | None = None
    process: ProcessId | None = None


def see_session(db: Db, who: Who, at_ns: int, *, may_open: bool) -> Session:
    """Return the session of an agent, opened where it is new and touched where it is not.

    Args:
        db: The journal.
        who: The session as its agent names it.
        at_ns: When the agent was seen.
        may_open: Whether a session that has ended is opened again: not by what only ends things.
    """
    known = sessions.find_native(db, who.agent, who.native_id)
    return touch_session(db, known, who, at_ns, may_open=may_open)


def touch_session(
    db: Db, known: Session | None, who: Who, at_ns: int, *, may_open: bool
) -> Session:
    """Return the session of an agent as `see_session` does, where the journal was read before."""
    if known is None:
        fresh = _new_session(db, who, at_ns)
        sessions.put(db, fresh)
        return fresh
    seen = _touched(known, who, at_ns)
    # A late payload from the spool must not open a session again that has ended since.
    if known.ended_ns is not None and may_open and at_ns > known.ended_ns:
        seen = replace(seen, ended_ns=None, end_reason=None)
    if seen != known:
        sessions.put(db, seen)
    return seen


def end_session(db: Db, session: Session, at_ns: int, reason: str) -> list[str]:
    """End a session, its open turn and calls, and the sessions that it started in its process.

    Returns:
        The ids of the sessions that were open until now.
    """
    ended: list[str] = []
    for one in (*_open_children(db, session), session):
        end_turn(db, one.id, at_ns)
        outcome = reason if reason in EXPIRIES else ENDED_BY_SESSION
        expire_calls(db, one.id, at_ns, outcome)
        if one.ended_ns is None:
            sessions.close(db, one.id, at_ns, reason)
            ended.append(one.id)
    return ended


def _new_session(db: Db, who: Who, at_ns: int) -> Session:
    # The refs store microseconds; a start with nanoseconds would differ after a rebuild from them.
    started_ns = micro(at_ns)
    name = fresh_id(db, who.agent, who.native_id, started_ns)
    return _touched(
        Session(
            id=name,
            native_id=who.native_id,
            actor=Actor.AGENT,
            agent=who.agent,
            parent=who.parent,
            started_ns=started_ns,
        ),
        who,
        at_ns,
    )


def _touched(session: Session, who: Who, at_ns: int) -> Session:
    process = who.process
    if process is not None:
        session = replace(session, pid=process.pid, pid_started=process.started)
    if session.parent is None and who.parent is not None:
        session = replace(session, parent=who.parent)
    return replace(session, last_seen_ns=max(at_ns, session.last_seen_ns or 0))


def fresh_id(db: Db, agent: str, native: str, day_ns: int) -> str:
    """Return a session id that is not in use, with more hex digits where the short one is."""
    machine, length = part(db), _HEX
    while True:
        found = session_id(agent, native, day_ns, machine=machine, length=length)
        if sessions.get(db, found) is None or length >= _MOST_HEX:
            return found
        length += 2


def _open_children(db: Db, session: Session) -> list[Session]:
    """Return the open sessions below one, innermost first; none with a process of its own."""
    # A subagent with a process of its own ends with that one; one in the parent's process cannot
    # live longer than it.
    process = (session.pid, session.pid_started)
    live = [
        one
        for one in sessions.live(db)
        if one.pid is None or (one.pid, one.pid_started) == process
    ]
    found: list[Session] = []
    above = {session.id}
    while True:
        below = [s for s in live if s.parent in above and s not in found]
        if not below:
            return found[::-1]
        found += below
        above = {one.id for one in below}


def session_above(db: Db, processes: Iterable[ProcessId]) -> Session | None:
    """Return the session of which a call started an agent, by the ancestors of its process.

    Args:
        db: The journal.
        processes: The ancestors, nearest first.

    Returns:
        None if the nearest session above is not at work, if its process may be a person's editor,
        or if the process runs several and it is not clear which it was.
    """
    for process in processes:
        live = [
            one
            for one in sessions.of_process(db, *process)
            if one.ended_ns is None and one.actor is Actor.AGENT
        ]
        if live:
            is_sure = is_command(live[0]) or program_at(process.pid).agent is not None
            return _starter(db, live) if is_sure else None
    return None


def _starter(db: Db, live: Sequence[Session]) -> Session | None:
    """Return the only one of some sessions that can have started a program."""
    open_calls = {one.id: turns.open_calls(db, one.id) for one in live}
    runs = [
        one
        for one in live
        if any(call.tool_class in PATHLESS_WRITERS for call in open_calls[one.id])
    ]
    # A program in the background begins after its call has ended, and its turn goes on.
    tops = [
        one
        for one in live
        if one.parent not in open_calls
        and (open_calls[one.id] or turns.open_turn_of(db, one.id))
    ]
    return next((few[0] for few in (runs, tops) if len(few) == 1), None)


class Asked(NamedTuple):
    """Store what began a turn: the text of the prompt, or its digest where it is not stored."""

    text: str | None = None
    digest: str | None = None

    def is_of(self, turn: Turn) -> bool:
        """Return whether a turn began with this prompt."""
        return self != _NOTHING and self == (turn.prompt, turn.prompt_digest)


_NOTHING = Asked()


def begin_turn(
    db: Db, session_id: str, wanted: str | None, at_ns: int, asked: Asked = _NOTHING
) -> Turn:
    """Begin a turn; the one that is open ends, with the calls that were left open in it.

    The same prompt delivered twice is one turn. An id that an ended turn has already gets a
    number.
    """
    started_ns = micro(at_ns)
    known = turns.near(db, session_id, wanted, started_ns)
    again = _delivered_before(known, wanted, started_ns, asked)
    if again is not None:
        if asked != _NOTHING and not asked.is_of(again):
            again = replace(again, prompt=asked.text, prompt_digest=asked.digest)
            turns.put_turn(db, again)
        return again
    end_turn(db, session_id, at_ns)
    expire_calls(db, session_id, at_ns, ENDED_BY_PROMPT)
    # A late prompt began before turns that are known: its turn ends where the next one began.
    later = [turn.started_ns for turn in known if turn.started_ns > started_ns]
    ordinal = 1 + max((turn.ordinal for turn in known), default=0)
    taken = {turn.id for turn in known}
    fresh = Turn(
        id=_free(wanted or _own_turn_id(session_id, ordinal), taken),
        session=session_id,
        ordinal=ordinal,
        started_ns=started_ns,
        ended_ns=min(later, default=None),
        prompt=asked.text,
        prompt_digest=asked.digest,
    )
    turns.put_turn(db, fresh)
    return fresh


def turn_of(
    db: Db, session_id: str, wanted: str | None, at_ns: int, *, may_open: bool
) -> str | None:
    """Return the turn in which a tool event happened.

    Args:
        db: The journal.
        session_id: Its session.
        wanted: The turn's id as the agent gives it, if it does.
        at_ns: When the event happened.
        may_open: Whether the event shows that the turn goes on: opens an unknown one, and
            re-opens one that a stop had ended (another hook can make the agent go on).
    """
    current = turns.open_turn_of(db, session_id)
    if current is not None and current.started_ns > at_ns:
        current = None
    if wanted is None:
        current = current or turns.covering(db, session_id, at_ns)
        return None if current is None else current.id
    if current is not None and _is_turn(current, wanted):
        return current.id
    known = turns.get_turn(db, session_id, wanted)
    if known is not None:
        if may_open and current is None and known.ended_ns is not None:
            _reopen(db, known, at_ns)
        return known.id
    if current is not None and _is_own(current):
        return current.id
    if not may_open:
        return None if current is None else current.id
    return begin_turn(db, session_id, wanted, at_ns).id


def end_turn(
    db: Db, session_id: str, at_ns: int, wanted: str | None = None
) -> Turn | None:
    """End the open turn of a session, unless another one is meant or it began later.

    Returns:
        The turn that ended now.
    """
    current = turns.open_turn_of(db, session_id)
    if current is None or current.started_ns > at_ns:
        return None
    other = wanted is not None and not _is_turn(current, wanted)
    if other and turns.get_turn(db, session_id, wanted or "") is not None:
        return None
    turns.close_turn(db, session_id, current.id, at_ns)
    return current


def continue_turn(db: Db, session_id: str, at_ns: int) -> str | None:
    """Return the open turn of a session, or its newest one, opened again.

    Returns:
        None where the session has had no turn.
    """
    known = turns.newest(db, session_id)
    if known is not None:
        _reopen(db, known, at_ns)
    return known.id if known is not None else None


def _is_own(turn: Turn) -> bool:
    """Return whether a turn has an id of ours; a subagent's part of such a turn has not."""
    return turn.id.startswith(_OWN_TURN) and "/" not in turn.id


def _is_turn(turn: Turn, wanted: str) -> bool:
    return turn.id == wanted or turn.id.startswith(wanted + "~")


def _delivered_before(
    known: list[Turn], wanted: str | None, at_ns: int, asked: Asked
) -> Turn | None:
    for turn in reversed(known):
        # Where a prompt is not known, nothing shows that the turn began with another one.
        is_known = asked != _NOTHING and (turn.prompt or turn.prompt_digest) is not None
        same_text = not is_known or asked.is_of(turn)
        ended = turn.ended_ns is not None and at_ns >= turn.ended_ns
        if wanted is not None and _is_turn(turn, wanted) and same_text and not ended:
            return turn
        near = abs(at_ns - turn.started_ns) < _SAME_PROMPT_NS
        if wanted is None and asked != _NOTHING and near and not ended:
            return turn if asked.is_of(turn) else None
    return None


def _free(wanted: str, taken: set[str]) -> str:
    number, found = 2, wanted
    while found in taken:
        number, found = number + 1, f"{wanted}~{number}"
    return found


def _own_turn_id(session_id: str, ordinal: int) -> str:
    return _OWN_TURN + digest(f"{session_id}\0{ordinal}", 6)


def _reopen(db: Db, turn: Turn, at_ns: int) -> None:
    if turn.ended_ns is not None and at_ns > turn.ended_ns:
        last = turns.newest(db, turn.session)
        if last is None or last.started_ns <= turn.started_ns:
            turns.put_turn(db, replace(turn, ended_ns=None))


def expire_calls(
    db: Db,
    session_id: str,
    at_ns: int,
    outcome: str,
    only: Callable[[Call], bool] = lambda call: True,
) -> list[Call]:
    """Close the calls of a session that were opened up to a moment and are still open.

    Returns:
        The calls as they are now.
    """
    stale = [
        call
        for call in turns.open_calls(db, session_id)
        if call.opened_ns <= at_ns and only(call)
    ]
    for call in stale:
        turns.close_call(db, session_id, call.id, at_ns, outcome)
    return [replace(call, closed_ns=at_ns, outcome=outcome) for call in stale]


def may_close(call: Call, at_ns: int, *, outlives_turn: bool) -> bool:
    """Return whether a hook's word changes the end of a call.

    Args:
        call: The call.
        at_ns: When the hook reported its end.
        outlives_turn: Whether the call may be a subagent's, which goes on when its parent stops.
    """
    # A report may only shorten a window that expired: what came after it has been attributed to
    # others. It may lengthen one that ended because the process was not found, because another call
    # began, or at the end of another agent's turn.
    if call.closed_ns is None:
        return True
    if call.outcome is not None and call.outcome not in EXPIRIES:
        return False
    if outlives_turn and call.outcome in (ENDED_BY_TURN, ENDED_BY_PROMPT):
        return True
    return at_ns < call.closed_ns or call.outcome in _REVIVABLE


def is_current(last: Session, now_ns: int) -> bool:
    """Return whether the last personal session still takes the writes that are noticed now."""
    # Only forward: writes that are found late have earlier times, and must not open a new session.
    if last.ended_ns is not None:
        return False
    seen_ns = max(last.started_ns, last.last_seen_ns or 0)
    if now_ns - seen_ns >= IDLE_NS:
        return False
    return now_ns // _DAY_NS <= last.started_ns // _DAY_NS


def personal_session(
    actor: Actor,
    last: Session | None,
    now_ns: int,
    name: Callable[[str, str, int], str],
) -> Session:
    """Return the session that takes a personal write noticed now.

    Args:
        actor: HUMAN or UNKNOWN.
        last: The newest session of that actor, None when there was none.
        now_ns: The present moment.
        name: Gives the id of a new session of an agent, by its native id and first moment.

    Returns:
        `last` itself where it goes on, else a new session that the caller stores.
    """
    if last is not None and is_current(last, now_ns):
        return last
    native = f"{actor.value}-{now_ns}"
    return Session(
        id=name(actor.value, native, now_ns),
        native_id=native,
        actor=actor,
        agent=None,
        started_ns=now_ns,
        last_seen_ns=now_ns,
    )


class PersonalSessions:
    """The rotating sessions of human and unknown writes, opened in one journal."""

    def __init__(self, db: Db, clock: EpochClock) -> None:
        self._db = db
        self._clock = clock
        self._known: dict[Actor, Session] = {}

    def forget(self) -> None:
        """Forget the sessions in use: they may have been dropped."""
        self._known.clear()

    def of(self, actor: Actor) -> Session:
        """Return the session of HUMAN or UNKNOWN writes that are noticed now."""
        now_ns = self._clock.now_ns()
        known = self._known.get(actor)
        if known is not None and is_current(known, now_ns):
            fresh = now_ns - (known.last_seen_ns or 0) < _TOUCH_NS
            if fresh:
                return known
        last = sessions.newest_of(self._db, actor)
        session = personal_session(actor, last, now_ns, partial(fresh_id, self._db))
        session = replace(session, last_seen_ns=now_ns)
        with self._db.write():
            if last is not None and last.ended_ns is None and session.id != last.id:
                sessions.close(self._db, last.id, now_ns, "rotated")
            sessions.put(self._db, session)
        self._known[actor] = session
        return session


def close_gone(
    db: Db,
    opened: Iterable[Session],
    now_ns: int,
    alive: dict[ProcessId, int] | None = None,
    lives: Callable[[ProcessId], bool] = is_alive,
) -> tuple[str, ...]:
    """End every agent's session whose process is gone, with its turn and calls.

    Args:
        db: The journal.
        opened: Its sessions that have not ended.
        now_ns: The present moment.
        alive: When each process was last seen alive; brought up to date, so that only processes
            of these sessions are left.
        lives: Whether a process lives now.

    Returns:
        The ids of the sessions that ended.

    Raises:
        JournalError: the journal could not be written.
    """
    live = [one for one in opened if one.actor is Actor.AGENT]
    known = {one for one in map(process_of, live) if one is not None}
    dead = {one for one in known if not lives(one)}
    seen = {} if alive is None else alive
    for process in seen.keys() - known:
        del seen[process]
    # Remembered from look to look: nobody reports when a process dies, so the last sight of it
    # bounds what it can have written.
    seen |= dict.fromkeys(known - dead, now_ns)
    gone = [one for one in live if process_of(one) in dead]
    silent = [one for one in live if _is_silent(one, now_ns)]
    # A hook reported a session for the process of these.
    hooked = {process_of(one) for one in live if not is_guessed(one)}
    spoken_for = [s for s in live if is_guessed(s) and process_of(s) in hooked]
    if not gone and not silent and not spoken_for:
        return ()
    ended: list[str] = []
    with db.write():
        for session in gone:
            # What was written after it was last seen may be a person's, right after the kill.
            own = process_of(session)
            seen_ns = 0 if own is None else seen.get(own, 0)
            end_ns = min(now_ns, max(seen_ns, session.last_seen_ns or now_ns))
            ended += end_session(db, session, end_ns, PROCESS_GONE)
        for session in spoken_for:
            ended += end_session(db, session, now_ns, "its hooks are active now")
        for session in silent:
            end_ns = session.last_seen_ns or now_ns
            expire_calls(db, session.id, end_ns, TIMED_OUT)
    return tuple(dict.fromkeys(ended))


def _is_silent(session: Session, now_ns: int) -> bool:
    heard_ns = session.last_seen_ns or session.started_ns
    unsure = session.pid is None or registry.traits(session.agent).never_ends
    return unsure and now_ns - heard_ns > SILENCE_NS


def close_written(db: Db, writes: Iterable[tuple[int, Attribution]]) -> int:
    """Close the windows whose write has been seen.

    Args:
        db: The journal.
        writes: When each write happened, and whose it is.

    Returns:
        How many windows were closed.

    Raises:
        JournalError: the journal could not be written.
    """
    # A call of an agent that never reports ends would stay open, and claim what a person writes to
    # the same file a moment later.
    spent = [
        (at_ns, call) for at_ns, who in writes for call in _calls_ended_by(db, who)
    ]
    if not spent:
        return 0
    with db.write():
        for at_ns, call in spent:
            turns.close_call(
                db, call.session, call.id, at_ns + GRACE_NS, ENDED_BY_WRITE
            )
    return len(spent)


def _calls_ended_by(db: Db, who: Attribution) -> list[Call]:
    if who.call is None or not registry.traits(who.agent).never_ends:
        return []
    call = turns.get_call(db, who.session, who.call)
    if call is None or call.closed_ns is not None or len(call.paths) != 1:
        return []
    return [call]
