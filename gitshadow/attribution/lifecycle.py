"""Sessions, turns and calls as rows: opened, re-opened, ended and expired.

Every function runs inside `db.write()` of its caller. Times are stored as they come, starts in
whole microseconds, as the refs hold them.
Invariant: rows are put right for a payload that comes late, twice or not at all; what ended by
itself claims nothing after its end.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from gitshadow.attribution.process import ProcessId
from gitshadow.model import Actor, Call, Session, Turn
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
)
"""Outcomes of calls that no hook closed."""

_OWN_TURN = "turn-"
_HEX, _MOST_HEX = 6, 12
_SAME_PROMPT_NS = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Name a session as its agent does; `parent` is ours."""

    agent: str
    native_id: str
    parent: str | None = None
    process: ProcessId | None = None


def microseconds(at_ns: int) -> int:
    """Cut a time to whole microseconds, the precision of the refs."""
    return at_ns - at_ns % 1_000


# Sessions


def see_session(db: Db, who: Who, at_ns: int, *, may_open: bool) -> Session:
    """Return the session of an agent, opened where it is new and touched where it is not.

    Args:
        db: The journal.
        who: The session as its agent names it.
        at_ns: When the agent was seen.
        may_open: Whether a session that has ended is opened again: not by what only ends things.
    """
    known = sessions.find_native(db, who.agent, who.native_id)
    if known is None:
        fresh = _new_session(db, who, at_ns)
        sessions.put(db, fresh)
        return fresh
    seen = _touched(known, who, at_ns)
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
    started_ns = microseconds(at_ns)
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


# Turns


def begin_turn(
    db: Db, session_id: str, wanted: str | None, at_ns: int, prompt: str | None = None
) -> Turn:
    """Begin a turn; the one that is open ends, with the calls that were left open in it.

    The same prompt delivered twice is one turn. An id that an ended turn has already gets a
    number.
    """
    started_ns = microseconds(at_ns)
    all_turns = turns.list_turns(db, session_id)
    again = _delivered_before(all_turns, wanted, started_ns, prompt)
    if again is not None:
        if again.prompt is None and prompt is not None:
            again = replace(again, prompt=prompt)
            turns.put_turn(db, again)
        return again
    end_turn(db, session_id, at_ns)
    expire_calls(db, session_id, at_ns, ENDED_BY_PROMPT)
    later = [turn.started_ns for turn in all_turns if turn.started_ns > started_ns]
    ordinal = 1 + max((turn.ordinal for turn in all_turns), default=0)
    taken = {turn.id for turn in all_turns}
    fresh = Turn(
        id=_free(wanted or _own_turn_id(session_id, ordinal), taken),
        session=session_id,
        ordinal=ordinal,
        started_ns=started_ns,
        ended_ns=min(later, default=None),
        prompt=prompt,
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
        return _covering(db, session_id, at_ns) if current is None else current.id
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
    known = turns.list_turns(db, session_id)
    if known and known[-1].ended_ns is not None:
        _reopen(db, known[-1], at_ns)
    return known[-1].id if known else None


def _is_own(turn: Turn) -> bool:
    """Return whether a turn has an id of ours; a subagent's part of such a turn has not."""
    return turn.id.startswith(_OWN_TURN) and "/" not in turn.id


def _is_turn(turn: Turn, wanted: str) -> bool:
    return turn.id == wanted or turn.id.startswith(wanted + "~")


def _delivered_before(
    all_turns: list[Turn], wanted: str | None, at_ns: int, prompt: str | None
) -> Turn | None:
    for turn in reversed(all_turns):
        same_text = prompt is None or turn.prompt in (None, prompt)
        ended = turn.ended_ns is not None and at_ns >= turn.ended_ns
        if wanted is not None and _is_turn(turn, wanted) and same_text and not ended:
            return turn
        near = abs(at_ns - turn.started_ns) < _SAME_PROMPT_NS
        if wanted is None and prompt is not None and near and not ended:
            return turn if turn.prompt == prompt else None
    return None


def _free(wanted: str, taken: set[str]) -> str:
    number, found = 2, wanted
    while found in taken:
        number, found = number + 1, f"{wanted}~{number}"
    return found


def _own_turn_id(session_id: str, ordinal: int) -> str:
    text = f"{session_id}\0{ordinal}".encode()
    return _OWN_TURN + hashlib.sha256(text).hexdigest()[:12]


def _reopen(db: Db, turn: Turn, at_ns: int) -> None:
    if turn.ended_ns is not None and at_ns > turn.ended_ns:
        later = [
            one
            for one in turns.list_turns(db, turn.session)
            if one.started_ns > turn.started_ns
        ]
        if not later:
            turns.put_turn(db, replace(turn, ended_ns=None))


def _covering(db: Db, session_id: str, at_ns: int) -> str | None:
    for turn in reversed(turns.list_turns(db, session_id)):
        if turn.started_ns <= at_ns and (
            turn.ended_ns is None or at_ns < turn.ended_ns
        ):
            return turn.id
    return None


# Calls


def expire_calls(
    db: Db,
    session_id: str,
    at_ns: int,
    outcome: str,
    only: Callable[[Call], bool] = lambda call: True,
) -> int:
    """Close the calls of a session that were opened up to a moment and are still open.

    Returns:
        How many there were.
    """
    stale = [
        call
        for call in turns.open_calls(db, session_id)
        if call.opened_ns <= at_ns and only(call)
    ]
    for call in stale:
        turns.close_call(db, session_id, call.id, at_ns, outcome)
    return len(stale)
