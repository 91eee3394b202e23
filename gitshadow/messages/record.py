"""flush, record, session, exec, git_hook, journal_gap: the ways in that are not agents' hooks."""

from typing import NamedTuple

from gitshadow.messages.codec import Nothing, Verb


class FlushAnswer(NamedTuple):
    """The newest event."""

    seq: int


class RecordRequest(NamedTuple):
    """Paths to record now, as a session's or an agent's if one is named."""

    paths: tuple[str, ...] = ()
    session: str | None = None
    agent: str | None = None
    cwd: str | None = None


class AlreadyRow(NamedTuple):
    """A path that was recorded before, as somebody else's."""

    path: str
    seq: int
    actor: str
    agent: str | None
    session: str


class RecordAnswer(NamedTuple):
    """How many events were recorded."""

    recorded: int
    already: tuple[AlreadyRow, ...] = ()


class SessionStartRequest(NamedTuple):
    """A session to open by hand: an agent's, or a person's; `native` is the agent's own id.

    `pid` is the process that writes all files of the session, itself or by those below it.
    """

    agent: str | None = None
    human: bool = False
    native: str | None = None
    pid: int | None = None


class SessionStartAnswer(NamedTuple):
    """The session that was opened."""

    id: str
    session: str
    native_id: str


class SessionEndRequest(NamedTuple):
    """The session to end; by default the newest that was opened by hand."""

    id: str | None = None


class SessionEndAnswer(NamedTuple):
    """The session that was ended."""

    id: str
    session: str


class ExecBeginRequest(NamedTuple):
    """A command that will be run by `pid`; `session` is the one that its environment names."""

    agent: str | None = None
    argv: tuple[str, ...] = ()
    pid: int | None = None
    session: str | None = None


class ExecBeginAnswer(NamedTuple):
    """The session of the command and its call; None if recording is off."""

    session: str | None
    call: str | None


class ExecEndRequest(NamedTuple):
    """The command whose session ends, with its exit code."""

    session: str
    call: str
    exit: int | None = None


class ExecEndAnswer(NamedTuple):
    """The session of the command."""

    session: str


class GitHookRequest(NamedTuple):
    """A call of one of Git's hooks by `pid`.

    `managed`, `chained` and `beside` mean that other programs run hooks, too. `message` is the
    file of a commit message, `source` where it comes from, `index_` the index file of the commit.
    """

    event: str | None = None
    pid: int | None = None
    managed: bool = False
    chained: bool = False
    beside: bool = False
    message: str | None = None
    source: str | None = None
    index_: str | None = None


class GapRequest(NamedTuple):
    """Why something may not have been recorded."""

    why: str | None = None


FLUSH = Verb("flush", Nothing, FlushAnswer)
RECORD = Verb("record", RecordRequest, RecordAnswer)
SESSION_START = Verb("session_start", SessionStartRequest, SessionStartAnswer)
SESSION_END = Verb("session_end", SessionEndRequest, SessionEndAnswer)
EXEC_BEGIN = Verb("exec_begin", ExecBeginRequest, ExecBeginAnswer)
EXEC_END = Verb("exec_end", ExecEndRequest, ExecEndAnswer)
