"""What a shell's prompt says of this worktree, from the journal as it is."""

import re
from collections.abc import Sequence

from gitshadow.model import Burst
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import bursts, events
from gitshadow.store.journal.events import EventFilter
from gitshadow.undo.choose import Chooser
from gitshadow.undo.effective import Undone
from gitshadow.undo.targets import is_agents

# The line is inserted into PS1, where a shell may expand what it finds: an agent's name comes from
# a payload, so only harmless characters pass.
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._+-]")
_MOST_CHARACTERS = 24
# The daemon has one thread: while it reads bursts for a prompt, it records nothing.
_MOST_BURSTS = 1_000
_MOST_EVENTS = 1_000
_LOOKED_AT = 50
_SAMPLE = 100


class Prompting:
    """Cache the answer while the journal does not change."""

    # A shell asks at every prompt, and a burst may have 50,000 events: reading them takes seconds.

    def __init__(self, context: RecorderContext) -> None:
        self._context = context
        self._version: tuple[int, int] | None = None
        self._burst = ""

    def segment(self) -> bytes:
        """Return four lines: state, agent, number of files, burst; the last three may be empty.

        They describe the burst that `oops` would undo. The agent is empty if nobody
        claimed it.
        """
        # Nothing is walked or recorded first: a prompt must not wait.
        ws = self._context.workspace
        if not ws.config.enabled:
            return b"off\n\n\n"
        version = ws.db.version()
        if version != self._version:
            self._version, self._burst = version, _burst(ws)
        state = "degraded" if self._context.observer.degraded else "recording"
        return f"{state}\n{self._burst}".encode()


def _burst(ws: Workspace) -> str:
    recent = bursts.newest(ws.db, ws.layout.worktree, _MOST_BURSTS)
    # An upper bound: numbers in between may be those of other bursts.
    long = any(
        one.last_seq - one.first_seq >= _MOST_EVENTS for one in recent[:_LOOKED_AT]
    )
    if long or len(recent) == _MOST_BURSTS:
        return _about(ws, recent[:_LOOKED_AT])
    chosen = Chooser(ws.db, ws.layout.worktree).oops()
    if not chosen.taken:
        return "\n\n"
    newest = chosen.taken[-1]
    agent = plain(newest.attribution.agent or "")
    files = len({event.path for event in chosen.taken})
    return f"{agent}\n{files}\n{newest.burst or ''}"


def _about(ws: Workspace, recent: Sequence[Burst]) -> str:
    """Return the newest burst of an agent that is not undone, judged by its last events."""
    # A sample is enough: an undo of a burst includes its last events, and reading all of them is
    # what takes seconds.
    undone = Undone(ws.db, ws.layout.worktree)
    for burst in recent:
        wanted = EventFilter(burst=burst.id, limit=_SAMPLE)
        last = [one for one in events.changes(ws.db, wanted) if is_agents(one)]
        if last and undone.all(last) is None:
            agent = last[0].attribution.agent
            files = events.files_of_burst(ws.db, burst.id)
            return f"{plain(agent or '')}\n{files}\n{burst.id}"
    return "\n\n"


def plain(name: str) -> str:
    """Return a name of which no character means anything to a shell, cut where it is long."""
    return _NOT_PLAIN.sub("_", name)[:_MOST_CHARACTERS]
