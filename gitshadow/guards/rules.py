"""What is alarming in the changes of one turn: pure, from counts and paths to a text.

Invariant: a text names a path only in Git's quoting, so it has no control characters.
"""

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.capture.patterns import RuleList
from gitshadow.model import PathChange, RepoPath
from gitshadow.store.refs import display_path
from gitshadow.words import counted

DELETES = "deletes"
OUTSIDE = "outside"
PROTECTED = "protected"
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/dev")


class GuardLimits(NamedTuple):
    """What is allowed without an alert: so many deletions per turn, and no path of these."""

    deletes: int
    protected: RuleList


@dataclass(slots=True)
class TurnRecord:
    """What one turn did so far that could be alarming."""

    deleted: set[RepoPath] = field(default_factory=set)
    protected: dict[RepoPath, None] = field(default_factory=dict)
    outside: dict[bytes, None] = field(default_factory=dict)

    def add(self, row: PathChange, limits: GuardLimits) -> None:
        """Note one change of the turn."""
        if row.after is None:
            self.deleted.add(row.path)
        else:
            self.deleted.discard(row.path)
        if row.old_path is not None and row.old_path != row.path:
            self.deleted.discard(row.old_path)
        for path in (row.path, row.old_path):
            if path is not None and is_protected(path, limits.protected):
                self.protected[path] = None

    def alerts(self, limits: GuardLimits) -> Iterable[tuple[str, str]]:
        """Yield kind and text of each alert that the turn deserves."""
        if len(self.deleted) > limits.deletes:
            yield DELETES, f"deleted {counted(len(self.deleted), 'file')}"
        if self.protected:
            yield PROTECTED, _named("changed a protected path", list(self.protected))
        if self.outside:
            yield OUTSIDE, _named("wrote outside the repository", list(self.outside))


def is_protected(path: bytes, rules: RuleList) -> bool:
    """Return whether a path, or a directory above it, is protected."""
    parts = path.split(b"/")
    for depth in range(len(parts), 0, -1):
        rule = rules.decide(b"/".join(parts[:depth]), is_dir=depth < len(parts))
        if rule is not None:
            return not rule.negated
    return False


def alarming_outside(paths: Iterable[bytes], temporary: Collection[str]) -> list[bytes]:
    """Return the absolute paths that are not in a directory for temporary files."""
    tops = [os.fsencode(top) for top in temporary]
    return [
        path
        for path in paths
        if not any(path == top or path.startswith(top + b"/") for top in tops)
    ]


def _named(what: str, paths: Sequence[bytes]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{what}: {display_path(RepoPath(paths[0]))}{more}"
