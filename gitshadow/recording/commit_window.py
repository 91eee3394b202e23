"""The window of a commit in progress: what its hooks write is attributed to no one.

Hook managers reset uncommitted changes to the index, run formatters and restore the changes
(pre-commit 4.7, staged_files_only.py): every dirty file is rewritten twice while `git commit` runs,
often inside a window of the agent that called it.
Invariant: the window is in a file, so that it outlives our process. It ends by a hook or with its
process; if no process of ours saw that, it covers nothing after it was last seen.
"""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from gitshadow.attribution.commits import AT_WORK, BROUGHT_BACK, hooks_at, is_by_hooks
from gitshadow.attribution.process import ProcessId, is_alive, started_ns
from gitshadow.capture.drafts import Draft
from gitshadow.errors import StoreError
from gitshadow.model import Actor, Attribution, Confidence, Event, PathChange, RepoPath
from gitshadow.platform import current
from gitshadow.store.layout import Layout
from gitshadow.store.safe_files import replacing

_SLACK_NS = 20_000_000
_MOST_RETURNS = 200
"""How many files of a batch are checked for whether hooks restore them."""


class _Window(NamedTuple):
    process: ProcessId
    opened_ns: int


class CommitWindow:
    """Store the window of the commit that runs in one worktree."""

    def __init__(self, layout: Layout) -> None:
        self._path = os.path.join(layout.wt_dir, "commit")
        self._root = layout.root
        self._table = current().process_facts().table()
        self._window = _load(self._path)
        self._alive_ns = self._window.opened_ns if self._window is not None else 0

    @property
    def running(self) -> bool:
        """Return whether a window is open, of a living process or not."""
        return self._window is not None

    def begin(self, process: ProcessId, opened_ns: int) -> None:
        """Open the window; it ends with this process at the latest.

        Raises:
            StoreError: the file could not be written: other processes do not see the window.
        """
        # The hooks of a commit may run git commands that have hooks: the outer window stays.
        if self.running and not self.gone():
            return
        self._window, self._alive_ns = _Window(process, opened_ns), opened_ns
        try:
            with replacing(self._path) as out:
                out.write(b"%d %d %d\n" % (process.pid, process.started, opened_ns))
        except OSError as error:
            raise StoreError(f"could not write {self._path}: {error}") from error

    def end(self) -> None:
        """Close the window, once everything written in it has been recorded."""
        if self._window is not None:
            self._window = None
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    def revise(
        self,
        drafts: Sequence[Draft],
        claims: Sequence[Attribution],
        nobody: Callable[[str], Attribution],
        newest_at: Callable[[RepoPath], Event | None],
    ) -> list[Attribution]:
        """Return claims in which nobody has what hooks of a commit wrote.

        Args:
            drafts: Writes.
            claims: Who made them, as the ladder has it, in the same order.
            nobody: Gives the attribution to nobody, for a reason.
            newest_at: Gives the newest event of a path.
        """
        if any(map(is_doubtful, claims)):
            self._look()
        revised = list(claims)
        if not self.running:
            return revised
        unsure = [at for at, one in enumerate(claims) if not _is_certain(one)]
        for at in unsure[:_MOST_RETURNS]:
            if brings_back(drafts[at], newest_at(drafts[at].path)):
                revised[at] = nobody(BROUGHT_BACK)
        at_work = nobody(AT_WORK)
        # A call that names the path may have written it too.
        return [
            _weakened(claim, at_work) if self._covers(draft) else claim
            for draft, claim in zip(drafts, revised, strict=True)
        ]

    def _look(self) -> None:
        """Open the window of a commit whose hooks run now, if no hook of ours reported it."""
        if self.running and not self.gone():
            return
        process = hooks_at(self._root, self._table)
        if process is not None:
            with contextlib.suppress(StoreError):
                self.begin(process, started_ns(process))

    def belongs_to(self, process: ProcessId) -> bool:
        """Return whether a window is open that was opened for this process."""
        return self._window is not None and self._window.process == process

    def gone(self) -> bool:
        """Return whether the window is open although its process has ended."""
        if self._window is None:
            return False
        now_ns = time.time_ns()
        if not is_alive(self._window.process):
            return True
        self._alive_ns = now_ns
        return False

    def _covers(self, draft: Draft) -> bool:
        window = self._window
        if window is None or draft.end_ns < window.opened_ns:
            return False
        return not self.gone() or draft.end_ns <= self._alive_ns + _SLACK_NS


def is_doubtful(claim: Attribution) -> bool:
    """Return whether a claim names an agent, and rests on the time alone."""
    return claim.actor is Actor.AGENT and not _is_certain(claim)


def _is_certain(claim: Attribution) -> bool:
    return claim.confidence is Confidence.CERTAIN


def brings_back(draft: Draft, last: Event | None) -> bool:
    """Return whether a write undoes exactly what hooks of a commit wrote last at its path."""
    if not isinstance(last, PathChange) or last.path != draft.path:
        return False
    return is_by_hooks(last) and (last.after, last.before) == draft.versions


def _weakened(claim: Attribution, nobody: Attribution) -> Attribution:
    if claim.confidence is not Confidence.CERTAIN or claim.call is None:
        return nobody
    return replace(
        nobody,
        confidence=Confidence.AMBIGUOUS,
        reason=f"{AT_WORK} while a call that names the path was open",
        candidates=(claim.session,),
    )


def _load(path: str) -> _Window | None:
    """Read a window that another process left; what is not whole is none."""
    try:
        with open(path, encoding="ascii") as file:
            pid, started, opened_ns = (int(word) for word in file.read(256).split())
    except (OSError, ValueError):
        return None
    return _Window(ProcessId(pid, started), opened_ns)
