"""What the processes of agents do: when they end, what they write, what they leave running.

Everything is looked at from outside, and kept in memory; only what calls have left
running is stored, with the turns that it writes for.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from gitshadow.adapters import registry
from gitshadow.attribution import lifecycle
from gitshadow.attribution.native_ids import ProcessMarks, is_command
from gitshadow.attribution.process import ProcessId, ProcessScan, process_of, program_at
from gitshadow.attribution.process_evidence import Exits, Leftovers, Stillness
from gitshadow.attribution.windows import Evidence, Scene, could_write
from gitshadow.model import Actor, Call, Session, ToolClass
from gitshadow.recording.byte_evidence import ByteEvidence
from gitshadow.recording.witness_evidence import WitnessEvidence
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import sessions, turns

_LOOK_S = 0.3
_NOTE_S = 1.0


class AgentProcesses:
    """Watch the processes of the agents that write in one worktree.

    `alive` is when the process of each agent was last seen. `marks` is what programs said of their
    processes, `scan` finds those of sessions, `stillness` those that wait; `leftovers` are what
    calls have left running. `bytes` counts what they all write, `witness` has the kernel's reports.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._db = workspace.db
        self._clock = workspace.clock
        self._worktree = workspace.layout.worktree
        self.marks = ProcessMarks()
        self.bytes = ByteEvidence(workspace, marks=self.marks)
        self.witness = WitnessEvidence(workspace, self.marks)
        self.scan = ProcessScan()
        self.stillness = Stillness()
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
        self.bytes.close()

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
            Whether what the shell writes is only counted from the next barrier on.
        """
        session = sessions.get(self._db, session_id)
        process = None if session is None else process_of(session)
        if session is None or process is None:
            return False
        self._exits.watch(process)
        if tool is not ToolClass.SHELL:
            return False
        if self._may_wait(session, process.pid):
            self.stillness.watch(process)
        return self.bytes.watch(session)

    def _may_wait(self, session: Session, pid: int) -> bool:
        """Return whether a shell call may be open while nothing of it runs."""
        traits = registry.traits(session.agent or "")
        # Another program may report as this agent does, and write by itself.
        is_program = traits.cancels_unseen and program_at(pid).agent == session.agent
        return traits.waits_unseen or is_program

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
            self.bytes.adopt(agents, living)
            self.stillness.adopt(agents, living)
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
        return bool(self.stillness.watched or self.leftovers)

    def tick(self, now_s: float) -> None:
        """Look what agents and their leftovers run; to be called now and then."""
        if self.witness.is_open:
            self.witness.tend(self.live)
        if self.bytes.order.is_on and not self.wants_barrier():
            self.bytes.order.stop()
        # What a shell has detached is not below its agent any more. It has to be known before it
        # writes and ends.
        if self._note_soon or (now_s >= self._note_at_s and self.wants_barrier()):
            self._note_soon = False
            self.note_leftovers(self.live(), rescan=True)
            took_s = time.monotonic() - now_s
            self._note_at_s = now_s + max(_NOTE_S, 20 * took_s)
        if not self.is_watching or now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        self.leftovers.look(self._clock.now_ns)
        if not self.stillness.watched:
            return
        now_ns = self._clock.now_ns()
        waits = self.stillness.waits(self.windows(now_ns, now_ns))
        for process in set(self.stillness.watched) - set(waits.values()):
            self.stillness.forget(process)
        self.stillness.look(now_ns)

    def count_bytes(self, session_id: str) -> bool:
        """Observe what an agent writes; return whether that only begins at the next barrier."""
        session = sessions.get(self._db, session_id)
        if session is not None:
            self.bytes.watch(session)
        return self.witness.tend(self.live)

    def begin_barrier(self) -> None:
        """Count what agents' processes wrote before a barrier."""
        self.bytes.begin_barrier(self.alive)
        self.witness.begin_barrier(self.live)

    def wants_barrier(self) -> bool:
        """Return whether to count again what an open shell call writes."""
        if not self.bytes.is_counting:
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
