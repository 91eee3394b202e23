"""What the core asks its driver to do, and what the driver answers.

A procedure is a generator: it yields a command and is sent the event that answers it. It does
nothing itself, so the same procedure runs in both fronts, in a test without a journal, and can be
dropped after any command, as a crash would. Tuples, because a hook's process loads them all: to
define a frozen dataclass takes six times as long.
Invariant: user code runs in drivers alone; what it raises comes back as an event.
"""

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, TypeVar

from gitshadow.model import Oid
from gitshadow.sdk.turns.policy import Proposal
from gitshadow.sdk.turns.values import JsonObject
from gitshadow.store.journal.saga_rows import (
    CallName,
    Held,
    SagaCall,
    SagaOp,
    SagaRow,
    SagaTurn,
)

T = TypeVar("T")

UNTOLD = "files_untold"
"""The kind of note that says what the recorder of files does not know of a turn."""


class Invoke(NamedTuple):
    """Run a function of the host; the event is `Returned`, `Raised` or `TimedOut`.

    One that is `blocking` gets a thread of its own where others would wait for it.
    """

    function: Callable[..., object]
    args: tuple[object, ...] = ()
    kwargs: JsonObject = MappingProxyType({})
    timeout_s: float | None = None
    blocking: bool = False


class Returned(NamedTuple):
    """Say what a function returned."""

    value: object


class Raised(NamedTuple):
    """Say what a function raised; a cancellation of its own work is among that."""

    error: BaseException


class TimedOut(NamedTuple):
    """Say that a function took too long; `goes_on`: nothing could stop it."""

    seconds: float
    goes_on: bool = False


class Save(NamedTuple):
    """Write rows in one transaction, on the disk when the event (None) comes.

    Rows that may `ride` are written with the next ones instead, and in any case before anything
    else than the clock is asked for: a crash until then is one before they were written.
    """

    rows: tuple[SagaRow, ...]
    rides: bool = False


class ClaimCompensation(NamedTuple):
    """Take a compensation for one attempt; the event tells whether it is ours.

    In the same transaction `rows` are written first, and `then` others if it is.
    """

    session: str
    turn: str
    call: str
    owner: str
    now_ns: int
    until_ns: int
    rows: tuple[SagaRow, ...] = ()
    then: tuple[SagaRow, ...] = ()


class Question:
    """Hold one question that waits for a yes or no; the first answer counts."""

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        self.value: bool | None = None
        self._listeners: list[Callable[[], object]] = []

    def answer(self, value: bool) -> None:
        """Say yes or no; it may be called from any thread."""
        if self.value is None:
            self.value = value
            for listener in self._listeners:
                listener()

    def listen(self, listener: Callable[[], object]) -> None:
        """Have a function called once there is an answer, at once where there is one."""
        self._listeners.append(listener)
        if self.value is not None:
            listener()


class Answer(NamedTuple):
    """Wait for the answer to a question; the event is a bool, False when nobody answers."""

    question: Question
    timeout_s: float | None


class Pause(NamedTuple):
    """Wait; the event is None."""

    seconds: float


class Now(NamedTuple):
    """Look at the clock; the event is nanoseconds since the epoch."""


class Compose(NamedTuple):
    """Make an undo of an op, from what is in the store: the event is a `whole.Whole`."""

    op: SagaOp


class Keep(NamedTuple):
    """Store the bytes of an artifact's next version; the event is `Kept`."""

    session: str
    name: str
    data: bytes


class Kept(NamedTuple):
    """Say which blob holds a version, and the number that it gets."""

    oid: Oid
    version: int


class Tell(NamedTuple):
    """Tell the recorder of files what happens, as a hook would.

    `event` is `prompt`, `before`, `after`, `failed` or `turn_end`; `paths` are what a tool says
    that it writes. `hooked` tells that the program is not this process, but the one above it. The
    event is None, or a text that says why the recorder could not be told.
    """

    event: str
    turn: str
    label: str = ""
    call: str | None = None
    tool: str | None = None
    paths: tuple[str, ...] = ()
    hooked: bool = False


class Due(NamedTuple):
    """Ask what a session has to send now; the event is a tuple of `HeldCall`."""

    session: str


class HeldCall(NamedTuple):
    """Hold a call to be sent, with its turn."""

    held: Held
    turn: SagaTurn
    call: SagaCall


class TakeOut(NamedTuple):
    """Take a held call for one attempt to send it; the event tells whether it is ours."""

    call: CallName
    owner: str
    now_ns: int
    until_ns: int


class Withdraw(NamedTuple):
    """Keep a held call from being sent; the event tells whether nobody had begun to."""

    call: CallName


class FindHiddenCall(NamedTuple):
    """Look for a call of a digest that a rewind hid and nothing took back: a `SagaCall` or None.

    `anywhere`: one that no rewind hid counts as well.
    """

    session: str
    digest: str
    anywhere: bool = False


class Newest(NamedTuple):
    """Look for a session's newest event; the event is its number, -1 for none."""

    session: str


