"""Git's ignore files: where rules come from, and which of several files decides.

Nearest first: the `.gitignore` of the directory, those of its ancestors, `info/exclude`, the user's
excludes file. gitignore(5).
Invariant: what is read here is never a link inside the worktree (nor does Git follow one there).
"""

import os
import stat as st
from collections.abc import Sequence

from gitshadow.capture.patterns import RuleList, parse_rules
from gitshadow.errors import is_shortage
from gitshadow.model import LINK_MODE, RepoPath
from gitshadow.store.files import WorkFiles

Scope = tuple[int, RuleList]
"""How much of a path lies above the directory of a rule file, and its rules."""


def ignores(scopes: Sequence[Scope], path: RepoPath, *, is_dir: bool) -> bool:
    """Tell what Git's rules say of exactly this path, its ancestors left aside."""
    for start, rules in scopes:
        rule = rules.decide(path[start:] if start else path, is_dir=is_dir)
        if rule is not None:
            return not rule.negated
    return False


def read_scope(files: WorkFiles, path: RepoPath) -> RuleList:
    """Read a rule file of the worktree; one that is absent or unreadable has no rules."""
    try:
        reading = files.read(path)
    except OSError as error:
        if is_shortage(error):
            raise
        return RuleList(())
    if reading is None or reading.mode == LINK_MODE:
        return RuleList(())
    return parse_rules(reading.data)


class OutsideFiles:
    """Hold the rules of the files outside the worktree, the deciding one first."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self.scopes: tuple[Scope, ...] = ()

    def reload(self) -> None:
        """Read the files again."""
        read = (parse_rules(_read(path)) for path in self._paths)
        self.scopes = tuple((0, rules) for rules in read if rules)

    def stamps(self) -> tuple[object, ...]:
        """Return what changes when a file does."""
        return tuple(_stamp(path) for path in self._paths)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: str) -> bytes:
    """Read a regular file, links followed as Git does here; anything else is empty."""
    try:
        if not st.S_ISREG(os.stat(path).st_mode):
            return b""
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        if is_shortage(error):
            raise
        return b""
