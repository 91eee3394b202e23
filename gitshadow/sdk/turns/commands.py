"""The commands that the core yields to its driver, and the events that answer them.

A procedure is a generator: it yields a command and is sent the event that answers it. It has no
effect of its own, so the same procedure runs in both fronts and in a test without a journal, and a
test can drop it after any command, like a crash. User code runs only in drivers; its exceptions
come back as events. The commands are tuples because every hook process loads them, and defining a
frozen dataclass takes six times as long.
"""

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

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
R_co = TypeVar("R_co", covariant=True)

UNTOLD = "files_untold"
"""The kind of note that says what the recorder of files does not know of a turn."""


class Invoke(NamedTuple, Generic[R_co]):
    """Run a function of the host; the event is `Returned`, `Raised` or `TimedOut`.

    One that is `blocking` gets a thread of its own where others would wait for it. Only one that
    `streams` may return a generator: of any other it would mean that nothing has run yet.
    """

    function: Callable[..., R_co]
    args: tuple[object, ...] = ()
    kwargs: JsonObject = MappingProxyType({})
    timeout_s: float | None = None
    blocking: bool = False
    streams: bool = False


class Returned(NamedTuple, Generic[R_co]):
    """What a function returned."""

    value: R_co


class Raised(NamedTuple):
    """What a function raised, also a cancellation of its own work."""

    error: BaseException


class TimedOut(NamedTuple):
    """A function took too long; `goes_on`: nothing could stop it."""

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
    """Claim a compensation for one attempt; the event is whether it is ours.

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
    """One question that waits for a yes or no; the first answer counts."""

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        self.value: bool | None = None
        self._listeners: list[Callable[[], object]] = []

    def answer(self, value: bool) -> None:
        """Set the answer, from any thread."""
        if self.value is None:
            self.value = value
            for listener in self._listeners:
                listener()

    def listen(self, listener: Callable[[], object]) -> None:
        """Call a function once there is an answer, at once if there is one."""
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
    """Make an undo of an op, from what is in the store: the event is a `Whole`."""

    op: SagaOp


class Keep(NamedTuple):
    """Store the bytes of an artifact's next version; the event is `Kept`."""

    session: str
    name: str
    data: bytes


class Kept(NamedTuple):
    """The blob of an artifact's version, and its number."""

    oid: Oid
    version: int


class Tell(NamedTuple):
    """Report an event to the recorder of files, as a hook would.

    `event` is `prompt`, `before`, `after`, `failed` or `turn_end`; `paths` are what a tool says
    that it writes. `hooked` is set if the program is not this process, but the one above it. The
    event is None, or a text that says why the recorder could not be reached.
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
    """A call to be sent, with its turn."""

    held: Held
    turn: SagaTurn
    call: SagaCall


class TakeOut(NamedTuple):
    """Claim a held call for one attempt to send it; the event is whether it is ours."""

    call: CallName
    owner: str
    now_ns: int
    until_ns: int


class Withdraw(NamedTuple):
    """Keep a held call from being sent; the event is whether nobody had begun to."""

    call: CallName


class FindHiddenCall(NamedTuple):
    """Look for a call of a digest that a rewind hid and that was not undone: a `SagaCall` or None.

    `anywhere`: one that no rewind hid counts as well.
    """

    session: str
    digest: str
    anywhere: bool = False


class Pull(NamedTuple):
    """Get the next item of a stream; the event is `Returned`, `Raised` or `StreamEnded`."""

    stream: Iterator[object] | AsyncIterator[object]


class StreamEnded(NamedTuple):
    """A stream has no more items."""


class Part(NamedTuple):
    """Do one part of an undo; the event is the value of its procedure, which is JSON.

    An engine may write the value down and, after a crash, give it instead of doing the part again:
    whatever else a part leaves behind has to be in the journal.
    """

    name: str
    procedure: "Procedure[object]"


Command: TypeAlias = (
    Invoke[object]
    | Save
    | ClaimCompensation
    | Answer
    | Pause
    | Now
    | Keep
    | Tell
    | FindHiddenCall
    | Due
    | TakeOut
    | Withdraw
    | Pull
    | Part
    | Compose
)
Event: TypeAlias = Returned[object] | Raised | TimedOut
# Python has one type for all that is sent to a generator, but each command has an answer of its
# own. So commands are yielded by the functions below, which name the type of that answer.
Procedure: TypeAlias = Generator[Command, Any, T]


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
            answer = _with([], command)
        step = yield from _answered(procedure, answer)


def riding(procedure: Procedure[T]) -> Procedure[T]:
    """Return the same procedure with the rows that may ride written along with the next ones.

    Nothing of the host runs between rows that ride and their transaction.
    """
    rows: list[SagaRow] = []
    step: Callable[[], Command] = partial(procedure.send, None)
    while True:
        try:
            command = step()
        except StopIteration as stop:
            if rows:
                yield Save(tuple(rows))
            value: T = stop.value
            return value
        except Exception:
            if rows:
                yield Save(tuple(rows))
            raise
        if isinstance(command, Save) and command.rides:
            rows += command.rows
            step = partial(procedure.send, None)
        # Reading the clock has no effect, so a crash here is like one before the rows.
        elif isinstance(command, Now):
            step = yield from _answered(procedure, _with([], command))
        else:
            step = yield from _answered(procedure, _with(rows, command))


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


def _with(rows: list[SagaRow], command: Command) -> Procedure[object]:
    """Write rows with a command that writes, or else before it; empty the list then."""
    # One transaction instead of two: each one waits for the disk, as this journal is durable. One
    # that fails has written nothing, and the rows wait for the next one.
    if isinstance(command, Save | ClaimCompensation):
        event = yield command._replace(rows=(*rows, *command.rows))
        rows.clear()
        return event
    if rows:
        yield Save(tuple(rows))
        rows.clear()
    return (yield command)


def ask(command: Invoke[T]) -> Procedure[Returned[T] | Raised | TimedOut]:
    """Run a function of the host and return how that ended."""
    event: Returned[T] | Raised | TimedOut = yield command
    return event


def demand(command: Invoke[T]) -> Procedure[T]:
    """Run a function of the host and return its value, or raise its exception."""
    event = yield from ask(command)
    if isinstance(event, Raised):
        raise event.error
    if isinstance(event, TimedOut):
        raise TimeoutError(f"no answer after {event.seconds} s")
    return event.value


def now() -> Procedure[int]:
    """Return the time in nanoseconds."""
    time_ns: int = yield Now()
    return time_ns


def told(command: ClaimCompensation | Answer | TakeOut | Withdraw) -> Procedure[bool]:
    """Return the yes or no that a command gives."""
    return (yield command) is True


def kept(command: Keep) -> Procedure[Kept]:
    """Store bytes and return where they are."""
    found: Kept = yield command
    return found


def untold(command: Tell) -> Procedure[str | None]:
    """Report an event to the recorder; return why that failed, or None."""
    why: str | None = yield command
    return why


def due(command: Due) -> Procedure[tuple[HeldCall, ...]]:
    """Return what is to be sent, in order."""
    found: tuple[HeldCall, ...] = yield command
    return found


def standing(command: FindHiddenCall) -> Procedure[SagaCall | None]:
    """Return the call whose effect was not undone, or None."""
    found: SagaCall | None = yield command
    return found


def pulled(command: Pull) -> Procedure[object]:
    """Return the next item of a stream, or `StreamEnded`; raise the stream's exception."""
    event: Returned[object] | Raised | StreamEnded = yield command
    if isinstance(event, Raised):
        raise event.error
    return event.value if isinstance(event, Returned) else event
