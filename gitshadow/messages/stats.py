"""stats: how many lines are whose."""

from typing import NamedTuple

from gitshadow.messages.codec import Verb


class StatsRequest(NamedTuple):
    """Which lines to count.

    `words` are revisions, ranges or paths, in the order of Git: at most one revision, first.
    `paths` are paths alone; `commit` asks for all lines of a commit.
    """

    words: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    commit: str | None = None
    cwd: str | None = None


class ScopeRow(NamedTuple):
    """Which lines were counted: of the working tree, a commit, or a change."""

    kind: str
    commit: str | None
    base: str | None


class ClassShare(NamedTuple):
    """The lines of agents, of people, or of unknown authors."""

    class_: str
    lines: int
    share: float


class ModelShare(NamedTuple):
    """The lines of one model; None if it was not reported."""

    model: str | None
    lines: int
    share: float


class AgentShare(NamedTuple):
    """The lines of one agent, with its models."""

    agent: str
    lines: int
    share: float
    models: tuple[ModelShare, ...]


class SessionShare(NamedTuple):
    """The lines of one session, with its first prompt."""

    session: str
    agent: str
    lines: int
    share: float
    prompt: str | None


class UnknownShare(NamedTuple):
    """The lines that are unknown for one reason."""

    reason: str
    lines: int
    share: float


class ClaimShare(NamedTuple):
    """The lines that an imported record attributes to an agent."""

    source: str
    agent: str | None
    model: str | None
    lines: int
    share: float


class SkippedFile(NamedTuple):
    """A file that is not counted by line, and why."""

    path: str
    reason: str


class StatsAnswer(NamedTuple):
    """The shares of all lines; each list but `classes` begins with the most lines."""

    scope: ScopeRow
    lines: int
    files: int
    classes: tuple[ClassShare, ...]
    agents: tuple[AgentShare, ...]
    sessions: tuple[SessionShare, ...]
    unknown: tuple[UnknownShare, ...]
    claimed: tuple[ClaimShare, ...]
    not_by_line: tuple[SkippedFile, ...]


STATS = Verb("stats", StatsRequest, StatsAnswer)
