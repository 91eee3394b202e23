"""The words of gitshadow as values: frozen, slotted, without I/O, clock or git.

Invariant: two values are equal when they mean the same; nothing here can change.
Paths are repo-relative POSIX bytes without a leading slash; oids are hex digits, as many as
`store.object_format` says; times are nanoseconds since the epoch, UTC.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, NewType, TypeAlias

JsonValue: TypeAlias = (
    "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)
"""A value of JSON that another program or a person wrote: any part may have any type."""

JsonObject: TypeAlias = Mapping[str, JsonValue]
"""An object of such JSON."""

Oid = NewType("Oid", str)
"""A Git object id in lower-case hex digits, whole."""

RepoPath = NewType("RepoPath", bytes)
"""A repo-relative path: raw bytes, `/` between components, no leading slash."""

LINK_MODE = 0o120000
GITLINK_MODE = 0o160000
TREE_MODE = 0o040000
PLAIN_MODES = (0o644, 0o755)
"""The permissions that a checkout gives to files, unless the umask is unusual."""


def git_mode(mode: int) -> int:
    """Return the mode that a Git tree stores for a real mode (0o100600 gives 0o100644)."""
    if mode in (LINK_MODE, GITLINK_MODE, TREE_MODE):
        return mode
    # Git looks at the owner's bit alone (`create_ce_mode` in cache.h).
    return 0o100755 if mode & 0o100 else 0o100644


def is_odd_mode(mode: int, modes: tuple[int, int]) -> bool:
    """Return whether a file's exact mode is not what its Git mode stands for."""
    plain = modes[git_mode(mode) == 0o100755]
    return mode != LINK_MODE and mode != 0o100000 | plain


def has_hidden_mode(
    before: "FileVersion | None", after: "FileVersion | None", modes: tuple[int, int]
) -> bool:
    """Return whether the trees around a change do not say the exact modes of both sides."""
    return any(one and is_odd_mode(one.mode, modes) for one in (before, after))


def format_mode(mode: int) -> str:
    """Return six octal digits with the real permission bits (`100600`)."""
    return f"{mode:06o}"


def micro(time_ns: int) -> int:
    """Return a time in whole microseconds: refs and rows that repeat them have no finer ones."""
    # Commit messages have microseconds, and a rebuilt row must be equal to the recorded one.
    return time_ns // 1000 * 1000


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The content of one path: blob oid and real mode (`0o100600`, links `0o120000`)."""

    oid: Oid
    mode: int

    @property
    def is_link(self) -> bool:
        """Return whether it is a symbolic link."""
        return self.mode == LINK_MODE


class StatKey(NamedTuple):
    """The stat fields that decide whether a file must be read again.

    A tuple, because a walk makes one for every file: four times as fast as a frozen dataclass.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class FileState:
    """The last recorded state of one covered path of one worktree.

    `racy` means that the file's ctime was too near to the moment of reading to prove that
    no later write has the same stat: it is read again at the next look. `digest` is the blob id of
    what is on the disk, in bytes, if the version only stands in for that: it was purged.
    """

    version: FileVersion
    stat: StatKey
    seen_ns: int
    racy: bool = False
    digest: bytes | None = None

    def holds(self, oid: Oid) -> bool:
        """Return whether a content is the recorded one."""
        if self.digest is not None:
            return self.digest.hex() == oid
        return self.version.oid == oid


class Actor(StrEnum):
    """The three classes of writers."""

    AGENT = "agent"
    HUMAN = "human"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """The confidence of an attribution (docs/agents.md)."""

    CERTAIN = "certain"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    AMBIGUOUS = "ambiguous"
    UNKNOWN = "unknown"


