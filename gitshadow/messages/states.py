"""show, diff, cat: what was recorded, what files were at a moment, and what changed between two.

A moment is a time in nanoseconds, a pin, or any id that is printed.
"""

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


class FileDiff(NamedTuple):
    """What changed in one file.

    `header` are the lines of git-diff(1) about the file itself: modes, a rename, or why there are
    no lines to show. `hunks` are the lines of the hunks, each hunk after its `@@` line.
    """

    path: str
    old_path: str
    header: tuple[str, ...]
    hunks: tuple[str, ...]


class DiffRequest(NamedTuple):
    """What to compare: the moments `a` and `b`, a session, or `of`.

    `of` is an id, whose changes are shown, or a moment, which is compared with the present.
    `patch` asks for the patch, `hunks` for its files as data, `lines` for counts of lines.
    """

    a: object = None
    b: object = None
    of: object = None
    session: str | None = None
    paths: tuple[str, ...] = ()
    patch: bool = True
    hunks: bool = False
    cwd: str | None = None
    lines: bool = True


class StatRow(NamedTuple):
    """One changed file; binary content has no counts, nor has what nobody asked to count."""

    path: str
    kind: str
    old_path: str | None = None
    added: int | None = None
    removed: int | None = None


class DiffAnswer(NamedTuple):
    """The patch as text or as data, if it was asked for, and its counts per file."""

    patch: str | Unset
    file_diffs: tuple[FileDiff, ...] | Unset
    stat: tuple[StatRow, ...]
    machine: str = ""


class CatRequest(NamedTuple):
    """A file, and the moment; None is the newest recorded one."""

    path: str
    at: object = None
    cwd: str | None = None


class CatAnswer(NamedTuple):
    """The content of a file at a moment."""

    path: str
    oid: str
    mode: str
    data_base64: str


class ShowRequest(NamedTuple):
    """The id of a thing, and the paths of which to show its changes.

    Of more events than `limit` the newest are shown. `patch` asks for the patch, `hunks` for its
    files as data, `stat` for counts per file.
    """

    id: str
    paths: tuple[str, ...] = ()
    patch: bool = True
    hunks: bool = False
    stat: bool = False
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


class TranscriptPlace(NamedTuple):
    """Where an agent keeps the conversation of a turn, and its own id of the turn."""

    path: str
    agent: str | None
    turn: str


class Said(NamedTuple):
    """One text or tool call of a conversation; `who` is user, assistant, tool or note."""

    who: str
    text: str


class ShowAnswer(NamedTuple):
    """One thing, with its events and its patch.

    `cut` is set if there are more events, `report` if an op has one. `diff` is None if nothing
    changed a file, and missing if no patch was asked for. `machine` is set if another machine
    recorded the thing. `transcript` is where the conversation of a turn is, if its hooks say it;
    `said` is what it contains, which is read by the program that shows it.
    """

    type: str
    thing: Annotated[Thing, Flat("type", _NAMES)]
    events: tuple[EventRow, ...] | None = None
    cut: bool = False
    report: JsonObject | None = None
    diff: str | Unset | None = UNSET
    file_diffs: tuple[FileDiff, ...] | Unset = UNSET
    stat: tuple[StatRow, ...] | Unset = UNSET
    machine: str = ""
    transcript: TranscriptPlace | None = None
    said: tuple[Said, ...] = ()


SHOW = Verb("show", ShowRequest, ShowAnswer)
DIFF = Verb("diff", DiffRequest, DiffAnswer)
CAT = Verb("cat", CatRequest, CatAnswer)
