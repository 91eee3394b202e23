"""Turns of agent programs among the recorder's: which row holds what a turn wrote to files.

A program's turn is told of under its own id, in a session whose native id is the program's.
Invariant: a turn that another one of that id came before is never taken for it.
"""

from gitshadow.adapters.generic import NAME as GENERIC
from gitshadow.model import Turn
from gitshadow.store.journal import sessions, turns
from gitshadow.store.journal.db import Db

_SLACK_NS = 2_000_000_000
"""By how much the program's clock may be ahead of the file system's."""


def recorded_turn(
    db: Db, native: str, agent: str | None, turn: str, since_ns: int
) -> Turn | None:
    """Return the recorder's row of a program's turn, or None where it was not told of it.

    Args:
        db: The journal.
        native: The program's id of its session.
        agent: The name that it gives itself.
        turn: Its id of the turn; the recorder adds a number where that was taken.
        since_ns: When the turn began: one that began before is another one.
    """
    session = sessions.find_native(db, agent or GENERIC, native)
    if session is None:
        return None
    found = (
        one
        for one in turns.list_turns(db, session.id)
        if one.id == turn or one.id.startswith(turn + "~")
    )
    later = (one for one in found if one.started_ns >= since_ns - _SLACK_NS)
    return min(later, key=lambda one: one.started_ns, default=None)
