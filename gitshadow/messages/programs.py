"""What agent programs did: the rows of saga, tools, events, state, artifacts and attention."""

from typing import Annotated, NamedTuple, TypeAlias

from gitshadow.messages.codec import UNSET, Flat, JsonObject, Unset
from gitshadow.messages.status import ClosingRow


class StepRow(NamedTuple):
    """One step of the saga log; `body` is what the program and its tools gave."""

    seq: int
    ts: str | None
    session: str
    turn: str | None
    call: str | None
    tool: str | None
    kind: str
    body: JsonObject
    digest: str


class ProgramTurnRow(NamedTuple):
    """One turn; `standing` is its status, or `interrupted` where its process is gone."""

    id: str
    session: str
    agent: str | None
    label: str
    status: str
    standing: str
    cause: str | None
    started: str | None
    ended: str | None
    calls: int
    entries: int


class ProgramCallRow(NamedTuple):
    """One tool call, with what became of its inverse in `undo`."""

    id: str
    tool: str
    class_: str
    description: str
    intent: JsonObject
    outcome: str | None
    content: object
    inverse: JsonObject | None
    key: str | None
    undo: str
    attempts: int
    error: str | None
    op: str | None


class ProgramEventRow(NamedTuple):
    """One event of a session; `hidden_by` is the rewind that hid it."""

    seq: int
    ts: str | None
    session: str
    invocation: str
    author: str
    kind: str
    text: str
    live: bool
    hidden_by: int | None
    body: JsonObject


class ProgramState(NamedTuple):
    """The state of a session, now or before an invocation."""

    session: str
    before: str | None
    state: JsonObject


class ArtifactRow(NamedTuple):
    """One version of an artifact; without an `oid` the artifact is absent from then on."""

    session: str
    name: str
    version: int
    oid: str | None
    current: bool


class ToolRow(NamedTuple):
    """How a tool is declared."""

    name: str
    class_: str
    inverse: bool
    observe: bool
    repeatable: bool
    undo_for_s: float | None


class AttentionRow(NamedTuple):
    """A turn, an undo, a call or a held call that somebody should look at.

    `what` is which of them it is, and `waits` whether the time of a held call has not come yet.
    `turn_short` is the short id of an agent's turn; programs give their turns ids of their own.
    """

    what: str
    session: str
    turn: str
    op: str | Unset = UNSET
    call: str | Unset = UNSET
    tool: str | Unset = UNSET
    state: str = ""
    due: str | Unset | None = UNSET
    waits: bool | Unset | None = UNSET
    attempts: int | Unset = UNSET
    text: str | Unset = UNSET
    turn_short: str = ""


class ClosingWindow(NamedTuple):
    """The call that will be the next one that cannot be undone any more."""

    what: str
    state: str
    text: str
    closing: Annotated[ClosingRow, Flat()]


Attention: TypeAlias = AttentionRow | ClosingWindow
