"""report: what one session did, bounded; what was left out is counted."""

from typing import Annotated, NamedTuple

from gitshadow.messages.codec import UNSET, Flat, JsonObject, Unset, Verb
from gitshadow.messages.rows import EventRow, OpRow, SessionRow
from gitshadow.messages.status import ExcludedRow


class ReportRequest(NamedTuple):
    """The session; by default the newest one of an agent."""

    session: str | None = None


class RepositoryRow(NamedTuple):
    """The repository; no path outside of it, because a report is passed on.

    `object_format` is that of all ids, as `extensions.objectFormat` names it.
    """

    name: str
    worktree: str
    branch: str | None
    head: str | None
    object_format: str


class ReportedSession(NamedTuple):
    """The session; `undone` is whole or partly, `elsewhere` are other worktrees it wrote in."""

    row: Annotated[SessionRow, Flat()]
    models: tuple[str, ...]
    subagents: int
    calls: int
    last: str | None
    seconds: int
    undone: str | None
    elsewhere: tuple[str, ...]


class FileChange(NamedTuple):
    """The net change of one file; `note` says what the patch does not show."""

    path: str
    kind: str
    old_path: str | Unset
    modes: tuple[str, ...] | Unset
    added: int | Unset
    removed: int | Unset
    patch: str
    note: str | None


class StepFile(NamedTuple):
    """What one step changed in a file."""

    change: Annotated[FileChange, Flat()]
    confidence: str | None
    undone: str | None


class ReportedFile(NamedTuple):
    """What the session changed in a file, and how the file is now.

    `steps` are the numbers of its steps; `others` is set if another session wrote the file too.
    """

    change: Annotated[FileChange, Flat()]
    confidence: str | None
    events: int
    undone: str | None
    now: str | None
    steps: tuple[int, ...]
    others: bool


class ToolCount(NamedTuple):
    """How often a tool was called."""

    tool: str
    calls: int


class ReportedStep(NamedTuple):
    """One turn, with its short id, or one burst of a session without turns."""

    kind: str
    id: str
    session: str
    prompt: str | None
    prompt_cut: bool
    started: str | None
    ended: str | None
    open: bool
    tools: tuple[ToolCount, ...]
    events: int
    confidence: str | None
    undone: str | None
    files: tuple[StepFile, ...]
    short: str = ""


class ConfidenceCount(NamedTuple):
    """How many changes are that certain."""

    confidence: str
    events: int


class UnsureRow(NamedTuple):
    """A change that may be somebody else's, or of somebody else that may be the session's."""

    row: Annotated[EventRow, Flat()]
    whose: str


class LaneSpan(NamedTuple):
    """One period of work; `step` is the number of the session's own step."""

    start: str | None
    end: str | None
    events: int | Unset = UNSET
    step: int | Unset = UNSET
    undone: str | Unset | None = UNSET


class LaneRow(NamedTuple):
    """The work of one author; without a session, of several."""

    kind: str
    label: str
    session: str | Unset
    spans: tuple[LaneSpan, ...]


class LaneMark(NamedTuple):
    """One moment; `later` is set if it is after the end of the timeline."""

    kind: str
    ts: str | None
    label: str
    later: bool


class Timeline(NamedTuple):
    """Who worked when."""

    begin: str | None
    end: str | None
    lanes: tuple[LaneRow, ...]
    marks: tuple[LaneMark, ...]


class ReportedOp(NamedTuple):
    """One undo, with the items of its stored report and the numbers of the steps it is about."""

    row: Annotated[OpRow, Flat()]
    outcome: str | None
    items: tuple[JsonObject, ...]
    items_left_out: int
    steps: tuple[int, ...]


class TouchedRow(NamedTuple):
    """A path that was changed but not recorded, why, and how often."""

    path: str
    why: str
    count_: int


class NotCovered(NamedTuple):
    """What was not recorded."""

    gaps: tuple[EventRow, ...]
    touched: tuple[TouchedRow, ...]
    excluded: tuple[ExcludedRow, ...]
    excluded_count: int


class Omission(NamedTuple):
    """What is not in the report, and the command that shows it."""

    what: str
    see: str


class ReportAnswer(NamedTuple):
    """The report; `program` is the version that made it."""

    version: int
    generated: str | None
    program: str
    repository: RepositoryRow
    session: ReportedSession
    steps: tuple[ReportedStep, ...]
    files: tuple[ReportedFile, ...]
    confidence: tuple[ConfidenceCount, ...]
    unsure: tuple[UnsureRow, ...]
    timeline: Timeline
    ops: tuple[ReportedOp, ...]
    not_covered: NotCovered
    left_out: tuple[Omission, ...]
    machine: str = ""


REPORT = Verb("report", ReportRequest, ReportAnswer)
