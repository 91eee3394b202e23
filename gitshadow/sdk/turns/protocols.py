"""What a host may plug in: structural, so that nothing needs to inherit from us.

Every method may be a plain function or, with the async front, a coroutine function; those of a
session store are plain functions in both.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Protocol, runtime_checkable

from gitshadow.model import Oid
from gitshadow.sdk.turns.commands import InStore, Procedure, T
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.undo_operation import Whole
from gitshadow.sdk.turns.values import JsonObject, Revision, UndoEntry, Work
from gitshadow.store.journal.saga_rows import (
    CallName,
    Held,
    Marker,
    SagaCall,
    SagaLogRow,
    SagaOp,
    SagaRow,
    SagaTurn,
    SessionEvent,
    Version,
)


class UndoTransaction(Protocol):
    """One turn in the host's own undo machinery."""

    def add_entry(self, entry: UndoEntry) -> Awaitable[None] | None:
        """Add one successful call."""
        ...

    def commit(self) -> Awaitable[None] | None:
        """Keep what the turn did."""
        ...

    def rollback(self) -> Awaitable[None] | None:
        """Undo what the turn did in the host's own document."""
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


class McpCaller(Protocol):
    """Reaches the MCP servers of the host, for inverses that are tools of theirs."""

    def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject,
        idempotency_key: str,
    ) -> Awaitable[object] | object:
        """Call a tool; `Outcome.failed` or `ToolFailure` only where surely nothing was done."""
        ...


class CompensationEngine(Protocol):
    """Carry out the undos of one session; the journal says what is to be done and what is.

    Every undo is in the journal before an engine gets it. The methods block: they are called
    in a thread without an event loop.
    """

    def submit(self, op: SagaOp) -> None:
        """Accept an undo: once this returns, it will be carried out even if this process dies.

        Submitting it again changes nothing.
        """
        ...

    def wait(self, op_id: str, timeout_s: float | None) -> UndoReport:
        """Return the report of an undo when it has ended.

        Raises:
            UndoPending: it has not within the time; it goes on.
            EngineError: the engine gave it up; `recover` goes on with it.
        """
        ...

    def resume(self, op_id: str) -> None:
        """Accept an undo that has ended before and left something to do."""
        ...

    def recover(self) -> list[str]:
        """Accept the undos that lost their process; return their ids, oldest first.

        It is called under the session's lock, so nobody is at work on any of them.
        """
        ...


class Working(Protocol):
    """A piece of work that is reported while it goes on."""

    @property
    def reference(self) -> str:
        """Return a text by which later work can name this one; it is kept in the journal."""
        ...

    def around(self, function: Callable[..., object]) -> Callable[..., object]:
        """Return a function to be called in place of one that does the work."""
        ...

    def ended(self, outcome: str, error: str | None) -> None:
        """Report the outcome, with the type of the exception that ended it; it must not raise."""
        ...


class Telemetry(Protocol):
    """Where work is reported; `gitshadow.sdk.integrations.otel` reports it to OpenTelemetry."""

    def started(self, work: Work) -> Working:
        """Begin to report a piece of work; it must not raise."""
        ...


class SessionLock(Protocol):
    """The right to run a turn or an undo of one session; it ends with its process."""

    def take(self) -> None:
        """Acquire it without waiting.

        Raises:
            LockedError: somebody has it, be it this very object.
        """
        ...

    def release(self) -> None:
        """Release it if it is held."""
        ...


