"""The spool: payloads that no process could take when they came, and which of them are whose.

The worktrees of a repository share one directory. A payload for another worktree is renamed
after a while, so that it is read once and not at each barrier of ours.
Invariant: a file is unlinked only when it was taken, or can be taken by nobody any more.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.attribution.delivery import HookDelivery, parse_spool
from gitshadow.store.layout import MAIN_WORKTREE, Layout

FOREIGN_NS = 5_000_000_000
"""How long a payload for another worktree keeps the name that its hook waits for."""

_KEPT_ASIDE = 16
_JSON = ".json"
_ASIDE = ".refused"
_FOR = ".for-"


class SpooledFile(NamedTuple):
    """Store one file of the spool; no delivery where it could not be read."""

    path: str
    delivery: HookDelivery | None
    at_ns: int = 0

    @property
    def is_addressed(self) -> bool:
        """Return whether the name says which worktree it is for: then it is for this one."""
        return _worktree_of(os.path.basename(self.path)) is not None


@dataclass(slots=True)
class Spool:
    """Read the spool for one worktree and remember what was taken and still lies there."""

    layout: Layout
    taken: dict[str, None] = field(default_factory=dict)

    def waiting(self) -> list[SpooledFile]:
        """Return what is not known to be another worktree's or taken, oldest first."""
        found = [self._read(path) for path in self._paths() if path not in self.taken]
        return sorted(found, key=lambda one: (one.at_ns, one.path))

    def pass_on(self, one: SpooledFile, worktree: str, now_ns: int) -> None:
        """Name a payload after the worktree that it is for, unless its hook may still wait."""
        if now_ns - one.at_ns < FOREIGN_NS:
            return
        stem = os.path.basename(one.path).removesuffix(_JSON)
        pid = stem.rpartition("-")[2]
        name = name_for(worktree, one.at_ns, pid)
        with suppress(FileNotFoundError):
            os.rename(one.path, os.path.join(self.layout.spool_dir, name))

    def set_aside(self, one: SpooledFile) -> str:
        """Keep a payload that nobody can take where it stands in no verb's way."""
        aside = one.path + _ASIDE
        with suppress(FileNotFoundError):
            os.rename(one.path, aside)
        kept = sorted(name for name in self._names() if name.endswith(_ASIDE))
        for name in kept[:-_KEPT_ASIDE]:
            discard(os.path.join(self.layout.spool_dir, name))
        return aside

    def clear(self) -> int:
        """Unlink what was taken: that is what a hook waits for; return how much it was."""
        done = len(self.taken)
        for path in self.taken:
            discard(path)
        self.taken.clear()
        return done

    def _names(self) -> list[str]:
        return os.listdir(self.layout.spool_dir)

    def _paths(self) -> Iterator[str]:
        for name in sorted(self._names()):
            path = os.path.join(self.layout.spool_dir, name)
            worktree = _worktree_of(name)
            if not name.endswith(_JSON):
                continue
            if worktree in (None, self.layout.worktree):
                yield path
            elif not _stands(self.layout, worktree or MAIN_WORKTREE):
                discard(path)

    def _read(self, path: str) -> SpooledFile:
        delivery = parse_spool(path)
        at_ns = 0 if delivery is None else delivery.at_ns or 0
        name = os.path.basename(path)
        stamp = name.partition("-")[0]
        if _worktree_of(name) is not None and stamp.isdecimal():
            at_ns = int(stamp)  # the rename has moved the file's own time
            delivery = None if delivery is None else replace(delivery, at_ns=at_ns)
        return SpooledFile(path, delivery, at_ns)


def name_for(worktree: str, at_ns: int, pid: str) -> str:
    """Return the name of a payload for one worktree that came at a moment."""
    return f"{at_ns}-{pid}{_FOR}{worktree}{_JSON}"


def discard(path: str) -> None:
    """Remove a payload; another worktree's process may have been quicker."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def _worktree_of(name: str) -> str | None:
    """Return the worktree that a file's name says it is for, None where it says nothing."""
    _, found, worktree = name.removesuffix(_JSON).partition(_FOR)
    return worktree if found else None


def _stands(layout: Layout, worktree: str) -> bool:
    place = os.path.join(layout.common_dir, "worktrees", worktree)
    return worktree == MAIN_WORKTREE or os.path.isdir(place)
