"""blame, stats: who wrote each line of a file, and how many lines are whose."""

from collections.abc import Mapping
from typing import NamedTuple

from gitshadow.messages.codec import Verb


class BlameRequest(NamedTuple):
    """The file, and which of its lines.

    `ranges` are as typed after `-L`. `at` is a time in nanoseconds, a pin or any id; `commit`
    a revision. `facts` asks for what Git's porcelain prints of our own commits, `unreviewed` for
    the lines of agents that have no review mark.
    """

    path: str
    ranges: tuple[str, ...] = ()
    at: object = None
    commit: str | None = None
    ignore_space: bool = False
    copies: bool = False
    removed: bool = False
    facts: bool = False
    unreviewed: bool = False
    cwd: str | None = None


class ClaimedBy(NamedTuple):
    """The author that an imported record names."""

    source: str
    agent: str | None
    model: str | None
    session: str | None


class OwnerRow(NamedTuple):
    """Who wrote lines, and where they come from.

    `source` and `path` are missing for the author of a removal. `git` has the words of
    git-blame(1) by their keys; `previous` is the commit before, and the path there. `machine` is
    set if another machine recorded the write.
    """

    actor: str
    confidence: str
    reason: str
    source: str = ""
    path: str = ""
    seq: int | None = None
    ts: str | None = None
    agent: str | None = None
    session: str | None = None
    turn: str | None = None
    call: str | None = None
    tool: str | None = None
    prompt: str | None = None
    machine: str | None = None
    candidates: tuple[str, ...] = ()
    claimed: ClaimedBy | None = None
    commit: str | None = None
    git: Mapping[str, str] | None = None
    author: str | None = None
    previous: tuple[str, ...] = ()


class RemovedLine(NamedTuple):
    """A line that one author removed from another; `owner` is a place in the owners."""

    text: str
    owner: int
    by: OwnerRow
    seq: int


class BlameAnswer(NamedTuple):
    """A file's content and authors.

    `lines` are triples: number, place in `owners`, and number in the state that the line came
    with. `no_commit` is what Git has in the place of an id for lines of no commit. `unreviewed` are
    numbers of lines, if they were asked for.
    """

    path: str
    content_base64: str
    lines: tuple[tuple[int, ...], ...]
    owners: tuple[OwnerRow, ...]
    removed: tuple[RemovedLine, ...]
    no_commit: str
    unreviewed: tuple[int, ...] = ()


BLAME = Verb("blame", BlameRequest, BlameAnswer)


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
