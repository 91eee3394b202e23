"""own_session, own_above, own_changes, own_undone, own_undo: an agent and its own work.

`ancestors` are the processes above the caller, the nearest first. An agent can choose its
arguments and variables, but not its ancestors.
"""

from typing import NamedTuple

from gitshadow.messages.codec import Unset, Verb
from gitshadow.messages.undo import FileUndoAnswer, Processes


class OwnSessionRequest(NamedTuple):
    """The session of the caller."""

    ancestors: Processes = ()


class OwnSessionAnswer(NamedTuple):
    """The session of the caller."""

    session: str
    native_id: str | None
    agent: str | None
    started: str | None


class OwnAboveAnswer(NamedTuple):
    """The ids of the sessions of the agent that started the caller."""

    sessions: tuple[str, ...]


class OwnChangesRequest(NamedTuple):
    """What the session wrote, at most `limit` changes."""

    ancestors: Processes = ()
    paths: tuple[str, ...] = ()
    limit: int | None = None
    cwd: str | None = None


class OwnChange(NamedTuple):
    """One change, and the op that undid it."""

    seq: int
    ts: str | None
    path: str | None
    old_path: str | Unset | None
    kind: str
    session: str | None
    turn: str | None
    call: str | None
    tool: str | None
    confidence: str | None
    burst: str | None
    undone_by: str | None


class OwnChangesAnswer(NamedTuple):
    """What the session wrote, newest first."""

    session: str
    rows: tuple[OwnChange, ...]
    limit: int


class OwnUndo(NamedTuple):
    """An undo of the session's work; `by` says who ran it."""

    op_id: str
    kind: str
    ts: str | None
    by: str
    paths: tuple[str, ...]


class OwnUndoneAnswer(NamedTuple):
    """The undos in effect of the session's work, newest first."""

    session: str
    rows: tuple[OwnUndo, ...]


class OwnUndoRequest(NamedTuple):
    """What to undo of the session's work: it is only planned without the `token` of a plan."""

    target: str
    ancestors: Processes = ()
    paths: tuple[str, ...] = ()
    token: str | None = None
    cwd: str | None = None


OWN_SESSION = Verb("own_session", OwnSessionRequest, OwnSessionAnswer)
OWN_ABOVE = Verb("own_above", OwnSessionRequest, OwnAboveAnswer)
OWN_CHANGES = Verb("own_changes", OwnChangesRequest, OwnChangesAnswer)
OWN_UNDONE = Verb("own_undone", OwnSessionRequest, OwnUndoneAnswer)
OWN_UNDO = Verb("own_undo", OwnUndoRequest, FileUndoAnswer)
