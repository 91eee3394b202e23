"""Every setting, its default and its allowed values, as one frozen `Config`.

Invariant: nothing here reads files, git or the environment; the caller hands in what it
read. A value that cannot be used is an error that names it, never a silent default.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from gitshadow.errors import UsageError
from gitshadow.model import Demands, Level

GIT_PREFIX = "agent-undo."
ENV_PREFIX = "GITSHADOW_"

_T_co = TypeVar("_T_co", covariant=True)

_SIZE = re.compile(r"([0-9]{1,12})([kmg]?)")
_SIZE_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_COUNT = re.compile(r"[0-9]{1,9}")
_DURATION = re.compile(r"([0-9]{1,6})(ms|s|m|h|d|w)")
_DURATION_UNITS_NS = {
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
}
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0", ""})
_SHOWN_CHARACTERS = 80


class DaemonMode(StrEnum):
    """Whether a daemon may be started on demand."""

    AUTO = "auto"
    OFF = "off"


class WatchBackend(StrEnum):
    """What notices that files change."""

    AUTO = "auto"
    INOTIFY = "inotify"
    WATCHFILES = "watchfiles"


class PromptPolicy(StrEnum):
    """Where the text of prompts is stored."""

    JOURNAL = "journal"
    COMMIT = "commit"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ConfigKey(Generic[_T_co]):
    """One setting: its name in git's config, values, default and meaning.

    `parse` raises ValueError for a value that is not allowed. A `joined` key takes all
    values that git's config has for it, one per line; any other key takes the last one.
    """

    name: str
    parse: Callable[[str], _T_co]
    allowed: str
    default: str
    meaning: str
    joined: bool = False

    @property
    def git_name(self) -> str:
        """Return the full name in git's config (`agent-undo.maxFileSize`)."""
        return GIT_PREFIX + self.name

    @property
    def env_name(self) -> str:
        """Return the name in the environment (`GITSHADOW_MAX_FILE_SIZE`)."""
        return (
            ENV_PREFIX + re.sub("([A-Z.])", r"_\1", self.name).replace(".", "").upper()
        )

    @property
    def env_names(self) -> tuple[str, ...]:
        """Return every accepted name in the environment, the preferred one first."""
        plain = ENV_PREFIX + self.name.replace(".", "").upper()
        return tuple(dict.fromkeys((self.env_name, plain)))


def _boolean(text: str) -> bool:
    word = text.lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(text)
    return word in _TRUE


def parse_size(text: str) -> int:
    """Return a size in bytes (`20m`).

    Raises:
        ValueError: it is none.
    """
    match = _SIZE.fullmatch(text.lower())
    if match is None or int(match[1]) == 0:
        raise ValueError(text)
    return int(match[1]) * _SIZE_UNITS[match[2]]


def duration_ns(text: str) -> int:
    """Return a length of time that is written as `30s`, `5m` or `30d`.

    Raises:
        ValueError: it is none, or no time at all.
    """
    match = _DURATION.fullmatch(text.lower())
    if match is None or int(match[1]) == 0:
        raise ValueError(text)
    return int(match[1]) * _DURATION_UNITS_NS[match[2]]


def _patterns(text: str) -> tuple[str, ...]:
    if "\0" in text:
        raise ValueError(text)
    return tuple(line for line in text.split("\n") if line.strip())


def _level(text: str) -> Level:
    return Level(text.lower())


def _count(text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text))


def _absolute_path(text: str) -> str:
    if not text.startswith("/") or "\0" in text:
        raise ValueError(text)
    return text


def _or_off(parse: Callable[[str], _T_co]) -> Callable[[str], _T_co | None]:
    return lambda text: None if text.lower() == "off" else parse(text)


_BOOLEAN = "`true` or `false`"
_SIZE_WORDS = "a size in bytes, or with the suffix `k`, `m` or `g`, like `20m`"
_LEVEL_WORDS = "`off`, `warn` or `refuse`"
_PATTERN_WORDS = (
    "patterns in gitignore syntax, one per value (in the environment: one per line)"
)
_DURATION_WORDS = "a duration like `500ms`, `30s`, `5m`, `2h`, `30d` or `4w`"

