"""Savepoints of turns, and what the running code is inside of: its savepoint, its calls.

Both are known by context variables, so a task and a function in `asyncio.to_thread` are inside of
what started them. A thread that was started without a copy of the context is inside of nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class SavepointState(StrEnum):
    """How far a savepoint is: nothing begins in one that has failed or is undone."""

    OPEN = "open"
    KEPT = "kept"
    FAILED = "failed"
    UNDONE = "undone"


@dataclass(slots=True, eq=False)
class Savepoint:
    """A part of a turn; `number` is unique in it, `around` what its block is inside of."""

    turn: object
    number: int
    name: str
    at_ns: int
    around: "Savepoint | None"
    state: SavepointState = SavepointState.OPEN

    def outward(self) -> "Iterator[Savepoint]":
        """Yield this savepoint and those around it, also of other turns."""
        yield self
        if self.around is not None:
            yield from self.around.outward()

    def chain(self) -> "list[Savepoint]":
        """Return this savepoint and those of the same turn around it."""
        return [one for one in self.outward() if one.turn is self.turn]


_SAVEPOINT: ContextVar[Savepoint | None] = ContextVar(
    "gitshadow_savepoint", default=None
)
_CALLS: ContextVar[tuple[tuple[int, str], ...]] = ContextVar(
    "gitshadow_calls", default=()
)


def present() -> Savepoint | None:
    """Return the innermost savepoint of this context, of whichever turn."""
    return _SAVEPOINT.get()


def present_of(turn: object) -> Savepoint | None:
    """Return the innermost savepoint of a turn in this context."""
    found = present()
    chain = found.outward() if found is not None else ()
    return next((one for one in chain if one.turn is turn), None)


@contextmanager
def inside(point: Savepoint) -> Iterator[None]:
    """Make a block the inside of a savepoint."""
    _SAVEPOINT.set(point)
    try:
        yield
    finally:
        # A token would be refused where a generator ends in another context than it began in.
        if _SAVEPOINT.get() is point:
            _SAVEPOINT.set(point.around)


@contextmanager
def inside_call(turn: object, call: str) -> Iterator[None]:
    """Make a block the inside of a call of a turn."""
    around = _CALLS.get()
    mine = (*around, (id(turn), call))
    _CALLS.set(mine)
    try:
        yield
    finally:
        if _CALLS.get() is mine:
            _CALLS.set(around)


def is_inside_call(turn: object, call: str) -> bool:
    """Return whether this code runs inside of a call of a turn."""
    return (id(turn), call) in _CALLS.get()
