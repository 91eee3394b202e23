"""The context of a recorder: one workspace and its workers, wired in one direction.

claimant → pipeline → walker → observer. Verbs and hooks get the desk and use what they need.
Invariant: one thread, one desk.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from gitshadow.model import Actor
from gitshadow.recording.attributor import Claimant
from gitshadow.recording.commit_window import Commits
from gitshadow.recording.observer import Observer, StillObserver
from gitshadow.recording.peers import Others
from gitshadow.recording.pipeline import Pipeline
from gitshadow.recording.spool import Spool
from gitshadow.recording.walker import Walker
from gitshadow.recording.workspace import Workspace, open_workspace
from gitshadow.store.layout import Layout

_LOOK_LOCK_S = 10.0


@dataclass(frozen=True, slots=True)
class Desk:
    """Hold a workspace and its workers."""

    workspace: Workspace
    claimant: Claimant
    commits: Commits
    pipeline: Pipeline
    walker: Walker
    observer: Observer
    spool: Spool
    others: "Others[Desk]"

    def hold_present(self) -> None:
        """Before somebody writes: have what stands on the disk published, where no ref holds it.

        So it is after everything was dropped, until the next write.
        """
        if self.workspace.states.apart:
            unknown = self.claimant.personal(Actor.UNKNOWN)
            self.workspace.recorder.ensure_baseline(unknown, synced=True)

    def close(self) -> None:
        """Give the workspace back."""
        self.others.close()
        self.workspace.close()


def open_desk(
    layout: Layout, environ: Mapping[str, str], *, lock_timeout_s: float
) -> Desk:
    """Open a worktree and wire its workers; errors as `open_workspace`."""
    workspace = open_workspace(layout, environ, lock_timeout_s=lock_timeout_s)
    claimant = Claimant(
        workspace.db, workspace.files, workspace.clock, layout, workspace.traces
    )
    commits = Commits(layout)
    pipeline = Pipeline(workspace, claimant, commits)
    walker = Walker(workspace, pipeline)
    observer = Observer(workspace, pipeline, walker)
    spool = Spool(layout)
    others = Others(layout, partial(open_still, environ=environ))
    return Desk(workspace, claimant, commits, pipeline, walker, observer, spool, others)


def open_still(layout: Layout, environ: Mapping[str, str]) -> Desk:
    """Open a journal in which nothing is recorded, only to look."""
    desk = open_desk(layout, environ, lock_timeout_s=_LOOK_LOCK_S)
    ws = desk.workspace
    return replace(desk, observer=StillObserver(ws, desk.pipeline, desk.walker))
