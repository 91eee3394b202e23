"""The rows of agent programs' sessions as values, for every session store.

Nothing here imports a database, because a store of the program's own needs no SQLite.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gitshadow.model import Oid
from gitshadow.store.digests import digest

# Nothing is deleted by a rewind: readers leave out what a marker hides.
MARKER = "rewind"

_LONGEST_LOGGED = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaTurn:
    """One turn of an agent program.

    `owner` names the process that runs it. `lease_ns` is the time until which a turn that hooks
    report counts as alive; None if a lock shows that.
    """

    session: str
    id: str
    ordinal: int
    label: str
    agent: str | None
    status: str
    cause: str | None = None
    started_ns: int
    ended_ns: int | None = None
    owner: str
    lease_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaCall:
    """One tool call of a turn.

    `intent` (JSON: arguments, capture, observation, revision) is stored before the tool runs;
    `outcome` is None until it has run, `held` while the call waits to be sent, `dropped` if it was
    dropped instead. `inverse` (JSON) reverses it; `undo` is `none`, `planned`, `running`, `done`,
    `failed`, `in_doubt`, `skipped`, or, decided by a person, `resolved` or `kept`. `key` is the
    same in every attempt. `op` is the undo that settled it.
    """

    session: str
    turn: str
    id: str
    ordinal: int
    tool: str
    klass: str
    description: str
    intent: str
    started_ns: int
    ended_ns: int | None = None
    outcome: str | None = None
    content: str | None = None
    inverse: str | None = None
    key: str
    expires_ns: int | None = None
    undo: str = "none"
    attempts: int = 0
    owner: str | None = None
    lease_ns: int | None = None
    error: str | None = None
    op: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaOp:
    """One undo of effects.

    `status` is `submitted` while it waits for an engine, `applying` until it has a report, `done`.
    """

    id: str
    session: str
    kind: str
    target: str
    status: str
    token: str
    started_ns: int
    ended_ns: int | None = None
    request: str
    report: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaEntry:
    """An entry to be added to the log."""

    session: str
    turn: str | None
    call: str | None
    kind: str
    ts_ns: int
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaLogRow:
    """One row of the log."""

    seq: int
    session: str
    turn: str | None
    call: str | None
    kind: str
    ts_ns: int
    body: str
    digest: str


@dataclass(frozen=True, slots=True)
class CallName:
    """The name of one call."""

    session: str
    turn: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to be added.

    `delta` are values as JSON texts, None for an absent key; `artifacts` are blobs that become the
    newest version of their names, None for an absent one.
    """

    session: str
    invocation: str
    author: str
    kind: str
    ts_ns: int
    text: str = ""
    body: str = "{}"
    delta: Mapping[str, str | None] = field(default_factory=dict)
    artifacts: Mapping[str, Oid | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """One event of a session; `body` is JSON, `text` what people and models read."""

    session: str
    seq: int
    invocation: str
    author: str
    kind: str
    ts_ns: int
    text: str
    body: str


@dataclass(frozen=True, slots=True)
class Marker:
    """The mark that an undo, itself event `seq`, hid events from `first` to `last`, and itself.

    `last` is None where it hid everything up to itself.
    """

    seq: int
    first: int
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an artifact; without a blob the artifact is absent."""

    number: int
    oid: Oid | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A call that waits to be sent.

    `state`: `held` until its turn has committed, then `due` from `due_ns` on, `sending` while
    `owner` has it until `lease_ns`, then `sent`, `failed` or `in_doubt`; `dropped` if it was
    undone before anybody began to send it.
    """

    session: str
    turn: str
    call: str
    state: str
    due_ns: int | None = None
    attempts: int = 0
    owner: str | None = None
    lease_ns: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """A call that was begun; `digest` is that of its tool and arguments.

    A store keeps with it the number of the session's newest event at that time.
    """

    session: str
    digest: str
    turn: str
    call: str


SagaRow: TypeAlias = SagaTurn | SagaCall | SagaOp | SagaEntry | NewEvent | Effect | Held


def digest_of(before: str, seq: int, note: SagaEntry | SagaLogRow) -> str:
    """Return the digest of a row of the log, over itself and the digest of the row before."""
    parts = [before, seq, note.session, note.turn, note.call, note.kind, note.ts_ns]
    # Canonical JSON: every process, and an auditor without our code, gets the same bytes and so the
    # same digest.
    text = json.dumps([*parts, note.body], ensure_ascii=True, separators=(",", ":"))
    return digest(text)


def logged(text: str | None) -> str | None:
    """Return the text of a call's row as the log has it: a long one is its digest there.

    So a large argument is stored once, and the log still proves that the row was not changed.
    """
    if text is None or len(text) <= _LONGEST_LOGGED:
        return text
    return digest(text)


def first_broken(rows: Iterable[SagaLogRow]) -> int | None:
    """Return the first row of a whole log whose digest does not fit, or None where all do."""
    before, expected = "", 1
    for row in rows:
        if row.seq != expected or row.digest != digest_of(before, row.seq, row):
            return row.seq
        before, expected = row.digest, row.seq + 1
    return None
