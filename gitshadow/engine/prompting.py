"""What a shell's prompt says of this worktree, from the journal as it is.

Invariant: nothing is walked, recorded or waited for, and nothing in the answer has a meaning to
a shell.
"""

import re

from gitshadow.engine.desk import Desk
from gitshadow.undo.choose import Chooser

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._+-]")
_MOST_CHARACTERS = 24


def segment(desk: Desk) -> bytes:
    """Return four lines: state, agent, number of files, burst; the last three may be empty.

    They tell of the burst that `oops` would take back. The agent is empty where nobody claimed it.
    """
    ws = desk.workspace
    if not ws.config.enabled:
        return b"off\n\n\n"
    state = "degraded" if desk.observer.degraded else "recording"
    chosen = Chooser(ws.db, ws.layout.worktree).oops()
    if not chosen.taken:
        return f"{state}\n\n\n".encode()
    newest = chosen.taken[-1]
    who = newest.attribution
    agent = plain(who.agent or "") if who is not None else ""
    files = len({event.path for event in chosen.taken})
    return f"{state}\n{agent}\n{files}\n{newest.burst or ''}".encode()


def plain(name: str) -> str:
    """Return a name of which no character means anything to a shell, cut where it is long."""
    return _NOT_PLAIN.sub("_", name)[:_MOST_CHARACTERS]
