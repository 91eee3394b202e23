"""blame: who wrote each line of a file."""

from collections.abc import Mapping
from typing import NamedTuple

from gitshadow.messages.codec import Verb


class BlameRequest(NamedTuple):
    """The file, and which of its lines.

    `ranges` are as typed after `-L`. `at` is a time in nanoseconds, a pin or any id; `commit`
    a revision. `facts` asks for what Git's porcelain prints of our own commits.
    """

    path: str
    ranges: tuple[str, ...] = ()
    at: object = None
    commit: str | None = None
    ignore_space: bool = False
    copies: bool = False
    removed: bool = False
    facts: bool = False
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
    with.
    """

    path: str
    content_base64: str
    lines: tuple[tuple[int, ...], ...]
    owners: tuple[OwnerRow, ...]
    removed: tuple[RemovedLine, ...]


BLAME = Verb("blame", BlameRequest, BlameAnswer)
