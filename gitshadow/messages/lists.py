"""log, sessions, turns, ops, pins: lists of rows, newest first; pin, unpin."""

from typing import NamedTuple

from gitshadow.messages.codec import Nothing, Verb
from gitshadow.messages.rows import EventRow, OpRow, SessionRow, TurnRow


class LogRequest(NamedTuple):
    """Which events are asked for; times are nanoseconds since the epoch."""

    limit: int | None = None
    session: str | None = None
    agent: str | None = None
    since: int | None = None
    until: int | None = None
    kinds: tuple[str, ...] = ()
    text: str | None = None
    below: int | None = None
    above: int | None = None
    all: bool = False
    prompts: bool = False
    turn: str | None = None
    paths: tuple[str, ...] = ()
    cwd: str | None = None


class LogAnswer(NamedTuple):
    """Events, newest first; `machine` is set if they are another machine's."""

    rows: tuple[EventRow, ...]
    machine: str = ""


class SessionsAnswer(NamedTuple):
    """One row for each session and worktree, newest first, then other machines'."""

    rows: tuple[SessionRow, ...]


class TurnsRequest(NamedTuple):
    """The turns of a session, or of all; `lines` asks for counts of lines."""

    session: str | None = None
    lines: bool = False


class TurnsAnswer(NamedTuple):
    """Turns, newest first; `machine` is set if they are another machine's."""

    rows: tuple[TurnRow, ...]
    machine: str = ""


class OpsRequest(NamedTuple):
    """The newest `limit` recorded restores, or all; `lines` asks for counts of lines."""

    limit: int | None = None
    lines: bool = False


class OpsAnswer(NamedTuple):
    """Recorded restores, newest first."""

    rows: tuple[OpRow, ...]


LOG = Verb("log", LogRequest, LogAnswer)
SESSIONS = Verb("sessions", Nothing, SessionsAnswer)
TURNS = Verb("turns", TurnsRequest, TurnsAnswer)
OPS = Verb("ops", OpsRequest, OpsAnswer)


class PinRequest(NamedTuple):
    """The name for the present state."""

    name: str


class PinAnswer(NamedTuple):
    """The pin that was made."""

    name: str
    commit: str
    ref: str
    ts: str | None


class PinRow(NamedTuple):
    """One pin."""

    name: str
    commit: str
    ref: str
    worktree: str
    ts: str | None


class PinsAnswer(NamedTuple):
    """The pins, newest first."""

    rows: tuple[PinRow, ...]


class UnpinRequest(NamedTuple):
    """The name of the pin to delete."""

    name: str


class UnpinAnswer(NamedTuple):
    """The pin that was deleted."""

    name: str
    deleted: bool


PIN = Verb("pin", PinRequest, PinAnswer)
PINS = Verb("pins", Nothing, PinsAnswer)
UNPIN = Verb("unpin", UnpinRequest, UnpinAnswer)
