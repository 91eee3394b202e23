"""Settings that change while a daemon runs: read again when a file that may hold them did.

Invariant: a setting that cannot be used changes nothing; the earlier ones stay, with a gap row.
"""

from gitshadow.attribution import lifecycle
from gitshadow.config import DaemonMode
from gitshadow.errors import ShadowError, StoreError
from gitshadow.maintenance import setup
from gitshadow.model import Actor
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace, configure, read_config, rules_of
from gitshadow.store.git_settings import Stamps, config_files, stamps_before, stamps_of
from gitshadow.store.journal import sessions

SWITCHED_OFF = "recording switched off"


def stamps(ws: Workspace, before: Stamps) -> Stamps:
    """Return how each file with settings looks, those that others include among them.

    Args:
        ws: The opened worktree.
        before: What this returned the last time; its files stay while one has a mistake.
    """
    try:
        return stamps_before(ws.layout, ws.environ, ws.repo.config)
    except StoreError:
        return stamps_of(before or config_files(ws.layout, ws.environ))


def read_again(context: RecorderContext) -> None:
    """Use the settings as they are now; if recording is off now, sessions end."""
    ws = context.workspace
    try:
        found = read_config(ws.repo, ws.environ)
    except ShadowError as error:
        context.pipeline.gap(f"{error.message}; the previous settings stay in effect")
        return
    ws.config = found
    configure(ws.recorder, found)
    ws.coverage.use(rules_of(found, ws.repo, ws.layout))
    follow(context)


def follow(context: RecorderContext) -> None:
    """Bring the mark for hook programs, and open sessions, into line with the settings."""
    ws = context.workspace
    if not ws.environ.get("GITSHADOW_DAEMON"):
        setup.mark_daemon(ws.layout, allowed=ws.config.daemon is DaemonMode.AUTO)
    if not ws.config.enabled:
        _end_sessions(ws)


def _end_sessions(ws: Workspace) -> None:
    """End the sessions of agents."""
    # No hook is processed while recording is off, so nothing else would close their windows. Writes
    # after it is on again would look like theirs.
    live = [one for one in sessions.live(ws.db) if one.actor is Actor.AGENT]
    if not live:
        return
    now_ns = ws.clock.now_ns()
    with ws.db.write():
        for session in live:
            lifecycle.end_session(ws.db, session, now_ns, SWITCHED_OFF)