class EventKind(StrEnum):
    """What happened, as a journal row names it."""

    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"
    RENAME = "rename"
    MODE = "mode"
    TYPE = "type"
    RESTORE = "restore"
    BASELINE = "baseline"
    HEAD = "head"
    COVERAGE = "coverage"
    GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Who made a change, how certain that is and why.

    `session` is ours for every class of actor: human and unknown writes have sessions too.
    `candidates` are session ids, sorted, filled only when `confidence` is ambiguous.
    `agent` is None unless `actor` is AGENT.
    """

    actor: Actor
    session: str
    agent: str | None = None
    turn: str | None = None
    call: str | None = None
    tool: str | None = None
    confidence: Confidence
    reason: str
    candidates: tuple[str, ...] = ()

    @property
    def is_maybe(self) -> bool:
        """Return whether a person may have made the write; no view attributes it to the agent."""
        return self.actor is Actor.AGENT and self.confidence is Confidence.LOW


# The events are named tuples, because a list or a blame reads thousands of rows: one is made in a
# third of the time of a frozen dataclass.
class PathChange(NamedTuple):
    """One observed change of one path: a write, a restore, or a change of coverage.

    A rename has `old_path`; its `before` is the version that was at the old path. A path that
    entered or left the recording has the kind COVERAGE.

    Attributes:
        switched: Git itself changed the path when HEAD moved: it has no burst, and no undo
            reverts it.
        offline: The change was found at start.
        moved_in: The path got a file that is older than the write: the file came from a place that
            is not recorded, and may be the only copy.
        inexact: The content is known from a commit: the write was some time before `ts_ns`.
    """

    seq: int
    ts_ns: int
    worktree: str
    kind: EventKind
    path: RepoPath
    attribution: Attribution
    commit: Oid
    old_path: RepoPath | None = None
    before: FileVersion | None = None
    after: FileVersion | None = None
    burst: str | None = None
    op: str | None = None
    offline: bool = False
    switched: bool = False
    moved_in: bool = False
    inexact: bool = False

    @property
    def path_before(self) -> RepoPath:
        """Return the path that had `before`: of a rename the old one."""
        return self.old_path or self.path


def paths_of(rows: Iterable[PathChange]) -> frozenset[RepoPath]:
    """Return the paths that some changes are about, of renames both."""
    return frozenset(end for row in rows for end in (row.path, row.old_path) if end)


class HeadChange(NamedTuple):
    """One move of HEAD, described by `note`.

    Attributes:
        files: The number of paths that Git switched; the trees of its commit and of the parent say
            which (`store.journal.switches`).
        modes: The permissions that 100644 and 100755 stand for in these trees.
    """

    seq: int
    ts_ns: int
    worktree: str
    attribution: Attribution
    commit: Oid
    note: str | None = None
    files: int = 0
    modes: tuple[int, int] = PLAIN_MODES

    @property
    def kind(self) -> EventKind:
        """Return the kind of its row."""
        return EventKind.HEAD


class Baseline(NamedTuple):
    """The first snapshot of a session in a worktree."""

    seq: int
    ts_ns: int
    worktree: str
    attribution: Attribution
    commit: Oid

    @property
    def kind(self) -> EventKind:
        """Return the kind of its row."""
        return EventKind.BASELINE


class Gap(NamedTuple):
    """A moment in which recording is known to be incomplete; `path` if it concerns one path."""

    seq: int
    ts_ns: int
    worktree: str
    note: str | None
    path: RepoPath | None = None

    @property
    def kind(self) -> EventKind:
        """Return the kind of its row."""
        return EventKind.GAP


CommitEvent: TypeAlias = PathChange | HeadChange | Baseline
"""A journal row that a shadow commit has, too."""

Event: TypeAlias = CommitEvent | Gap
"""One journal row. `seq` and `worktree` name it, `ts_ns` is its time, `kind` what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One run of one agent, or one period of human or unknown work."""

    id: str
    native_id: str
    actor: Actor
    agent: str | None
    started_ns: int
    ended_ns: int | None = None
    end_reason: str | None = None
    parent: str | None = None
    pid: int | None = None
    pid_started: int | None = None
    last_seen_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The ref of one session in one worktree and what it points at."""

    ref: str
    session: str
    worktree: str
    tip: Oid
    tree: Oid
    tip_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One prompt of a session, until the agent stops.

    `number` is that of its short id (`t12`), None for a turn that was not read from the journal.
    By `prompt_digest`, a second report of a prompt that is not stored is recognized.
    """

    id: str
    session: str
    ordinal: int
    started_ns: int
    ended_ns: int | None = None
    prompt: str | None = None
    prompt_digest: str | None = field(default=None, compare=False)
    number: int | None = field(default=None, compare=False)

    @property
    def short_id(self) -> str:
        """Return how lists name it, empty text for a turn that was not read from the journal."""
        return "" if self.number is None else f"t{self.number}"


class ToolClass(StrEnum):
    """What a tool call can do to files."""

    WRITE = "write"
    SHELL = "shell"
    AGENT = "agent"
    READ = "read"
    OTHER = "other"


PATHLESS_WRITERS = (ToolClass.SHELL, ToolClass.OTHER)
"""Classes of tools that can write without naming what (docs/agents.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call: a window `[opened_ns, closed_ns)` of the file system's clock.

    `paths` are the covered paths that its hook names; empty for a tool that names none.
    `began_ns` is when the tool began to run, where that is known: a hook that comes before the
    tool also comes before the person who is asked for permission.
    """

    id: str
    session: str
    turn: str | None
    tool: str
    tool_class: ToolClass
    opened_ns: int
    closed_ns: int | None = None
    outcome: str | None = None
    paths: tuple[RepoPath, ...] = ()
    pid: int | None = None
    pid_started: int | None = None
    worktree: str = "main"
    began_ns: int | None = None

    @property
    def runs_from_ns(self) -> int:
        """Return the earliest moment at which the tool can have written."""
        return self.opened_ns if self.began_ns is None else self.began_ns

    def contains(self, moment_ns: int, tolerance_ns: int) -> bool:
        """Return whether the window holds a moment."""
        # With strictly ordered stamps the hook's closing stamp is newer than every write before it,
        # so the window is half-open. With coarse ones a last write may have the closing stamp
        # itself.
        if moment_ns < self.runs_from_ns:
            return False
        if self.closed_ns is None or moment_ns < self.closed_ns:
            return True
        return tolerance_ns > 0 and moment_ns == self.closed_ns

    def nearly_contains(self, moment_ns: int, tolerance_ns: int) -> bool:
        """Return whether the window holds a moment if it is widened by the clock's tolerance."""
        if moment_ns < self.runs_from_ns - tolerance_ns:
            return False
        return self.closed_ns is None or moment_ns < self.closed_ns + tolerance_ns

    def meets(self, begin_ns: int, end_ns: int, tolerance_ns: int) -> bool:
        """Return whether the window shares a moment with a closed interval."""
        if self.runs_from_ns - tolerance_ns > end_ns:
            return False
        return self.closed_ns is None or self.closed_ns + tolerance_ns > begin_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """The events of one session that belong together."""

    id: str
    session: str
    worktree: str
    turn: str | None
    ordinal: int
    started_ns: int
    ended_ns: int
    first_seq: int
    last_seq: int
    open: bool = True


class OpKind(StrEnum):
    """The verbs that write an earlier state into the working tree."""

    OOPS = "oops"
    UNDO = "undo"
    REDO = "redo"
    RESTORE = "restore"


class OpStatus(StrEnum):
    """How far an op got; `applying` marks one that a crash interrupted."""

    APPLYING = "applying"
    DONE = "done"
    ROLLED_BACK = "rolled_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One recorded undo, redo or restore.

    `undoes` are the ids that it undoes: bursts, sessions, turns, calls (`session:call`),
    event seqs or ops, each as printed. `report` is the JSON document, None until done.
    """

    id: str
    kind: OpKind
    ts_ns: int
    worktree: str
    session: str
    target: str
    undoes: tuple[str, ...]
    status: OpStatus
    token: str
    commit: Oid | None = None
    report: str | None = None


@dataclass(frozen=True, slots=True)
class Excluded:
    """One topmost path that is not recorded, why, and by which rule.

    `count` is the number of entries it stands for where that is known cheaply, else 1.
    """

    path: RepoPath
    reason: str
    rule: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One observed write to a path that is not covered; it can never be undone."""

    worktree: str
    path: RepoPath
    why: str
    ts_ns: int
    session: str | None = None
    turn: str | None = None
    call: str | None = None


class Level(StrEnum):
    """What follows from a finding of `check`; later ones are stricter."""

    OFF = "off"
    WARN = "warn"
    REFUSE = "refuse"

    @property
    def rank(self) -> int:
        """Return the place in the order of strictness, from 0."""
        return list(Level).index(self)


class Demands(NamedTuple):
    """The demands of one source: the user's settings, or a policy file.

    `review_lines` agent lines may go without a review mark.
    """

    open_turn: Level = Level.OFF
    protected: Level = Level.OFF
    protected_paths: tuple[str, ...] = ()
    review: Level = Level.OFF
    review_lines: int = 50
    unknown: Level = Level.OFF
    undone: Level = Level.OFF
    gaps: Level = Level.OFF
