"""What the processes of agents do: when they end, what they write, what they leave running.

Everything is looked at from outside, and kept in memory; only what calls have left
running is stored, with the turns that it writes for.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from gitshadow.attribution import lifecycle
from gitshadow.attribution.native_ids import ProcessMarks, is_command
from gitshadow.attribution.process import ProcessId, ProcessScan, process_of
from gitshadow.attribution.process_evidence import Exits, Leftovers
from gitshadow.attribution.windows import Evidence, Scene, could_write
from gitshadow.model import Actor, Call, Session, ToolClass
from gitshadow.recording.activity import AgentActivity
from gitshadow.recording.witness_evidence import WitnessEvidence
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import sessions, turns

_LOOK_S = 0.3
_NOTE_S = 1.0


class AgentProcesses:
    """Watch the processes of the agents that write in one worktree.

    `alive` is when the process of each agent was last seen. `marks` is what programs said of their
    processes, `scan` finds those of sessions; `leftovers` are what calls have left running.
    `activity` counts what they all do, `witness` has the kernel's reports.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._db = workspace.db
        self._clock = workspace.clock
        self._worktree = workspace.layout.worktree
        self.marks = ProcessMarks()
        self.activity = AgentActivity(workspace, self.marks)
        self.witness = WitnessEvidence(workspace, self.marks)
        self.scan = ProcessScan()
        self.leftovers = Leftovers()
        self.alive: dict[ProcessId, int] = {}
        self._exits = Exits()
        # Calls whose processes died unseen, and when that was noticed.
        self._lost: list[tuple[Call, int]] = []
        self._looked_s = 0.0
        self._note_at_s = 0.0
        self._note_soon = False

    def close(self) -> None:
        """Read no more of what the kernel says of them."""
        self.witness.close()
        self.activity.close()

    def forget(self) -> None:
        """Forget what sessions have left running: they may have been dropped."""
        self.leftovers = Leftovers()

    def live(self) -> list[Session]:
        """Return the sessions that have not ended, oldest first."""
        return sessions.live(self._db)

    def close_gone(self, now_ns: int) -> list[Session]:
        """End the sessions of agents whose processes are gone; return those that go on."""
        noted = self._exits.ended(self._clock.now_ns)
        self.alive |= noted
        live = self.live()
        ended = lifecycle.close_gone(
            self._db, live, now_ns, self.alive, self._exits.has_not_ended
        )
        if not ended:
            return live
        noticed_ns = self._clock.now_ns()
        kept_ns = noticed_ns - lifecycle.SILENCE_NS
        self._lost = [one for one in self._lost if one[1] >= kept_ns]
        unseen = {one.id for one in live if process_of(one) not in noted}
        for session in unseen.intersection(ended):
            gone = turns.closed_as(self._db, session, lifecycle.PROCESS_GONE)
            self._lost += [
                (call, noticed_ns) for call in gone if call.worktree == self._worktree
            ]
        return self.live()

    def watch(self, session_id: str, tool: ToolClass) -> bool:
        """Note when an agent with an open call ends, and with a shell call what it runs.

        Returns:
            Whether the processes of the agent are only looked at from now on.
        """
        session = sessions.get(self._db, session_id)
        process = None if session is None else process_of(session)
        if session is None or process is None:
            return False
        self._exits.watch(process)
        return tool is ToolClass.SHELL and self.activity.watch(process)

    def note_leftovers(self, live: Sequence[Session], *, rescan: bool = False) -> None:
        """Remember what calls of agents have left running, and look what it does.

        Args:
            live: The sessions that have not ended.
            rescan: Whether to look for what was started in the last second, too.
        """
        # The process of a wrapped command writes itself, so its own life is no sign of a background
        # task. That of an agent has its tools write.
        agents = [
            replace(one, pid=None, pid_started=None) if is_command(one) else one
            for one in live
            if one.actor is Actor.AGENT
        ]
        if agents:
            living = self.scan.living(agents, rescan=rescan)
            self.leftovers.note(self._db, living, self._clock.now_ns())
            self.activity.adopt(agents, living)
        self.leftovers.look(self._clock.now_ns)

    def note_leftovers_soon(self) -> None:
        """Do so at the next tick: an agent that waits for an answer need not wait for this."""
        self._note_soon = True

    def look_at_leftovers(
        self, windows: Sequence[Call], live: Sequence[Session]
    ) -> None:
        """Look what calls have left running, before the author of a write is found.

        Args:
            windows: The calls during which it may have been made.
            live: The sessions that have not ended.
        """
        # All processes are searched only if no call is a better explanation.
        if windows:
            self.leftovers.look(self._clock.now_ns)
        else:
            self.note_leftovers(live)

    def has_left_running(self, session_id: str) -> bool:
        """Return whether calls of a session have left a process that may go on writing."""
        self.note_leftovers(self.live(), rescan=True)
        at_work = self.leftovers.at(self._clock.now_ns(), writes_bytes=False)
        return any(hint.session == session_id for hint in at_work)

    def left_running(self, session: Session) -> ProcessId | None:
        """Return the oldest process that a wrapped command has left running, if any."""
        # What was started within the last second is to be known for its next write, too.
        self.note_leftovers(self.live(), rescan=True)
        found = self.scan.living([session])
        oldest = min(found, key=lambda one: one.started_ns, default=None)
        return None if oldest is None else oldest.id

    @property
    def is_watching(self) -> bool:
        """Return whether there are processes to be looked at now and then."""
        return bool(self.leftovers)

    def tick(self, now_s: float) -> None:
        """Look what agents and their leftovers run; to be called now and then."""
        if self.witness.is_open:
            self.witness.tend(self.live)
        if self.activity.is_on and not self.is_shell_open():
            self.activity.stop()
        # What a shell has detached is not below its agent any more. It has to be known before it
        # writes and ends.
        if self._note_soon or (now_s >= self._note_at_s and self.is_shell_open()):
            self._note_soon = False
            # On a busy machine it takes longer, but costs no more.
            began_s = time.thread_time()
            self.note_leftovers(self.live(), rescan=True)
            cost_s = time.thread_time() - began_s
            self._note_at_s = now_s + max(_NOTE_S, 20 * cost_s)
        if self.is_watching and now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            self.leftovers.look(self._clock.now_ns)

    def count_bytes(self, session_id: str) -> bool:
        """Observe what an agent writes; return whether that only begins at the next barrier."""
        session = sessions.get(self._db, session_id)
        if session is not None:
            self.activity.watch(process_of(session))
        return self.witness.tend(self.live)

    def begin_barrier(self) -> None:
        """Count what agents' processes wrote before a barrier."""
        self.activity.begin_barrier(self.alive)
        self.witness.begin_barrier(self.live)

    def is_shell_open(self) -> bool:
        """Return whether a shell call is open while the processes of agents are looked at."""
        if not self.activity.trees:
            return False
        now_ns = self._clock.now_ns()
        found = self.windows(now_ns, now_ns)
        return any(call.tool_class is ToolClass.SHELL for call in found)

    def ending(self, evidence: Evidence, scene: Scene) -> frozenset[str]:
        """Return the sessions whose agents may have ended before a write, or after it."""
        end_ns = evidence.end_ns
        begin_ns = end_ns if evidence.exact else evidence.begin_ns
        return frozenset(
            one.id
            for one in scene.sessions
            if (process := process_of(one)) is not None
            and self._exits.is_unsure(process, begin_ns, end_ns)
        )

    def lost(self, evidence: Evidence) -> frozenset[str]:
        """Return the sessions that may have made a write after they were last seen."""
        end_ns = evidence.end_ns
        return frozenset(
            call.session
            for call, noticed_ns in self._lost
            # A window does not contain its end, at which its agent was last seen.
            if 0 <= end_ns - (call.closed_ns or 0) <= lifecycle.SILENCE_NS
            and end_ns <= noticed_ns
            and could_write(call, evidence)
        )

    def windows(self, begin_ns: int, end_ns: int) -> list[Call]:
        """Return the windows of this worktree that meet an interval."""
        found = turns.windows_between(self._db, begin_ns, end_ns)
        return [call for call in found if call.worktree == self._worktree]