ENABLED = ConfigKey(
    "enabled",
    _boolean,
    _BOOLEAN,
    "true",
    "Turn recording on or off. If `false`, hooks exit 0, nothing is written and `status` says off.",
)
DAEMON = ConfigKey(
    "daemon",
    lambda text: DaemonMode(text.lower()),
    "`auto` or `off`",
    "auto",
    "Start the daemon on demand. If `off`, every hook and command records by itself.",
)
SERVER = ConfigKey(
    "server",
    lambda text: DaemonMode(text.lower()),
    "`auto` or `off`",
    "auto",
    "Start the command server, which commands start faster with. A running one is used until it "
    "ends; the variable applies at once.",
)
WATCHER = ConfigKey(
    "watcher",
    lambda text: WatchBackend(text.lower()),
    "`auto`, `inotify` or `watchfiles`",
    "auto",
    "What notices that files change: inotify itself, which is the default on Linux, or the library"
    " watchfiles. The daemon reads it when it starts.",
)
MAX_FILE_SIZE = ConfigKey(
    "maxFileSize",
    parse_size,
    _SIZE_WORDS,
    "20m",
    "Do not record larger files; each is listed as not recorded.",
)
MAX_UNTRACKED = ConfigKey(
    "maxUntracked",
    parse_size,
    _SIZE_WORDS,
    "200m",
    "Record so much of what Git neither tracks nor ignores. Over it, the directories or files that"
    " cause it are left out and listed; `agent-undo.include` records them all the same.",
)
INCLUDE = ConfigKey(
    "include",
    _patterns,
    _PATTERN_WORDS,
    "",
    "Record these files even though Git ignores them, for example `.env`.",
    joined=True,
)
IDLE_GAP = ConfigKey(
    "idleGap",
    duration_ns,
    _DURATION_WORDS,
    "5m",
    "In a session without turns, a pause of this length ends a group of changes.",
)
CONFIRM = ConfigKey(
    "confirm",
    _boolean,
    _BOOLEAN,
    "true",
    "Show the plan of an undo and ask before applying it.",
)
PROMPTS = ConfigKey(
    "prompts",
    lambda text: PromptPolicy(text.lower()),
    "`journal`, `commit` or `off`",
    "journal",
    "Store the text of prompts only in the journal, also in the shadow commits, or nowhere:"
    " `off` writes none to the disk; `purge --prompts` erases those that are there.",
)
TRAILERS = ConfigKey(
    "trailers",
    _boolean,
    _BOOLEAN,
    "false",
    "Add trailers to commit messages that name the agents and sessions that wrote the staged lines "
    "(`Assisted-by`, `Agent-Session`); requires `hooks install git`.",
)
RETENTION_AGE = ConfigKey(
    "retentionAge",
    _or_off(duration_ns),
    f"`off`, or {_DURATION_WORDS}",
    "off",
    "Drop closed sessions whose last write is older than this.",
)
RETENTION_COUNT = ConfigKey(
    "retentionCount",
    _or_off(_count),
    "`off`, or a whole number",
    "2000",
    "Keep this many sessions and drop the oldest closed ones beyond that.",
)
RETENTION_SIZE = ConfigKey(
    "retentionSize",
    _or_off(parse_size),
    f"`off`, or {_SIZE_WORDS}",
    "2g",
    "Drop the oldest closed sessions if the history is larger than this.",
)
MIRROR = ConfigKey(
    "mirror",
    _or_off(_absolute_path),
    "`off`, or an absolute path",
    "off",
    "Keep a copy of the history, branches and tags in this directory, one repository for each "
    "project; `restore --from-mirror` restores it.",
)

PUSH_GUARD = ConfigKey(
    "pushGuard",
    _boolean,
    _BOOLEAN,
    "true",
    "Stop a push by Git that would send recorded history (requires `hooks install git`).",
)

LEDGER = ConfigKey(
    "ledger",
    _boolean,
    _BOOLEAN,
    "true",
    "Compare the bytes that agents' processes wrote with what each write needs, and do not name an "
    "agent that wrote too few.",
)
WITNESS = ConfigKey(
    "witness",
    _boolean,
    _BOOLEAN,
    "false",
    "Use the kernel's reports of who wrote, where this user may read them (see how.md).",
)


