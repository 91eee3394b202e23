"""Find who wrote by what the kernel reported, where a person allowed that.

A report counts only if it covers the whole time since the path was last known to be unchanged, and
if the path still leads to the file that was recorded. In doubt nothing is said, and the other
evidence decides.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from gitshadow.attribution.ladder import WITNESSED
from gitshadow.attribution.native_ids import ProcessMarks, is_command
from gitshadow.attribution.process import ProcessId, is_alive, process_of
from gitshadow.attribution.windows import (
    Evidence,
    Scene,
    Witnessed,
    could_write,
    is_around,
    possible,
)
from gitshadow.capture.drafts import Draft
from gitshadow.model import Actor, Call, Session
from gitshadow.platform import current
from gitshadow.platform.port import Witness
from gitshadow.platform.writers import (
    WitnessGoneError,
    WriterQuery,
    WriterReport,
    opened,
)
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import turns

_RETRY_S = 60.0
# The service is started again at once after it was updated.
_GONE_RETRY_S = 1.0
_SEVERAL = f"{WITNESSED}s by several processes since the file was recorded last"


class WitnessEvidence:
    """The kernel's reports for one worktree, which are read while an agent's session is open."""

    def __init__(self, workspace: Workspace, marks: ProcessMarks | None = None) -> None:
        self._ws = workspace
        self._marks = marks or ProcessMarks()
        self._witness: Witness | None = None
        self._top = -1
        self._next_try_s = 0.0
        self._trouble: str | None = None

    @property
    def is_open(self) -> bool:
        """Return whether reports are read."""
        return self._witness is not None

    def tend(self, live: Callable[[], Iterable[Session]]) -> bool:
        """Read reports from now on, or no more.

        Args:
            live: Gives the sessions that have not ended.

        Returns:
            Whether the reports begin now: they say nothing of a file until the next barrier.
        """
        wanted = self._ws.config.witness and any(
            one.actor is Actor.AGENT for one in live()
        )
        if wanted and self._witness is None:
            now_s = time.monotonic()
            if now_s >= self._next_try_s:
                self._open()
                # Only what failed has to wait: the next session may begin at once.
                self._next_try_s = 0.0 if self.is_open else now_s + _RETRY_S
                return self.is_open
        elif not wanted and self._witness is not None:
            self.close()
        return False

    def begin_barrier(self, live: Callable[[], Iterable[Session]]) -> None:
        """Note what was written before now as older than what follows."""
        self.tend(live)
        if self._witness is not None:
            try:
                self._witness.drain()
            except WitnessGoneError:
                self._lose()

    def check(self) -> str | None:
        """Return why there would be no reports."""
        if self._witness is None:
            self._open()
            self.close()
        return self._trouble

    def close(self) -> None:
        """Read no more reports."""
        if self._witness is not None:
            self._witness.close()
            os.close(self._top)
            self._witness = None

    def add(self, draft: Draft, evidence: Evidence, scene: Scene) -> Evidence:
        """Add who wrote by the kernel's report; it is asked only while an agent is at work."""
        if self._witness is None or not (scene.windows or scene.turns):
            return evidence
        return replace(evidence, witnessed=self._written(draft, evidence, scene))

    def _written(
        self, draft: Draft, evidence: Evidence, scene: Scene
    ) -> Witnessed | None:
        """Return who wrote by the kernel's report; None if it is missing or not sure."""
        reports = self._reports(draft, scene)
        if not reports or not all(one.is_sure for one in reports):
            return None
        agents = _agents(scene)
        writers = {one.agent for one in reports}
        if len(writers) > 1:
            named = [agents[one] for one in writers if one is not None]
            found = {one.id for mine in named for one in _sessions_of(mine, scene)}
            return Witnessed(_SEVERAL, candidates=tuple(sorted(found)))
        (writer,) = writers
        if writer is None:
            if not all(map(self._is_alone, _at_work(scene))):
                return None
            return Witnessed(f"{_text(reports[0])}, which no known agent started")
        mine = _sessions_of(agents[writer], scene)
        if not all(map(self._is_known, mine)):
            return None
        return self._by_call(reports, mine, evidence, scene) or self._by_turn(
            reports[0], mine, scene
        )

    def _is_known(self, session: Session) -> bool:
        """Return whether what comes from a session's process, and from below it, is its work."""
        is_program = self._marks.is_program(session) and _has_process(session)
        return is_program or self._is_alone(session)

    def _is_alone(self, session: Session) -> bool:
        """Return whether all that a session writes comes from its process, and from below it."""
        # In an editor the person's terminal runs below the same process as the agent's.
        return _has_process(session) and (
            is_command(session) or self._marks.is_alone(session)
        )

    def _open(self) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            self._top = os.open(self._ws.layout.root, flags)
        except OSError as error:
            self._trouble = error.strerror
            return
        try:
            self._witness = current().open_witness(self._top)
            self._trouble = None
        except OSError as error:
            os.close(self._top)
            self._trouble = error.strerror or str(error)

    def _lose(self) -> None:
        """Go on without reports until somebody answers again."""
        self.close()
        self._next_try_s = time.monotonic() + _GONE_RETRY_S

    def _reports(self, draft: Draft, scene: Scene) -> tuple[WriterReport, ...]:
        """Return what the kernel reported of a write, nothing unless all of it is known."""
        if self._witness is None:
            return ()
        try:
            with opened(self._top, draft.path) as places:
                recorded = None if draft.after is None else draft.after.stat.inode
                has_moved = _inode(*places[-1]) != recorded
                # A file that had another name before may have been written by that one.
                if has_moved and not _is_newly_named(draft):
                    return ()
                question = WriterQuery(
                    places, _agents(scene), draft.begin_ns, has_moved
                )
                answer = self._witness.ask(question)
        except OSError:
            return ()
        except WitnessGoneError:
            self._lose()
            return ()
        if answer is None or answer.covered_since_ns > draft.begin_ns:
            return ()
        before, after = draft.versions
        is_content = (
            before is None
            or after is None
            or before.oid != after.oid
            or draft.old_path is not None
        )
        return tuple(one for one in answer.reports if one.has_content or not is_content)

    def _by_call(
        self,
        reports: Sequence[WriterReport],
        mine: Sequence[Session],
        evidence: Evidence,
        scene: Scene,
    ) -> Witnessed | None:
        """Name the call in which the writing process was started."""
        calls: list[Call] = []
        for report in reports:
            found = self._calls(report, mine, evidence, scene)
            inner = [call for call in found if not is_around(call, found, scene)]
            calls += inner
        if len({call.session for call in calls}) != 1:
            return None
        newest = max(calls, key=lambda call: (call.opened_ns, call.id))
        at_ns = evidence.end_ns if evidence.exact else evidence.begin_ns
        closed_ns = newest.closed_ns
        # What a call has left running writes for its turn.
        is_over = closed_ns is not None and closed_ns + scene.tolerance_ns < at_ns
        return Witnessed(
            _reason(reports[0], mine),
            newest.session,
            newest.turn,
            None if is_over else newest,
        )

    def _by_turn(
        self, report: WriterReport, mine: Sequence[Session], scene: Scene
    ) -> Witnessed | None:
        """Name the open turn of an agent whose process wrote outside all calls."""
        ids = {one.id for one in mine}
        found = [turn for turn in scene.turns if turn.session in ids]
        # An agent itself writes without a call when a person asks it to restore files.
        is_agent = report.tool_ns is None and not any(map(self._marks.is_program, mine))
        if len(found) != 1 or is_agent:
            return None
        return Witnessed(_reason(report, mine), found[0].session, found[0].turn)

    def _calls(
        self,
        report: WriterReport,
        mine: Sequence[Session],
        evidence: Evidence,
        scene: Scene,
    ) -> list[Call]:
        """Return the calls that may have made a writer write."""
        ids = {one.id for one in mine}
        tool_ns, slack_ns = report.tool_ns, scene.tolerance_ns
        if tool_ns is not None:
            found = [
                call
                for call in turns.windows_between(self._ws.db, tool_ns, tool_ns)
                if call.session in ids
                and call.worktree == self._ws.layout.worktree
                and could_write(call, evidence)
                and call.opened_ns - slack_ns <= tool_ns
                and (call.closed_ns is None or tool_ns < call.closed_ns + slack_ns)
            ]
            if found:
                return found
        # The agent itself wrote, or a server or shell that it keeps for all its calls.
        return [
            call
            for call in possible(scene, evidence)
            if call.session in ids and call.nearly_contains(evidence.end_ns, slack_ns)
        ]


