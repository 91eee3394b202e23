"""The rows that several verbs answer with: events, sessions, turns, calls, bursts, ops."""

from typing import NamedTuple

from gitshadow.messages.codec import UNSET, Unset


class VersionRow(NamedTuple):
    """The content of a path: its blob and its mode."""

    oid: str
    mode: str


class EventRow(NamedTuple):
    """One event of the journal.

    `prompt` is the start of the turn's prompt; it is None if the turn has none, and missing if
    nobody asked for it. `machine` is set if another machine recorded the event. `files` is the
    number of files that Git switched by a move of HEAD; other events have none. `turn_short` is the
    short id of its turn.
    """

    seq: int
    ts: str | None
    path: str | None
    kind: str
    actor: str | None
    agent: str | None
    session: str | None
    turn: str | None
    call: str | None
    tool: str | None
    confidence: str | None
    reason: str | None
    burst: str | None
    commit: str | None
    before: VersionRow | None
    after: VersionRow | None
    op: str | None
    worktree: str
    old_path: str | None = None
    candidates: tuple[str, ...] = ()
    note: str | None = None
    offline: bool = False
    switched: bool = False
    moved_in: bool = False
    inexact: bool = False
    # Prompts are sent on request only: they can be long, and a page of the log has many rows.
    prompt: str | Unset | None = UNSET
    machine: str = ""
    files: int | Unset = UNSET
    turn_short: str = ""


class SessionRow(NamedTuple):
    """One session in one worktree."""

    id: str
    native_id: str | None
    actor: str
    agent: str | None
    parent: str | None
    worktree: str
    ref: str | None
    tip: str | None
    started: str | None
    ended: str | None
    end_reason: str | None
    events: int
    files: int
    turns: int
    machine: str = ""


class TurnRow(NamedTuple):
    """One turn; `status` is set for a turn of an agent program.

    `added` and `removed` are lines; they are missing if nobody asked for them, and None if there
    are too many to count.
    """

    id: str
    turn: str
    session: str
    ordinal: int
    started: str | None
    ended: str | None
    prompt: str | None
    events: int
    files: int
    status: str = ""
    machine: str = ""
    short: str = ""
    agent: str | None = None
    added: int | Unset | None = UNSET
    removed: int | Unset | None = UNSET


class CallRow(NamedTuple):
    """One tool call."""

    id: str
    call: str
    session: str
    turn: str | None
    tool: str | None
    class_: str
    opened: str | None
    closed: str | None
    outcome: str | None
    paths: tuple[str, ...]


class BurstRow(NamedTuple):
    """One burst: events `first_seq` to `last_seq` of one session in one worktree.

    `actor` and `agent` are those of the session.
    """

    id: str
    burst: str
    session: str
    worktree: str
    turn: str | None
    started: str | None
    ended: str | None
    first_seq: int
    last_seq: int
    open: bool
    actor: str = ""
    agent: str | None = None


class AboutRow(NamedTuple):
    """What one agent, or one person, did in one turn; `kind` is set for a restore."""

    actor: str
    agent: str | None
    session: str
    turn: str | None
    ordinal: int | None
    turns: int
    prompt: str
    ts: str | None
    files: int
    kind: str = ""
    turn_short: str = ""


class OpRow(NamedTuple):
    """One recorded restore; `undone_by` is the op in effect that undid it.

    `about` is missing where only the op itself was asked for. `undid` are the short ids of
    `undoes`, `undone_short` that of `undone_by`, `agent` is the agent that asked for it.
    `files`, `added` and `removed` are what it changed, as in a `TurnRow`.
    """

    id: str
    op_id: str
    kind: str
    ts: str | None
    worktree: str
    session: str | None
    target: str
    undoes: tuple[str, ...]
    status: str
    undone_by: str | None
    commit: str | None
    about: tuple[AboutRow, ...] | None = None
    short: str = ""
    agent: str | None = None
    undid: tuple[str, ...] = ()
    undone_short: str = ""
    files: int | Unset = UNSET
    added: int | Unset | None = UNSET
    removed: int | Unset | None = UNSET
