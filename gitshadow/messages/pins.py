"""pin, pins, unpin: named states of the working tree."""

from typing import NamedTuple

from gitshadow.messages.codec import Verb


class PinRequest(NamedTuple):
    """The name for the present state."""

    name: str


class PinAnswer(NamedTuple):
    """The pin that was made."""

    name: str
    commit: str
    ref: str
    ts: str | None


class PinsRequest(NamedTuple):
    """All pins."""


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
PINS = Verb("pins", PinsRequest, PinsAnswer)
UNPIN = Verb("unpin", UnpinRequest, UnpinAnswer)
