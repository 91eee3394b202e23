"""Whose session a program is in that an agent started: its processes say so, nothing else.

An agent can write its own settings and arguments, so neither a variable nor an argument counts.
Invariant: where two sessions fit, none does.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gitshadow.attribution.process import ProcessId, is_alive
from gitshadow.attribution.process_evidence import is_guessed
from gitshadow.errors import RefusedError, UsageError
from gitshadow.model import Actor, Burst, Call, Event, Op, Session, Turn
from gitshadow.query.resolve import ResolvedId, Thing, things
from gitshadow.store.journal import sessions
from gitshadow.store.journal.db import Db
from gitshadow.undo.targets import family

WHOLE = "session"
"""What names the whole session as a target."""


class Own(NamedTuple):
    """Hold a session and all sessions whose work is its own: itself and those below it."""

    session: Session
    whose: frozenset[str]


def own_of(db: Db, ancestors: Sequence[ProcessId]) -> Own:
    """Return the session of an agent that is the nearest of some processes.

    Args:
        db: The journal.
        ancestors: Of the program that asks, nearest first.

    Raises:
        RefusedError: no agent that runs one told of a session, or one process has several.
    """
    tops = sessions_above(db, ancestors)
    if len(tops) == 1:
        return Own(tops[0], frozenset(family(db, tops[0].id)))
    if tops:
        raise RefusedError(
            "cannot identify the current session: this process has several",
            hint="a person can use: git agent-undo sessions, git agent-undo undo TARGET",
        )
    raise RefusedError(
        "cannot identify the current session",
        hint="agent hooks report it: git agent-undo hooks install AGENT",
    )


def sessions_above(db: Db, ancestors: Sequence[ProcessId]) -> list[Session]:
    """Return the sessions of the nearest process that has any, without those below others."""
    live = [one for one in sessions.live(db) if _counts(one)]
    for process in ancestors:
        here = [one for one in live if (one.pid, one.pid_started) == process]
        known = {one.id for one in here}
        if here and is_alive(process):
            return [one for one in here if one.parent not in known]
    return []


def own_thing(db: Db, own: Own, typed: str) -> Thing:
    """Return what an id names among a session's own work.

    Raises:
        RefusedError: it names somebody else's work, or an undo.
        UsageError: it names nothing, or several things.
    """
    if typed == WHOLE:
        return own.session
    found = things(db, typed) if typed else []
    mine = [one for one in found if _is_own(one, own)]
    if len(mine) == 1:
        return mine[0].thing
    if mine:
        raise UsageError(f"ambiguous id {typed}: it matches several objects")
    if found:
        raise RefusedError(f"cannot undo {typed}: it is not work of this session")
    raise UsageError(
        f"cannot find {typed}", hint="ids are shown in the list of changes"
    )


def _counts(session: Session) -> bool:
    return session.actor is Actor.AGENT and not is_guessed(session)


def _is_own(found: ResolvedId, own: Own) -> bool:
    thing = found.thing
    if isinstance(thing, Session):
        return thing.id in own.whose
    if isinstance(thing, Turn | Call | Burst):
        return thing.session in own.whose
    if isinstance(thing, Event):
        who = thing.attribution
        return who is not None and who.session in own.whose
    assert isinstance(thing, Op)
    return False
