"""Ids as people type them: whole, or a prefix that fits one thing only.

Invariant: what names nothing or several things is a UsageError (exit 2) that lists candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from gitshadow.errors import UnknownIdError, UsageError
from gitshadow.model import Burst, Call, Event, Op, Session, Turn
from gitshadow.store.journal import bursts, events, ops, sessions, turns
from gitshadow.store.journal.db import Db

_SHOWN = 6
_T = TypeVar("_T")
Thing = Session | Turn | Call | Burst | Op | Event


@dataclass(frozen=True, slots=True)
class ResolvedId:
    """Hold one thing that an id names."""

    id: str
    thing: Thing


def session_of(db: Db, typed: str) -> Session:
    """Return the session that an id, a native id or a unique prefix of either names.

    Raises:
        UsageError: none fits, or several do.
    """
    found = sessions.by_prefix(db, typed)
    return _only(typed, found, [session.id for session in found], "session")


def find(db: Db, typed: str) -> ResolvedId:
    """Return what an id names, of any kind: seq, call, turn, burst, session or op.

    Raises:
        UsageError: nothing fits, or several things do.
    """
    chosen = things(db, typed)
    return _only(typed, chosen, [item.id for item in chosen], "id")


def things(db: Db, typed: str) -> list[ResolvedId]:
    """Return all that an id may name: what it names exactly, else what begins so."""
    if typed.isdigit() and typed.isascii():
        event = events.get(db, int(typed))
        if event is not None:
            return [ResolvedId(typed, event)]
    found = [ResolvedId(item.id, item) for item in sessions.by_prefix(db, typed)]
    found += [ResolvedId(item.id, item) for item in turns.turns_by_prefix(db, typed)]
    found += [ResolvedId(item.id, item) for item in turns.calls_by_prefix(db, typed)]
    found += [ResolvedId(item.id, item) for item in bursts.by_prefix(db, typed)]
    found += [ResolvedId(item.id, item) for item in ops.by_prefix(db, typed)]
    return [item for item in found if item.id == typed] or found


def _only(typed: str, found: Sequence[_T], ids: Sequence[str], what: str) -> _T:
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownIdError(
            f"cannot find {what} {typed}",
            typed=typed,
            hint="to list ids: git agent-undo log, git agent-undo sessions",
        )
    shown = ", ".join(ids[:_SHOWN]) + (" …" if len(ids) > _SHOWN else "")
    raise UsageError(
        f"ambiguous id '{typed}': matches {len(found)} objects", hint=shown
    )