class SagaStore(Protocol):
    """Turns, calls, undos and the log: the present state, and what happened."""

    def save(self, rows: Iterable[SagaRow]) -> None:
        """Keep rows, all or none, and durably where the store is durable.

        A turn, call or op replaces the one with its ids; a `Note` is added to the log, which has
        one chain of digests for all sessions (`saga_rows.digest_of`); a `NewEvent` gets the next
        number of its session, from 0, and each of its artifacts the next version; an `Effect` is
        kept with the number of its session's newest event (-1: none).

        Raises:
            JournalError: nothing of it was written.
        """
        ...

    def claim(
        self,
        call: CallName,
        owner: str,
        now_ns: int,
        until_ns: int,
        *,
        rows: Iterable[SagaRow] = (),
        then: Iterable[SagaRow] = (),
    ) -> bool:
        """Claim a call's inverse for one attempt, by compare-and-set; return whether it is ours.

        In one transaction with it `rows` are kept first, whether it is ours or not, and `then`
        others if it is.

        It is free where `undo` is `planned` or `failed`, or `running` with this owner or with a
        lease that has run out (`lease_ns <= now_ns`). A claim sets `running`, owner and lease and
        counts the attempt.
        """
        ...

    def free_leases(self, session: str) -> None:
        """End the leases of all claims of a session, senders' too; its lock is held."""
        ...

    def due(self, session: str, now_ns: int) -> list[Held]:
        """Return what is to be sent, in the order in which it was held.

        That is what is `due` by now, and what is `sending` with a lease that has run out.
        """
        ...

    def waiting(self, session: str) -> list[Held]:
        """Return what is `held`, `due`, `sending` or `failed`, in the same order.

        Also what is `in_doubt`, while its call is: without an outcome or `raised`, and with `undo`
        `none`.
        """
        ...

    def take_out(self, call: CallName, owner: str, now_ns: int, until_ns: int) -> bool:
        """Claim a held call for one attempt to send it, by compare-and-set, as `claim` does.

        It is free where it is `due`, or `sending` with this owner or a lease that has run out.
        """
        ...

    def withdraw(self, call: CallName) -> bool:
        """Make a call `dropped` that is `held` or `due`, `in_doubt` one that is `sending`.

        Return whether it is `dropped` now; the session's lock is held, so nobody else sends it.
        """
        ...

    def turn(self, session: str, turn: str) -> SagaTurn | None:
        """Return a turn, or None."""
        ...

    def last_turn(self, session: str) -> SagaTurn | None:
        """Return the turn with the highest ordinal, or None."""
        ...

    def turns(self, session: str) -> list[SagaTurn]:
        """Return the turns of a session by ordinal."""
        ...

    def calls(self, session: str, turn: str) -> list[SagaCall]:
        """Return the calls of a turn by ordinal."""
        ...

    def standing(
        self, session: str, digest: str, first: int, last: int
    ) -> SagaCall | None:
        """Return the newest call whose `Effect` has this digest and was not undone, or None.

        Meant are effects kept at an event from `first` to `last`, of calls without an outcome or
        with `success`, `held` or `raised`, whose `undo` is not `done`, `skipped` or `resolved`. It
        is asked before calls: its cost should not grow with the session.
        """
        ...

    def unsettled(self, session: str) -> list[SagaCall]:
        """Return the calls that a person should look at, by turn and ordinal.

        Those whose `undo` is `running`, `failed` or `in_doubt`; and those without an outcome or
        with `raised` whose
        `undo` is `none`, unless the class is `read_only` or the turn is `open`. Also damaged ones:
        `undo` is `none` or `planned`, the outcome is none, `success`, `held` or `raised`, and the
        intent is no JSON object, or the inverse none with a text as `handler`; but not `read_only`.
        """
        ...

    def op(self, op: str) -> SagaOp | None:
        """Return an undo of any session, or None."""
        ...

    def ops(self, session: str) -> list[SagaOp]:
        """Return the undos of a session, first saved first."""
        ...

    def log(self, session: str, turn: str | None = None) -> Iterator[SagaLogRow]:
        """Return the log of a session, or of one turn, oldest first."""
        ...

    def broken_at(self) -> int | None:
        """Return the first row of the whole log whose digest does not fit, or None."""
        ...


class HistoryStore(Protocol):
    """Events, values and versions: nothing is ever deleted or changed."""

    def last_seq(self, session: str) -> int:
        """Return the number of the newest event; -1 where there is none."""
        ...

    def events(self, session: str) -> list[SessionEvent]:
        """Return all events, oldest first."""
        ...

    def first_of(self, session: str, invocation: str) -> int | None:
        """Return the number of an invocation's first event, or None."""
        ...

    def invocations_since(self, session: str, seq: int) -> list[str]:
        """Return the invocations with events from a number on, by the first of those."""
        ...

    def markers(self, session: str) -> list[Marker]:
        """Return the events of kind `rewind`, newest first.

        `hidden_from` and, where it does not hide up to itself, `hidden_to` are in the body.
        """
        ...

    def state_before(self, session: str, seq: int) -> dict[str, str]:
        """Return the values that stood before an event as JSON texts, sorted by key."""
        ...

    def state_delta(self, session: str, seq: int) -> dict[str, str | None]:
        """Return what must be set for the state to be as before an event; None: absent.

        Its cost should be that of what was set since, whatever the session holds.
        """
        ...

    def versions(self, session: str, name: str) -> list[Version]:
        """Return the versions of an artifact, oldest first."""
        ...

    def artifacts(self, session: str) -> dict[str, Version]:
        """Return the newest version of each artifact that has one with a blob, by name."""
        ...

    def artifact_delta(self, session: str, seq: int) -> dict[str, Version | None]:
        """Return the version that each artifact changed since an event had before; None: none."""
        ...

    def next_version(self, session: str, name: str) -> int:
        """Return the number that an artifact's next version gets, from 0."""
        ...


class BlobStore(Protocol):
    """The bytes of artifacts, by the id that Git gives to a blob."""

    def keep(
        self, session: str, name: str, version: int, data: bytes, now_ns: int
    ) -> Oid:
        """Keep the bytes of a version and return their id.

        Raises:
            StoreError: they could not be kept.
        """
        ...

    def read(self, oid: Oid) -> bytes:
        """Return bytes; raise `StoreError` where they are gone."""
        ...

    def has(self, oid: Oid) -> bool:
        """Return whether bytes are there."""
        ...


class SessionStore(SagaStore, HistoryStore, BlobStore, Protocol):
    """Where sessions of agent programs are kept; `gitshadow.sdk.testing` checks one."""

    def store_id(self) -> str:
        """Return a random text that no other store has, the same in every opening.

        Idempotency keys begin with it: sessions of one name in two stores do not share any.
        """
        ...

    def lock(self, session: str) -> SessionLock:
        """Return the lock of a session, not taken; every call makes another object."""
        ...

    def close(self) -> None:
        """Close what the store has open."""
        ...


class Clock(Protocol):
    """Return the time."""

    def __call__(self) -> int:
        """Return nanoseconds since the epoch; it may go back, nothing is ordered by it."""
        ...


class Means(Protocol):
    """What a driver works with."""

    clock: Clock

    @property
    def store(self) -> SessionStore:
        """Return where the session is kept; raise `UsageError` in a forked process."""
        ...

    def composed(self, op: SagaOp) -> Whole:
        """Return the undo of an op."""
        ...


def in_store(function: Callable[[Means], T]) -> Procedure[T]:
    """Call a function with the means of the driver, at once, and return its value."""
    value: T = yield InStore(function)
    return value
