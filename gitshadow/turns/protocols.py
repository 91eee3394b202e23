"""What a host may plug in: structural, so that nothing needs to inherit from us.

Every method may be a plain function or, with the async front, a coroutine function.
"""

from collections.abc import Awaitable
from typing import Protocol, runtime_checkable

from gitshadow.turns.values import Revision, UndoEntry


class UndoTransaction(Protocol):
    """One turn in the host's own undo machinery."""

    def add_entry(self, entry: UndoEntry) -> Awaitable[None] | None:
        """Take note of one successful call."""
        ...

    def commit(self) -> Awaitable[None] | None:
        """Keep what the turn did."""
        ...

    def rollback(self) -> Awaitable[None] | None:
        """Take back what the turn did in the host's own document."""
        ...


class UndoTransactionProvider(Protocol):
    """The host's own undo machinery; it gets one transaction per turn."""

    def begin_transaction(
        self, label: str
    ) -> Awaitable[UndoTransaction] | UndoTransaction:
        """Open a transaction under the turn's label."""
        ...


class RevisionProvider(Protocol):
    """The host's document, as far as its version is concerned."""

    def current_revision(self) -> Awaitable[Revision] | Revision:
        """Return the present version; it is asked before every call, never kept."""
        ...


@runtime_checkable
class ContextSource(Protocol):
    """Something about the host's state that a model should know."""

    def summary(self) -> Awaitable[str] | str:
        """Return the present state in a few lines."""
        ...


class Clock(Protocol):
    """Tell the time."""

    def __call__(self) -> int:
        """Return nanoseconds since the epoch; it may go back, nothing is ordered by it."""
        ...
