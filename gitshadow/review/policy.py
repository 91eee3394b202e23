"""Read the demands on a change: the user's settings, and `.agent-undo.toml` in the repository.

A policy file is hostile input, because anybody who writes to the repository can write it. So it is
bounded and read as data, nothing in it names a command or a path outside, and it only adds to the
user's own settings. It counts as it was before the change and as it is in the change, so that no
change loosens the policy that it is checked by.
Invariant: only committed and staged blobs are read, never the working tree. The user's settings are
always the first source. A file that cannot be understood is an error, never an empty policy.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

from gitshadow.model import LINK_MODE, TREE_MODE, Demands, Level, Oid, RepoPath
from gitshadow.recording.workspace import Workspace, read_config
from gitshadow.review.changes import ReviewedChange
from gitshadow.review.rules import CheckRule, PolicyFinding, PolicySource
from gitshadow.store.trees import Entry

FILE = RepoPath(b".agent-undo.toml")
MOST_BYTES = 65_536
MOST_PATTERNS = 500
MOST_CHARACTERS = 1_000
MOST_LINES = 999_999_999

_TABLE = "check"
_LEVELS = ("openTurn", "protected", "review", "unknown", "undone", "gaps")
_PATTERNS = "protectedPaths"
_LINES = "reviewLines"
KEYS = (*_LEVELS, _PATTERNS, _LINES)
"""The keys of the table `[check]`: those of `git config agent-undo.check.*`."""
SETTINGS = "git config"
_NAME = FILE.decode()
_NO_FILE = {
    LINK_MODE: "it is a symbolic link, which is not followed",
    TREE_MODE: "it is a directory",
}


class PolicyReading(NamedTuple):
    """Store what a policy file demands, what in it is unknown, and what makes it useless.

    Where there are errors the demands are those of the rest.
    """

    demands: Demands = Demands()
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class _UnusableError(Exception):
    pass


def read(data: bytes) -> PolicyReading:
    """Read a policy file."""
    # The file may come from anybody's pull request, so its size is bounded before it is parsed.
    if len(data) > MOST_BYTES:
        return PolicyReading(errors=(f"it is larger than {MOST_BYTES} bytes",))
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        return PolicyReading(errors=("it is not UTF-8",))
    except (ValueError, RecursionError) as error:
        # Absurd numbers and nesting raise these too (tomllib, Python 3.11).
        return PolicyReading(errors=(f"it is not valid TOML: {error}",))
    warnings = list(_unknown(document, (_TABLE,), "table"))
    table = document.get(_TABLE, {})
    if not isinstance(table, dict):
        return PolicyReading(
            warnings=tuple(warnings), errors=(f"{_TABLE} is not a table",)
        )
    warnings += _unknown(table, KEYS, "key")
    demands, errors = _demands(table)
    return PolicyReading(demands, tuple(warnings), tuple(errors))


def _unknown(
    table: Mapping[str, object], known: tuple[str, ...], what: str
) -> Iterator[str]:
    for name in table:
        if name in known:
            continue
        near = get_close_matches(name.lower(), [one.lower() for one in known], n=1)
        meant = [one for one in known if one.lower() in near]
        hint = f"; did you mean {meant[0]}?" if meant else ""
        yield f"unknown {what} {name!r}{hint}"


def _demands(table: Mapping[str, object]) -> tuple[Demands, list[str]]:
    """Return what a table demands: what a number or a list is given for is refused."""
    levels: dict[str, Level] = {}
    made, errors = Demands(), list[str]()
    for key, value in table.items():
        try:
            if key in _LEVELS:
                levels[key] = _level(key, value)
            elif key == _PATTERNS:
                made = made._replace(protected_paths=_patterns(value))
            elif key == _LINES:
                made = made._replace(review_lines=_count(value))
        except _UnusableError as error:
            errors.append(str(error))
    implied = {"protected": _PATTERNS in table, "review": _LINES in table}
    for key, given in implied.items():
        if given:
            # Who lists paths or a number of lines means it, and need not name a level as well.
            levels.setdefault(key, Level.REFUSE)
    return made._replace(
        open_turn=levels.get("openTurn", Level.OFF),
        protected=levels.get("protected", Level.OFF),
        review=levels.get("review", Level.OFF),
        unknown=levels.get("unknown", Level.OFF),
        undone=levels.get("undone", Level.OFF),
        gaps=levels.get("gaps", Level.OFF),
    ), errors


def _level(key: str, value: object) -> Level:
    words = [level.value for level in Level]
    if isinstance(value, str) and value in words:
        return Level(value)
    near = get_close_matches(str(value).lower(), words, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise _UnusableError(f"{key} must be one of {', '.join(words)}{hint}")


def _patterns(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [None]
    texts = [one for one in listed if isinstance(one, str)]
    if len(texts) != len(listed):
        raise _UnusableError(f"{_PATTERNS} must be a list of patterns")
    if len(texts) > MOST_PATTERNS:
        raise _UnusableError(f"{_PATTERNS} has more than {MOST_PATTERNS} patterns")
    for text in texts:
        if len(text) > MOST_CHARACTERS or "\n" in text or "\0" in text:
            raise _UnusableError(
                f"{_PATTERNS} has a pattern over several lines"
                f" or of more than {MOST_CHARACTERS} characters"
            )
    return tuple(texts)


def _count(value: object) -> int:
    # In Python `true` is an int, but in TOML it is no number.
    whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, int) and whole and 0 <= value <= MOST_LINES:
        return value
    raise _UnusableError(f"{_LINES} must be a whole number, at least 0")


@dataclass(slots=True)
class Policies:
    """Collect sources, what is to be said of them, and what makes one of them useless."""

    sources: list[PolicySource] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    findings: list[PolicyFinding] = field(default_factory=list)


def policies_for(
    ws: Workspace, change: ReviewedChange, environ: Mapping[str, str]
) -> Policies:
    """Return the policy for a change; settings are read again, because a daemon may be older.

    A file that cannot be used refuses the change that has it; where only the state before it was
    broken, that is a warning, so that it can be repaired.

    Args:
        ws: The worktree.
        change: What is judged.
        environ: The variables of the caller.

    Raises:
        UsageError: a setting of the user's is not allowed.
    """
    found = Policies([PolicySource(SETTINGS, read_config(ws.repo, environ).check)])
    before = None if change.before is None else _committed(ws, change.before)
    after = _after(ws, change)
    if after is not None:
        reading = _read_file(ws, after)
        _take(found, _NAME if before == after else f"{_NAME} in this change", reading)
        found.findings += [_broken(why) for why in reading.errors]
    # A change must not get around a policy by editing it: the state before it counts, too.
    if before is not None and before != after:
        reading = _read_file(ws, before)
        _take(found, f"{_NAME} before this change", reading)
        found.warnings += [
            f"{_NAME} before this change: {why}" for why in reading.errors
        ]
    return found


def _take(found: Policies, name: str, reading: PolicyReading) -> None:
    found.sources.append(PolicySource(name, reading.demands))
    found.warnings += [f"{name}: {why}" for why in reading.warnings]


def _broken(why: str) -> PolicyFinding:
    return PolicyFinding(
        rule=CheckRule.POLICY,
        path=FILE,
        reason=f"cannot use the policy: {why}",
        level=Level.REFUSE,
        source=_NAME,
    )


def _after(ws: Workspace, change: ReviewedChange) -> Entry | None:
    if change.tip is not None:
        return _committed(ws, change.tip)
    for one in change.files:
        if one.path == FILE:
            return one.new
        if one.old_path == FILE:
            return None
    return None if change.base is None else _committed(ws, change.base)


def _committed(ws: Workspace, commit: Oid) -> Entry | None:
    return ws.repo.trees.entry(ws.repo.commit(commit).tree, FILE)


def _read_file(ws: Workspace, entry: Entry) -> PolicyReading:
    why = _NO_FILE.get(entry[0])
    if why is not None:
        return PolicyReading(errors=(why,))
    # The size is asked first, so that a huge blob is not read to be refused.
    size = ws.git.sizes([entry[1]]).get(entry[1], 0)
    if size > MOST_BYTES:
        return PolicyReading(errors=(f"it is larger than {MOST_BYTES} bytes",))
    return read(ws.repo.read_blob(entry[1]))