ALERTS = ConfigKey(
    "alerts",
    _boolean,
    _BOOLEAN,
    "true",
    "Alert you when an agent deletes many files, writes outside the repository or changes a "
    "protected path. It needs the daemon.",
)
ALERT_DELETES = ConfigKey(
    "alertDeletes",
    _count,
    "a whole number",
    "20",
    "Alert when an agent deletes more files than this in one turn.",
)
PROTECT = ConfigKey(
    "protect",
    _patterns,
    _PATTERN_WORDS,
    "",
    "Alert when an agent changes one of these paths.",
    joined=True,
)


_COMMAND_WORDS = "a command and its arguments, run without a shell"
PRE_UNDO = ConfigKey(
    "preUndo",
    _words,
    _COMMAND_WORDS,
    "",
    "Run before an undo, with its plan as JSON on standard input. If it fails, a turn of an agent "
    "program is not undone; an undo of files alone notes the failure and continues.",
)
POST_UNDO = ConfigKey(
    "postUndo",
    _words,
    _COMMAND_WORDS,
    "",
    "Run after an undo (of files or of an agent program's turn) or a rollback, with its report as "
    "JSON on standard input.",
)
POST_REWIND = ConfigKey(
    "postRewind",
    _words,
    _COMMAND_WORDS,
    "",
    "Run after a rewind, with its report as JSON; `hidden_invocations` lists what is hidden.",
)


def _level_of(name: str, default: str, meaning: str) -> ConfigKey[Level]:
    return ConfigKey(
        f"check.{name}",
        _level,
        _LEVEL_WORDS,
        default,
        f"The action of `check` for {meaning}.",
    )


CHECK_OPEN_TURN = _level_of(
    "openTurn", "refuse", "files that an open turn of another session changed"
)
CHECK_PROTECTED = _level_of(
    "protected", "refuse", "protected paths that an agent changed"
)
CHECK_PROTECTED_PATHS = ConfigKey(
    "check.protectedPaths",
    _patterns,
    _PATTERN_WORDS,
    "",
    "Paths that agents must not change.",
    joined=True,
)
CHECK_REVIEW = _level_of(
    "review",
    "off",
    "more than `check.reviewLines` unreviewed agent lines",
)
CHECK_REVIEW_LINES = ConfigKey(
    "check.reviewLines",
    _count,
    "a whole number",
    "50",
    "Number of agent lines that a change may have without a review mark.",
)
CHECK_UNKNOWN = _level_of("unknown", "off", "lines of unknown author")
CHECK_UNDONE = _level_of("undone", "warn", "lines that an undo removed")
CHECK_GAPS = _level_of("gaps", "warn", "files with gaps in their recording")

KEYS: tuple[ConfigKey[object], ...] = (
    ENABLED,
    DAEMON,
    SERVER,
    WATCHER,
    MAX_FILE_SIZE,
    MAX_UNTRACKED,
    INCLUDE,
    IDLE_GAP,
    CONFIRM,
    PROMPTS,
    TRAILERS,
    RETENTION_AGE,
    RETENTION_COUNT,
    RETENTION_SIZE,
    MIRROR,
    PUSH_GUARD,
    LEDGER,
    WITNESS,
    ALERTS,
    ALERT_DELETES,
    PROTECT,
    PRE_UNDO,
    POST_UNDO,
    POST_REWIND,
    CHECK_OPEN_TURN,
    CHECK_PROTECTED,
    CHECK_PROTECTED_PATHS,
    CHECK_REVIEW,
    CHECK_REVIEW_LINES,
    CHECK_UNKNOWN,
    CHECK_UNDONE,
    CHECK_GAPS,
)
"""Every setting, in the order of the documentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting as a parsed value; None is `off`."""

    enabled: bool
    daemon: DaemonMode
    server: DaemonMode
    watcher: WatchBackend
    max_file_size_bytes: int
    max_untracked_bytes: int
    include: tuple[str, ...]
    idle_gap_ns: int
    confirm: bool
    prompts: PromptPolicy
    trailers: bool
    retention_age_ns: int | None
    retention_count: int | None
    retention_size_bytes: int | None
    mirror: str | None
    push_guard: bool
    ledger: bool
    witness: bool
    alerts: bool
    alert_deletes: int
    protect: tuple[str, ...]
    pre_undo: tuple[str, ...]
    post_undo: tuple[str, ...]
    post_rewind: tuple[str, ...]
    check: Demands


