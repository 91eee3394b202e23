"""init, once a worktree is recorded already: look at everything anew."""

import os

from gitshadow.config import DaemonMode
from gitshadow.maintenance import setup
from gitshadow.maintenance.setup import Initialised
from gitshadow.messages.status import InitAnswer, InitRequest
from gitshadow.model import RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.store.layout import Layout
from gitshadow.store.refs import display_path

_VIEW_HINT = (
    "`git log --all` also shows the recorded history; to hide it:"
    " --exclude='refs/agent-undo/*'; or with settings for Git (log.excludeDecoration):"
    " git agent-undo hooks install git-config"
)


def init(context: RecorderContext, request: InitRequest) -> InitAnswer:
    """Reconcile, and say what is recorded."""
    ws = context.workspace
    context.observer.settle()
    allowed = ws.config.enabled and ws.config.daemon is DaemonMode.AUTO
    done = Initialised(True, len(ws.states.all()), (), daemon_allowed=allowed)
    return describe(ws.layout, done)._replace(daemon=context.observer.watching)


def describe(layout: Layout, done: Initialised) -> InitAnswer:
    """Return what `init` promises to print."""
    around = setup.look_around(layout)
    unreadable = [
        f"could not read {display_path(path)}: {why}" for path, why in done.unreadable
    ]
    return InitAnswer(
        root=display_path(RepoPath(os.fsencode(layout.root))),
        worktree=layout.worktree,
        files=done.files,
        already=done.already,
        warnings=(*unreadable, *around.warnings),
        hints=() if done.already else (_VIEW_HINT,),
        excluded=done.excluded,
        daemon=False,
        daemon_allowed=done.daemon_allowed,
    )
