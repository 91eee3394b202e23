"""status, doctor, init, start, stop: whether a worktree is recorded, and by what."""

from collections.abc import Mapping
from typing import NamedTuple

from gitshadow.messages.codec import UNSET, Unset, Verb
from gitshadow.messages.hooks import InstallReport
from gitshadow.messages.storage import DiskFigures


class StatusRequest(NamedTuple):
    """The state of a worktree; `brief` walks and records nothing and lists no excluded path."""

    brief: bool = False


class DaemonState(NamedTuple):
    """The daemon of a worktree; `allowed` says whether the settings want one."""

    running: bool
    pid: int | None
    allowed: bool
    started: str | None


class CurrentSession(NamedTuple):
    """An agent's session that is open."""

    id: str
    agent: str | None
    started: str | None


class ExcludedRow(NamedTuple):
    """A path that is not recorded, why, and by which rule; `count` are the entries below it."""

    path: str
    reason: str
    rule: str | None
    count_: int


class Coverage(NamedTuple):
    """How many files are recorded, and what is not."""

    tracked: int
    excluded: tuple[ExcludedRow, ...]


class ClosingRow(NamedTuple):
    """A call of an agent program that can be undone until a time."""

    closes: str | None
    session: str
    turn: str
    call: str
    tool: str


class UnreportedRow(NamedTuple):
    """What the hooks of an agent always reported once, and now never do, in one sentence."""

    agent: str
    problem: str


class AlertRow(NamedTuple):
    """Something alarming that an agent did in a turn; `id` names the turn."""

    id: str
    agent: str
    ts: str | None
    text: str


class StatusAnswer(NamedTuple):
    """The state of a worktree.

    `object_format` is that of the ids, as `extensions.objectFormat` names it. `heard` has
    the time of the newest hook of each agent, `heard_lately` the agents whose hooks came lately,
    `unreported` those of which only some events come. `degraded` says why changes are detected
    late. `alerts` are those of the last day.
    """

    root: str
    worktree: str
    object_format: str
    enabled: bool
    daemon: DaemonState
    degraded: str | None
    events: int
    sessions: int
    open_sessions: int
    current: tuple[CurrentSession, ...]
    heard: Mapping[str, str | None]
    heard_lately: tuple[str, ...]
    gaps: int
    last_gap: str | None
    coverage: Coverage
    disk: DiskFigures
    undo_window: ClosingRow | None
    hints: tuple[str, ...]
    unreported: tuple[UnreportedRow, ...] = ()
    alerts: tuple[AlertRow, ...] = ()


# These states are read from settings files, which an agent may be told to ignore: a hook that came
# lately proves that it runs.
UNLESS_HEARD = frozenset({"untrusted", "shadowed", "disabled"})


class HookRow(NamedTuple):
    """The hooks of one agent in one place; `heard` is the time of the newest event."""

    agent: str
    scope: str
    state: str
    path: str
    problem: str | None
    fix: str | None
    heard: str | None


class Protection(NamedTuple):
    """Whether what agents write can be undone: `state` is protected, partly, or not.

    `hooks` and `unhooked`, the agents without any, are known only where something is recorded.
    """

    state: str
    since: str | None
    by: tuple[str, ...]
    why: str | None
    fix: str | None
    hooks: tuple[HookRow, ...] | Unset = UNSET
    unhooked: tuple[str, ...] | Unset = UNSET


class DoctorRequest(NamedTuple):
    """Examine everything; `fix` repairs first what can be repaired."""

    fix: bool = False


class CheckRow(NamedTuple):
    """One thing that was examined; what is not ok always has a remedy."""

    name: str
    ok: bool
    message: str
    remedy: str | None


class DoctorAnswer(NamedTuple):
    """What was examined and what was repaired; `unreadable` is set if the journal is."""

    checks: tuple[CheckRow, ...]
    mended: tuple[str, ...]
    unreadable: bool = False


class InitRequest(NamedTuple):
    """Record this worktree; `force` records even a home directory."""

    force: bool = False


class InitAnswer(NamedTuple):
    """What is recorded from now on; `already` is set if it was recorded before.

    `data` is untracked data that is left out; `stored_bytes` are contents that Git did not have.
    """

    root: str
    worktree: str
    files: int
    already: bool
    warnings: tuple[str, ...]
    hints: tuple[str, ...]
    excluded: int
    data: tuple[ExcludedRow, ...]
    stored_bytes: int
    daemon: bool
    daemon_allowed: bool


class WaitingHooks(NamedTuple):
    """An agent whose hooks do not run yet, and why."""

    agent: str
    problem: str
    fix: str | None


class InitProtection(NamedTuple):
    """Who reports changes from now on, which agents have no hooks, and whose do not run."""

    by: tuple[str, ...]
    unhooked: tuple[str, ...]
    waiting: tuple[WaitingHooks, ...]


class StartAnswer(NamedTuple):
    """The daemon that runs; `at_login` is what was installed for that."""

    running: bool
    pid: int | None
    already: bool
    reason: str | Unset = UNSET
    at_login: InstallReport | Unset = UNSET


class StopAnswer(NamedTuple):
    """Whether a daemon was stopped; `at_login` is what was removed."""

    at_login: InstallReport | Unset
    stopped: bool


STATUS = Verb("status", StatusRequest, StatusAnswer)
DOCTOR = Verb("doctor", DoctorRequest, DoctorAnswer)
INIT = Verb("init", InitRequest, InitAnswer)