class Pull(NamedTuple):
    """Take the next item of a stream; the event is `Returned`, `Raised` or `StreamEnded`."""

    stream: Iterator[object] | AsyncIterator[object]


class StreamEnded(NamedTuple):
    """Say that a stream has no more items."""


class Part(NamedTuple):
    """Do one part of an undo; the event is the value of its procedure, which is JSON.

    An engine may write the value down and, after a crash, give it instead of doing the part again:
    whatever else a part leaves behind has to be in the journal.
    """

    name: str
    procedure: "Procedure[object]"


Command: TypeAlias = (
    Invoke
    | Save
    | ClaimCompensation
    | Answer
    | Pause
    | Now
    | Keep
    | Tell
    | FindHiddenCall
    | Newest
    | Due
    | TakeOut
    | Withdraw
    | Pull
    | Part
    | Compose
)
Event: TypeAlias = Returned | Raised | TimedOut
Procedure: TypeAlias = Generator[Command, object, T]


def in_the_open(procedure: Procedure[T]) -> Procedure[T]:
    """Return the same procedure with the commands of its parts among its own."""
    step: Callable[[], Command] = partial(procedure.send, None)
    while True:
        try:
            command = step()
        except StopIteration as stop:
            value: T = stop.value
            return value
        if isinstance(command, Part):
            answer: Procedure[object] = in_the_open(command.procedure)
        else:
            answer = _with((), command)
        step = yield from _answered(procedure, answer)


def riding(procedure: Procedure[T]) -> Procedure[T]:
    """Return the same procedure with the rows that may ride written along with the next ones.

    Nothing of the host runs between rows that ride and their transaction.
    """
    rows: tuple[SagaRow, ...] = ()
    step: Callable[[], Command] = partial(procedure.send, None)
    while True:
        try:
            command = step()
        except StopIteration as stop:
            if rows:
                yield Save(rows)
            value: T = stop.value
            return value
        except Exception:
            if rows:
                yield Save(rows)
            raise
        if isinstance(command, Save) and command.rides:
            rows = (*rows, *command.rows)
            step = partial(procedure.send, None)
        elif isinstance(command, Now):
            step = yield from _answered(procedure, _with((), command))
        else:
            taken, rows = rows, ()
            step = yield from _answered(procedure, _with(taken, command))


def _answered(
    procedure: Procedure[T], answer: Procedure[object]
) -> Procedure[Callable[[], Command]]:
    """Return the next step of a procedure once its command has its answer."""
    try:
        event = yield from answer
    except GeneratorExit:
        procedure.close()
        raise
    except BaseException as error:  # noqa: BLE001 - the procedure says what follows
        return partial(procedure.throw, error)
    return partial(procedure.send, event)


def _with(rows: tuple[SagaRow, ...], command: Command) -> Procedure[object]:
    """Write rows with a command that writes, or else before it."""
    if isinstance(command, Save | ClaimCompensation):
        return (yield command._replace(rows=(*rows, *command.rows)))
    if rows:
        yield Save(rows)
    return (yield command)


def ask(command: Invoke) -> Procedure[Event]:
    """Run a function of the host and return how that ended."""
    event = yield command
    assert isinstance(event, Returned | Raised | TimedOut)
    return event


def demand(command: Invoke) -> Procedure[object]:
    """Run a function of the host and return its value; what it raises goes on."""
    event = yield from ask(command)
    if isinstance(event, Raised):
        raise event.error
    if isinstance(event, TimedOut):
        raise TimeoutError(f"no answer after {event.seconds} s")
    return event.value


def now() -> Procedure[int]:
    """Return the time in nanoseconds."""
    event = yield Now()
    assert isinstance(event, int)
    return event


def told(command: ClaimCompensation | Answer | TakeOut | Withdraw) -> Procedure[bool]:
    """Return the yes or no that a command gives."""
    return (yield command) is True


def kept(command: Keep) -> Procedure[Kept]:
    """Store bytes and return where they are."""
    event = yield command
    assert isinstance(event, Kept)
    return event


def untold(command: Tell) -> Procedure[str | None]:
    """Tell the recorder; return why it could not be told, or None."""
    event = yield command
    assert event is None or isinstance(event, str)
    return event


def due(command: Due) -> Procedure[tuple[HeldCall, ...]]:
    """Return what is to be sent, in order."""
    event = yield command
    assert isinstance(event, tuple)
    return event


def standing(command: FindHiddenCall) -> Procedure[SagaCall | None]:
    """Return the call that still stands, or None."""
    event = yield command
    assert event is None or isinstance(event, SagaCall)
    return event


def newest(session: str) -> Procedure[int]:
    """Return the number of a session's newest event, -1 for none."""
    event = yield Newest(session)
    assert isinstance(event, int)
    return event


def pulled(command: Pull) -> Procedure[object]:
    """Return the next item of a stream, or `StreamEnded`; what the stream raises goes on."""
    event = yield command
    if isinstance(event, Raised):
        raise event.error
    return event.value if isinstance(event, Returned) else event
