"""Where the demands on a change come from: the user's settings, and the policy files it is held to.

A policy file counts as it was before the change and as it is in it, so that no change loosens the
policy that it is judged by. Read are committed and staged blobs alone, never the working tree.
Invariant: the user's settings are always among the sources, first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitshadow.model import LINK_MODE, TREE_MODE, Level, Oid
from gitshadow.recording.workspace import Workspace, read_config
from gitshadow.review import policy
from gitshadow.review.changes import ReviewedChange
from gitshadow.review.policy import FILE, PolicyReading
from gitshadow.review.rules import CheckRule, PolicyFinding, PolicySource
from gitshadow.store.trees import Entry

SETTINGS = "git config"
_NAME = FILE.decode()
_NO_FILE = {
    LINK_MODE: "it is a symbolic link, which is not followed",
    TREE_MODE: "it is a directory",
}


@dataclass(slots=True)
class Policies:
    """Collect sources, what is to be said of them, and what makes one of them useless."""

    sources: list[PolicySource] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    findings: list[PolicyFinding] = field(default_factory=list)


def policies_for(
    ws: Workspace, change: ReviewedChange, environ: Mapping[str, str]
) -> Policies:
    """Return what a change is held to; settings are read anew, a daemon may be older.

    A file that cannot be used refuses the change that has it; where only the state before it was
    broken, that is a warning, so that it can be mended.

    Args:
        ws: The worktree.
        change: What is judged.
        environ: The variables of whoever asks.

    Raises:
        UsageError: a setting of the user's is not allowed.
    """
    found = Policies([PolicySource(SETTINGS, read_config(ws.repo, environ).check)])
    before, after = _before(ws, change), _after(ws, change)
    if after is not None:
        reading = _read(ws, after)
        _take(found, _NAME if before == after else f"{_NAME} in this change", reading)
        found.findings += [_broken(why) for why in reading.errors]
    if before is not None and before != after:
        reading = _read(ws, before)
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


def _before(ws: Workspace, change: ReviewedChange) -> Entry | None:
    return None if change.before is None else _committed(ws, change.before)


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
    return ws.repo.entry(ws.repo.commit(commit).tree, FILE)


def _read(ws: Workspace, entry: Entry) -> PolicyReading:
    why = _NO_FILE.get(entry[0])
    if why is not None:
        return PolicyReading(errors=(why,))
    size = ws.git.sizes([entry[1]]).get(entry[1], 0)
    if size > policy.MOST_BYTES:
        return PolicyReading(errors=(f"it is larger than {policy.MOST_BYTES} bytes",))
    return policy.read(ws.repo.read_blob(entry[1]))
