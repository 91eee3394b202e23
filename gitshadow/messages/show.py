"""show: one thing that was recorded, with what it changed."""

from typing import Annotated, NamedTuple, TypeAlias

from gitshadow.messages.codec import UNSET, Flat, JsonObject, Unset, Verb
from gitshadow.messages.rows import (
    BurstRow,
    CallRow,
    EventRow,
    OpRow,
    SessionRow,
    TurnRow,
)
from gitshadow.messages.states import FileDiff


class ShowRequest(NamedTuple):
    """The id of a thing, and the paths of which to show its changes.

    Of more events than `limit` the newest are shown. `patch` asks for the patch, `hunks` for its
    files as data.
    """

    id: str
    paths: tuple[str, ...] = ()
    patch: bool = True
    hunks: bool = False
    limit: int | None = None
    cwd: str | None = None


class CommitRow(NamedTuple):
    """One commit of ours, with the only prompt of its events."""

    id: str
    subject: str
    kind: str
    ts: str | None
    session: str | None
    agent: str | None
    turn: str | None
    call: str | None
    op: str | None
    prompt: str | None


Thing: TypeAlias = (
    EventRow | CallRow | TurnRow | BurstRow | OpRow | SessionRow | CommitRow
)
_NAMES = ("event", "call", "turn", "burst", "op", "session", "commit")


class ShowAnswer(NamedTuple):
    """One thing, with its events and its patch.

    `cut` is set if there are more events, `report` if an op has one. `diff` is None if nothing
    changed a file, and missing if no patch was asked for. `machine` is set if another machine
    recorded the thing.
    """

    type: str
    thing: Annotated[Thing, Flat("type", _NAMES)]
    events: tuple[EventRow, ...] | None = None
    cut: bool = False
    report: JsonObject | None = None
    diff: str | Unset | None = UNSET
    file_diffs: tuple[FileDiff, ...] | Unset = UNSET
    machine: str = ""


SHOW = Verb("show", ShowRequest, ShowAnswer)
