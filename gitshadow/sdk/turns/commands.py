"""The commands that the core yields to its driver, and the events that answer them.

A procedure is a generator: it yields a command and is sent the event that answers it. It has no
effect of its own, so the same procedure runs in both fronts and in a test without a journal, and a
test can drop it after any command, like a crash. User code runs only in drivers; its exceptions
come back as events. The commands are tuples because every hook process loads them, and defining a
frozen dataclass takes six times as long.
"""

from collections.abc import Callable, Generator
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from gitshadow.sdk.turns.values import JsonObject
from gitshadow.store.journal.saga_rows import CallName, SagaRow

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


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

    call: CallName
    owner: str
    now_ns: int
    until_ns: int
    rows: tuple[SagaRow, ...] = ()
    then: tuple[SagaRow, ...] = ()


class Pause(NamedTuple):
    """Wait; the event is None."""

    seconds: float


class Now(NamedTuple):
    """Look at the clock; the event is nanoseconds since the epoch."""


class InStore(NamedTuple):
    """Call a function at once with the `Means` of the driver; the event is its value.

    It reads or changes the store; `protocols.in_store` knows the type of its value.
    """

    function: Callable[..., object]


class Part(NamedTuple):
    """Do one part of an undo; the event is the value of its procedure, which is JSON.

    An engine may write the value down and, after a crash, give it instead of doing the part again:
    whatever else a part leaves behind has to be in the journal.
    """

    name: str
    procedure: "Procedure[object]"


Command: TypeAlias = (
    Invoke[object] | Save | ClaimCompensation | Pause | Now | InStore | Part
)
Event: TypeAlias = Returned[object] | Raised | TimedOut
# Python has one type for all that is sent to a generator, but each command has an answer of its
# own. So commands are yielded by the functions below, which name the type of that answer.
Procedure: TypeAlias = Generator[Command, Any, T]


def answered_by(
    procedure: Procedure[T], answer: Callable[[Command], Procedure[object]]
) -> Procedure[T]:
    """Return the same procedure with each command answered by another procedure."""
    step: Callable[[], Command] = partial(procedure.send, None)
    while True:
        try:
            command = step()
        except StopIteration as stop:
            value: T = stop.value
            return value
        try:
            step = partial(procedure.send, (yield from answer(command)))
        except GeneratorExit:
            procedure.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the procedure says what follows
            step = partial(procedure.throw, error)


def in_the_open(procedure: Procedure[T]) -> Procedure[T]:
    """Return the same procedure with the commands of its parts among its own."""

    def answer(command: Command) -> Procedure[object]:
        if isinstance(command, Part):
            return (yield from in_the_open(command.procedure))
        return (yield command)

    return answered_by(procedure, answer)


def riding(procedure: Procedure[T]) -> Procedure[T]:
    """Return the same procedure with the rows that may ride written along with the next ones.

    Nothing of the host runs between rows that ride and their transaction.
    """
    rows: list[SagaRow] = []

    def written() -> Procedure[None]:
        if rows:
            yield Save(tuple(rows))
            rows.clear()

    def answer(command: Command) -> Procedure[object]:
        if isinstance(command, Save) and command.rides:
            rows.extend(command.rows)
            return None
        # One transaction instead of two: each one waits for the disk, as this journal is durable.
        # One that fails has written nothing, and the rows wait for the next one.
        if isinstance(command, Save | ClaimCompensation):
            event = yield command._replace(rows=(*rows, *command.rows))
            rows.clear()
            return event
        # Reading the clock has no effect, so a crash here is like one before the rows.
        if not isinstance(command, Now):
            yield from written()
        return (yield command)

    try:
        value = yield from answered_by(procedure, answer)
    except Exception:
        yield from written()
        raise
    yield from written()
    return value


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
