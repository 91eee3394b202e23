"""The context of a recorder: one workspace and its workers, wired in one direction.

claimant → pipeline → walker → observer. Verbs and hooks get the context and use what they need.
Invariant: one thread, one context.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from gitshadow.model import Actor
from gitshadow.recording.attributor import Claimant
from gitshadow.recording.commit_window import CommitWindow
from gitshadow.recording.observer import Observer, StillObserver
from gitshadow.recording.peers import Others
from gitshadow.recording.pipeline import Pipeline
from gitshadow.recording.spool import Spool
from gitshadow.recording.walker import Walker
from gitshadow.recording.workspace import Workspace, open_workspace
from gitshadow.store.layout import Layout

_LOOK_LOCK_S = 10.0


@dataclass(frozen=True, slots=True)
class RecorderContext:
    """Hold a workspace and its workers."""

    workspace: Workspace
    claimant: Claimant
    commits: CommitWindow
    pipeline: Pipeline
    walker: Walker
    observer: Observer
    spool: Spool
    others: "Others[RecorderContext]"

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


def open_context(
    layout: Layout, environ: Mapping[str, str], *, lock_timeout_s: float
) -> RecorderContext:
    """Open a worktree and wire its workers; errors as `open_workspace`."""
    workspace = open_workspace(layout, environ, lock_timeout_s=lock_timeout_s)
    claimant = Claimant(
        workspace.db, workspace.files, workspace.clock, layout, workspace.traces
    )
    commits = CommitWindow(layout)
    pipeline = Pipeline(workspace, claimant, commits)
    walker = Walker(workspace, pipeline)
    observer = Observer(workspace, pipeline, walker)
    spool = Spool(layout)
    others = Others(layout, partial(open_still, environ=environ))
    return RecorderContext(
        workspace, claimant, commits, pipeline, walker, observer, spool, others
    )


def open_still(layout: Layout, environ: Mapping[str, str]) -> RecorderContext:
    """Open a journal in which nothing is recorded, only to look."""
    context = open_context(layout, environ, lock_timeout_s=_LOOK_LOCK_S)
    ws = context.workspace
    return replace(
        context, observer=StillObserver(ws, context.pipeline, context.walker)
    )