def load(
    git_values: Mapping[str, Sequence[str]],
    environ: Mapping[str, str],
    overrides: Mapping[str, str] | None = None,
) -> Config:
    """Combine defaults, git's config, the environment and flags; the later one wins.

    Args:
        git_values: names, in any case and with or without `agent-undo.`, to all values
            in git's order. A key without a value is `true`. Unknown names are ignored,
            because a newer version may know them.
        environ: the process environment. An empty variable counts as not set.
        overrides: values given as flags, by the key's short name (`maxFileSize`).

    Raises:
        UsageError: a value is not allowed, or `overrides` has an unknown name.
    """
    flags = dict(overrides or {})
    # Names in Git's config are case-insensitive (git-config(1)).
    sources = _Sources(
        git={
            name.lower().removeprefix(GIT_PREFIX): values
            for name, values in git_values.items()
        },
        environ=environ,
        flags=flags,
    )
    unknown = sorted(flags.keys() - {key.name for key in KEYS})
    if unknown:
        raise UsageError(f"no such setting: {unknown[0]!r}")
    return Config(
        enabled=sources.value(ENABLED),
        daemon=sources.value(DAEMON),
        server=sources.value(SERVER),
        watcher=sources.value(WATCHER),
        max_file_size_bytes=sources.value(MAX_FILE_SIZE),
        max_untracked_bytes=sources.value(MAX_UNTRACKED),
        include=sources.value(INCLUDE),
        idle_gap_ns=sources.value(IDLE_GAP),
        confirm=sources.value(CONFIRM),
        prompts=sources.value(PROMPTS),
        trailers=sources.value(TRAILERS),
        retention_age_ns=sources.value(RETENTION_AGE),
        retention_count=sources.value(RETENTION_COUNT),
        retention_size_bytes=sources.value(RETENTION_SIZE),
        mirror=sources.value(MIRROR),
        push_guard=sources.value(PUSH_GUARD),
        ledger=sources.value(LEDGER),
        witness=sources.value(WITNESS),
        alerts=sources.value(ALERTS),
        alert_deletes=sources.value(ALERT_DELETES),
        protect=sources.value(PROTECT),
        pre_undo=sources.value(PRE_UNDO),
        post_undo=sources.value(POST_UNDO),
        post_rewind=sources.value(POST_REWIND),
        check=_demands(sources),
    )


def stores_prompts(git_value: str | None, environ: Mapping[str, str]) -> bool:
    """Return whether the text of prompts may be stored; not if the setting is not allowed."""
    given = {} if git_value is None else {PROMPTS.name: [git_value]}
    try:
        found = _Sources(git=given, environ=environ, flags={}).value(PROMPTS)
    except UsageError:
        return False
    return found is not PromptPolicy.OFF


def _demands(sources: "_Sources") -> Demands:
    return Demands(
        open_turn=sources.value(CHECK_OPEN_TURN),
        protected=sources.value(CHECK_PROTECTED),
        protected_paths=sources.value(CHECK_PROTECTED_PATHS),
        review=sources.value(CHECK_REVIEW),
        review_lines=sources.value(CHECK_REVIEW_LINES),
        unknown=sources.value(CHECK_UNKNOWN),
        undone=sources.value(CHECK_UNDONE),
        gaps=sources.value(CHECK_GAPS),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    git: Mapping[str, Sequence[str]]
    environ: Mapping[str, str]
    flags: Mapping[str, str]

    def value(self, key: ConfigKey[_T_co]) -> _T_co:
        text, remedy = self._text(key)
        try:
            return key.parse(text if key.joined else text.strip())
        except ValueError as err:
            shown = repr(text[:_SHOWN_CHARACTERS])
            allowed = key.allowed.replace("`", "")
            raise UsageError(
                f"cannot use {shown} as {key.git_name}: it must be {allowed}",
                hint=remedy,
            ) from err

    def _text(self, key: ConfigKey[_T_co]) -> tuple[str, str]:
        """Return the value that wins, as text, and how to get rid of it."""
        if key.name in self.flags:
            return self.flags[key.name], "give the flag another value"
        for name in key.env_names:
            if self.environ.get(name):
                return self.environ[name], f"change or unset the variable {name}"
        values = self.git.get(key.name.lower(), ())
        if not values:
            return key.default, "report this bug: the default is not allowed"
        text = "\n".join(values) if key.joined else values[-1]
        return (
            text,
            # `--unset` refuses a name with several values.
            f"run `git config --unset-all {key.git_name}`, or set another value",
        )
