"""What a shell's prompt says of this worktree, from the journal as it is.

Invariant: nothing is walked, recorded or waited for, and nothing in the answer has a meaning to
a shell.
"""

import re

from gitshadow.engine.desk import Desk
from gitshadow.engine.workspace import Workspace
from gitshadow.undo.choose import Chooser

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._+-]")
_MOST_CHARACTERS = 24


class Prompting:
    """Say it again while the journal stays as it is.

    A shell asks at every prompt, and a burst may have 50,000 events, which take seconds to read.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._version: tuple[int, int] | None = None
        self._burst = ""

    def segment(self) -> bytes:
        """Return four lines: state, agent, number of files, burst; the last three may be empty.

        They tell of the burst that `oops` would take back. The agent is empty where nobody
        claimed it.
        """
        ws = self._desk.workspace
        if not ws.config.enabled:
            return b"off\n\n\n"
        version = ws.db.version()
        if version != self._version:
            self._version, self._burst = version, _burst(ws)
        state = "degraded" if self._desk.observer.degraded else "recording"
        return f"{state}\n{self._burst}".encode()


def _burst(ws: Workspace) -> str:
    chosen = Chooser(ws.db, ws.layout.worktree).oops()
    if not chosen.taken:
        return "\n\n"
    newest = chosen.taken[-1]
    who = newest.attribution
    agent = plain(who.agent or "") if who is not None else ""
    files = len({event.path for event in chosen.taken})
    return f"{agent}\n{files}\n{newest.burst or ''}"


def plain(name: str) -> str:
    """Return a name of which no character means anything to a shell, cut where it is long."""
    return _NOT_PLAIN.sub("_", name)[:_MOST_CHARACTERS]
