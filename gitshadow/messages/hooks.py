"""hooks, uninstall: what is written into files of other programs, and whether it works."""

from typing import NamedTuple


class InstallItem(NamedTuple):
    """What happens to one file, setting or group of refs; `diff` has its lines.

    `hooks` is how many hooks are written into a settings file or removed from it, 0 for others.
    """

    agent: str
    scope: str
    path: str
    action: str
    diff: tuple[str, ...]
    error: str | None
    hooks: int = 0

    @property
    def is_change(self) -> bool:
        """Return whether something is written or deleted."""
        return self.action not in ("none", "fail")


class InstallReport(NamedTuple):
    """A plan as it went; `status` is planned, refused, done, nothing_to_do, partial or failed."""

    status: str
    items: tuple[InstallItem, ...]
    notes: tuple[str, ...]


class HooksPlace(NamedTuple):
    """The state of an agent's hooks in one scope, and their file."""

    state: str
    path: str


class AgentRow(NamedTuple):
    """An agent: whether it was found here, and where its hooks are installed."""

    agent: str
    detected: bool
    user: HooksPlace | None = None
    project: HooksPlace | None = None


class HookFindingRow(NamedTuple):
    """One problem of installed hooks, and its fix."""

    state: str
    problem: str
    fix: str


class HooksRow(NamedTuple):
    """The state of installed hooks; Git's own have neither a path nor findings.

    `version` is that of the agent's program, if one is found and says it; `verified` the one with
    which the hooks were last tested, `newer` is true if `version` is newer than that;
    `unknown_events` are those that the program does not have; at `changed` ones a person changed
    the entry, which reports all the same.
    """

    agent: str
    scope: str
    state: str
    path: str | None = None
    findings: tuple[HookFindingRow, ...] | None = None
    version: str | None = None
    verified: str | None = None
    newer: bool = False
    unknown_events: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