def _text(report: WriterReport) -> str:
    name = f" ({report.name})" if report.name else ""
    return f"{WITNESSED} by process {report.pid}{name}"


def _reason(report: WriterReport, mine: Sequence[Session]) -> str:
    agent = mine[0].agent or "the agent"
    if report.tool_ns is None:
        return f"{_text(report)}, which is {agent} itself"
    return f"{_text(report)}, which {agent} started"


def _agents(scene: Scene) -> tuple[ProcessId, ...]:
    """Return the processes of agents, sorted."""
    agents = (one for one in scene.sessions if one.actor is Actor.AGENT)
    found = {one for one in map(process_of, agents) if one is not None}
    return tuple(sorted(found))


def _sessions_of(process: ProcessId, scene: Scene) -> tuple[Session, ...]:
    return tuple(one for one in scene.sessions if (one.pid, one.pid_started) == process)


def _at_work(scene: Scene) -> Iterable[Session]:
    """Return the agents' sessions that may have written."""
    named: set[str | None] = {one.session for one in scene.windows}
    named |= {one.session for one in scene.turns}
    named |= {one.session for one in scene.background}
    return (
        one for one in scene.sessions if one.id in named and one.actor is Actor.AGENT
    )


def _has_process(session: Session) -> bool:
    """Return whether the process of a session is known, and lives."""
    process = process_of(session)
    # An agent that was started again writes from a process that is not known yet.
    return process is not None and is_alive(process)


def _inode(directory: int, name: bytes) -> int | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return None


def _is_newly_named(draft: Draft) -> bool:
    """Return whether the recorded file got its path after the path was last looked at."""
    if draft.after is None:
        return False
    if draft.before is None or draft.old_path is not None:
        return True
    return draft.before.stat.inode != draft.after.stat.inode
