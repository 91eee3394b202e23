"""Find the author of each draft: collect the evidence, ask the ladder, name the session.

If the ladder names no session, the write goes into the rotating session of its class of actor, so
that human and unknown writes have chains, too.
Invariant: only personal sessions, and those of agents without hooks, are opened here.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from gitshadow.adapters import registry
from gitshadow.attribution import lifecycle
from gitshadow.attribution.intake import Doubt
from gitshadow.attribution.ladder import (
    UNKNOWN_REASON,
    Claim,
    attribute,
    rests_on_time,
    rests_on_windows,
)
from gitshadow.attribution.lifecycle import close_written, is_current, personal_session
from gitshadow.attribution.process import (
    ProcessId,
    ProcessScan,
    is_alive,
    program_at,
)
from gitshadow.attribution.process_evidence import (
    GUESSED,
    Exits,
    Leftovers,
    OpenFiles,
    Stillness,
    guessed_id,
    is_guessed,
    without_hooks,
)
from gitshadow.attribution.windows import (
    DID_NOT_RUN,
    Evidence,
    OpenTurn,
    ProcessHint,
    Scene,
    could_write,
)
from gitshadow.capture.drafts import Draft
from gitshadow.capture.fs_events import EditorTraces, is_editor_trace, saved_as
from gitshadow.model import (
    Actor,
    Attribution,
    Call,
    Confidence,
    EventKind,
    PathChange,
    RepoPath,
    Session,
    ToolClass,
    Touch,
)
from gitshadow.store.clock import EpochClock
from gitshadow.store.files import WorkFiles
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.layout import Layout

EXEC_NATIVE = "exec-"
"""The start of the native id of a session that a command of ours opened."""

MANUAL_NATIVE = "manual-"
BY_HAND_NATIVE = "recorded-by-hand"
WITHOUT_HOOKS = (GUESSED, EXEC_NATIVE, MANUAL_NATIVE, BY_HAND_NATIVE)
"""How the native ids begin of sessions that no hook of an agent has opened."""

_GIT_DIR = RepoPath(b".git")
_TOUCH_NS = 60_000_000_000
_SECOND_NS = 1_000_000_000
_LOOK_S = 0.3


class Claimant:
    """Find the authors of drafts in one worktree.

    `alive` is when the process of each agent was last seen.
    """

    def __init__(
        self,
        db: Db,
        files: WorkFiles,
        clock: EpochClock,
        layout: Layout,
        traces: EditorTraces,
    ) -> None:
        self._db = db
        self._traces = traces
        self._files = files
        self._clock = clock
        self._worktree = layout.worktree
        self._root = layout.root
        self._top = os.fsencode(layout.root)
        self._open_files = OpenFiles(layout.root)
        self._head_log = os.path.join(layout.git_dir, "logs", "HEAD")
        self._scan = ProcessScan()
        self._stillness = Stillness()
        self._exits = Exits()
        self._leftovers = Leftovers()
        self._looked_s = 0.0
        self._personal: dict[Actor, Session] = {}
        self.alive: dict[ProcessId, int] = {}

    def forget(self) -> None:
        """Forget the sessions in use: they may have been dropped."""
        self._personal.clear()
        self._leftovers = Leftovers()

    def claim(
        self,
        drafts: Sequence[Draft],
        live: Sequence[Session],
        *,
        offline: bool = False,
        before: Call | None = None,
    ) -> list[Attribution]:
        """Return who wrote each draft, in the same order.

        Args:
            drafts: What was written.
            live: The sessions that have not ended.
            offline: Nothing watched at the time.
            before: A call whose tool found these writes, and so made none of them.
        """
        if not drafts:
            return []
        begin = min(draft.begin_ns for draft in drafts)
        end = max(draft.end_ns for draft in drafts)
        windows = [
            call
            for call in self._windows(begin, end)
            if before is None or (call.session, call.id) != (before.session, before.id)
        ]
        waits = self._waits(windows)
        known = [self._evidence(draft, offline) for draft in drafts]
        # A look at the processes costs some milliseconds, so it is made only if an agent seemed to
        # be waiting when it was looked at last.
        if any(self._waiting(waits, evidence) for evidence in known):
            self._stillness.look(self._clock.now_ns())
        if not windows:
            self.note_leftovers(live)
        claims: list[Attribution] = []
        for draft, seen in zip(drafts, known, strict=True):
            evidence = (
                replace(seen, waiting=self._waiting(waits, seen)) if waits else seen
            )
            writes_bytes = draft.kind in (EventKind.CREATE, EventKind.MODIFY)
            scene = self._scene(windows, live, draft.end_ns, writes_bytes=writes_bytes)
            claim = attribute(evidence, scene)
            if rests_on_time(claim):
                claim = attribute(self._with_holder(evidence, scene), scene)
            elif claim.reason == UNKNOWN_REASON:
                claim = attribute(evidence, self._with_heuristics(evidence, scene))
            claims.append(self._attribution(claim))
        ends = (draft.end_ns for draft in drafts)
        close_written(self._db, zip(ends, claims, strict=True))
        return claims

    def live(self) -> list[Session]:
        """Return the sessions that have not ended, oldest first."""
        return sessions.live(self._db)

    def close_gone(self, now_ns: int) -> list[Session]:
        """End the sessions of agents whose processes are gone; return those that go on."""
        self.alive |= self._exits.ended(self._clock.now_ns)
        live = self.live()
        ended = lifecycle.close_gone(
            self._db, live, now_ns, self.alive, self._exits.is_alive
        )
        return self.live() if ended else live

    def watch(self, session_id: str, tool: ToolClass) -> None:
        """Note when an agent with an open call ends, and with a shell call what it runs."""
        session = sessions.get(self._db, session_id)
        if session is None or session.pid is None or session.pid_started is None:
            return
        process = ProcessId(session.pid, session.pid_started)
        self._exits.watch(process)
        traits = registry.traits(session.agent or "")
        # Another program may report as this agent does, and write by itself.
        is_program = (
            traits.cancels_unseen and program_at(process.pid).agent == session.agent
        )
        if tool is ToolClass.SHELL and (traits.waits_unseen or is_program):
            self._stillness.watch(process)

    def note_leftovers(self, live: Sequence[Session], *, anew: bool = False) -> None:
        """Remember what calls of agents have left running, and look what it does.

        Args:
            live: The sessions that have not ended.
            anew: Whether what was started in the last second is looked for, too.
        """
        # The process of a wrapped command writes itself, so its own life is no sign of a background
        # task. That of an agent has its tools write.
        agents = [
            replace(one, pid=None, pid_started=None)
            if one.native_id.startswith(EXEC_NATIVE)
            else one
            for one in live
            if one.actor is Actor.AGENT
        ]
        if agents:
            living = self._scan.living(agents, anew=anew)
            self._leftovers.note(self._db, living, self._clock.now_ns())
        self._leftovers.look(self._clock.now_ns)

    def tick(self, now_s: float) -> None:
        """Look what agents and their leftovers run; to be called now and then."""
        is_idle = not (self._stillness.watched or self._leftovers)
        if is_idle or now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        self._leftovers.look(self._clock.now_ns)
        if not self._stillness.watched:
            return
        now_ns = self._clock.now_ns()
        waits = self._waits(self._windows(now_ns, now_ns))
        for process in set(self._stillness.watched) - set(waits.values()):
            self._stillness.forget(process)
        self._stillness.look(now_ns)

    def _waits(self, windows: Sequence[Call]) -> dict[Call, ProcessId]:
        """Return the shell calls that may wait for a person, with the processes of their agents."""
        watched = self._stillness.watched
        found: dict[Call, ProcessId] = {}
        for call in windows if watched else ():
            if call.pid is None or call.pid_started is None:
                continue
            process = ProcessId(call.pid, call.pid_started)
            if call.tool_class is ToolClass.SHELL and process in watched:
                found[call] = process
        return found

    def _waiting(
        self, waits: Mapping[Call, ProcessId], evidence: Evidence
    ) -> frozenset[tuple[str, str]]:
        """Return the calls whose agents ran nothing when a path was written."""
        at_ns = evidence.end_ns if evidence.exact else evidence.begin_ns
        return frozenset(
            (call.session, call.id)
            for call, process in waits.items()
            if self._stillness.was_still(process, call.opened_ns, at_ns)
        )

    def judge_again(self, doubt: Doubt) -> dict[PathChange, Attribution]:
        """Return the new authors of rows that were judged before a window changed."""
        # Only claims that rest on windows are judged again: open files and processes are evidence
        # of one moment, and are not stored.
        found = events.since(self._db, self._worktree, doubt.begin_ns)
        rows = [row for row in found if self._is_in_doubt(row, doubt)]
        if not rows:
            return {}
        known = {row: self._evidence_of(row) for row in rows}
        begin_ns = min(one.begin_ns for one in known.values())
        windows = self._windows(begin_ns, max(one.end_ns for one in known.values()))
        live = self.live()
        if not windows:
            self.note_leftovers(live)
        judged: dict[PathChange, Attribution] = {}
        for row, evidence in known.items():
            scene = self._scene(windows, live, row.ts_ns)
            who = self._attribution(attribute(evidence, scene))
            if who != row.attribution and not self._is_restored(row):
                judged[row] = who
        return judged

    def _is_restored(self, row: PathChange) -> bool:
        """Return whether an undo wrote the path later."""
        # The undo chose its unit by the author that the row had then. A new author would make its
        # report false.
        wanted = EventFilter(
            worktree=self._worktree,
            paths=(row.path,),
            kinds=(EventKind.RESTORE,),
            after_seq=row.seq,
            limit=1,
        )
        return bool(events.changes(self._db, wanted))

    def _is_in_doubt(self, row: PathChange, doubt: Doubt) -> bool:
        """Return whether a row's claim may be another one after a window changed."""
        who, call = row.attribution, doubt.call
        if row.op is not None or row.switched:
            return False
        if row.burst is None or row.ts_ns > doubt.end_ns + self._clock.tolerance_ns:
            return False
        in_time = call.contains(row.ts_ns, self._clock.tolerance_ns)
        if (who.session, who.call) == (call.session, call.id):
            # It may have been written by another name of the file, which is not stored.
            return not in_time or call.outcome in DID_NOT_RUN
        if row.offline or not rests_on_windows(who):
            return False
        fits = in_time and could_write(call, self._evidence_of(row))
        return fits or call.session in who.candidates

    def _evidence_of(self, row: PathChange) -> Evidence:
        """Return what is still known of a recorded write."""
        # When its path was looked at before is not stored. If the time of the write is not exact,
        # as that of a deletion, the row before it is the earliest possible moment.
        exact = row.kind is not EventKind.DELETE and not row.inexact
        begin_ns = row.ts_ns
        if not exact:
            earlier = EventFilter(
                worktree=self._worktree,
                paths=(row.path,),
                before_seq=row.seq,
                limit=1,
            )
            begin_ns = max(
                (one.ts_ns for one in events.rows(self._db, earlier)), default=0
            )
        return Evidence(
            path=row.path,
            old_path=row.old_path,
            also=_targets(row.path),
            begin_ns=min(begin_ns, row.ts_ns),
            end_ns=row.ts_ns,
            exact=exact,
            offline=row.offline,
            editor=self._editor_at(row.path),
        )

    def head(
        self, now_ns: int, at_s: int | None = None, settled_ns: int = 0
    ) -> Attribution:
        """Return who moved HEAD.

        Args:
            now_ns: When it was noticed.
            at_s: The second that Git's log has for it; None for the newest move, whose time is
                that of the log itself.
            settled_ns: When HEAD had not moved yet.
        """
        begin = end = min(now_ns, self._head_ns(now_ns))
        if at_s is not None:
            end = min(end, (at_s + 1) * _SECOND_NS - 1)
            begin = min(end, max(settled_ns, at_s * _SECOND_NS))
        evidence = Evidence(
            path=_GIT_DIR, begin_ns=begin, end_ns=end, exact=begin == end
        )
        windows = self._windows(begin, end)
        live = self.live()
        if not windows:
            self.note_leftovers(live)
        scene = self._scene(windows, live, end)
        return self._attribution(attribute(evidence, scene))

    def nobody(self, reason: str) -> Attribution:
        """Return an attribution to nobody, for rows that no write caused."""
        claim = Claim(actor=Actor.UNKNOWN, confidence=Confidence.UNKNOWN, reason=reason)
        return self._attribution(claim)

    def person(self, reason: str) -> Attribution:
        """Return an attribution to the person at the keyboard, who ran a verb of ours."""
        claim = Claim(actor=Actor.HUMAN, confidence=Confidence.CERTAIN, reason=reason)
        return self._attribution(claim)

    def touches(
        self, paths: Sequence[tuple[RepoPath, str]], now_ns: int
    ) -> list[Touch]:
        """Return the touches of uncovered paths, with the session whose window is open."""
        windows = self._windows(now_ns, now_ns)
        owners = {call.session for call in windows}
        call = windows[-1] if len(owners) == 1 else None
        return [
            Touch(
                worktree=self._worktree,
                path=path,
                why=why,
                ts_ns=now_ns,
                session=call.session if call else None,
                turn=call.turn if call else None,
                call=call.id if call else None,
            )
            for path, why in paths
        ]

    def personal(self, actor: Actor) -> Session:
        """Return the rotating session of human or unknown writes, opened where it is new."""
        now_ns = self._clock.now_ns()
        known = self._personal.get(actor)
        if known is not None and is_current(known, now_ns):
            fresh = now_ns - (known.last_seen_ns or 0) < _TOUCH_NS
            if fresh:
                return known
        last = sessions.newest_of(self._db, actor)
        session = personal_session(
            actor, last, now_ns, partial(lifecycle.fresh_id, self._db)
        )
        session = replace(session, last_seen_ns=now_ns)
        with self._db.write():
            if last is not None and last.ended_ns is None and session.id != last.id:
                sessions.close(self._db, last.id, now_ns, "rotated")
            sessions.put(self._db, session)
        self._personal[actor] = session
        return session

    def _windows(self, begin_ns: int, end_ns: int) -> list[Call]:
        """Return the windows of this worktree that meet an interval."""
        found = turns.windows_between(self._db, begin_ns, end_ns)
        return [call for call in found if call.worktree == self._worktree]

    def _evidence(self, draft: Draft, offline: bool) -> Evidence:
        return Evidence(
            path=draft.path,
            old_path=draft.old_path,
            also=(*draft.twins, *_targets(draft.path)),
            begin_ns=draft.begin_ns,
            end_ns=draft.end_ns,
            exact=draft.exact and draft.kind is not EventKind.DELETE,
            offline=offline,
            editor=self._editor_at(draft.path),
        )

    def _editor_at(self, path: RepoPath) -> bool:
        """Return whether the swap or lock file of an editor is next to a path, or just was."""
        head, slash, name = path.rpartition(b"/")
        if is_editor_trace(path) or self._traces.tell_of(path):
            return True
        swap, lock = head + slash + b".%b.swp" % name, head + slash + b".#%b" % name
        return any(self._files.looks(RepoPath(swap), RepoPath(lock)))

    def _scene(
        self,
        windows: Sequence[Call],
        live: Sequence[Session],
        end_ns: int,
        *,
        writes_bytes: bool = False,
    ) -> Scene:
        background = (
            () if windows else self._leftovers.at(end_ns, writes_bytes=writes_bytes)
        )
        named = {call.session for call in windows}
        named |= {hint.session for hint in background if hint.session is not None}
        known = {session.id: session for session in live}
        for session_id in named - known.keys():
            session = sessions.get(self._db, session_id)
            if session is not None:
                known[session_id] = session
        agents = [one for one in known.values() if one.actor is Actor.AGENT]
        return Scene(
            windows=tuple(windows),
            turns=tuple(self._open_turns(known, end_ns)) if agents else (),
            sessions=tuple(known.values()),
            human=self._declared_person(live),
            background=background,
            tolerance_ns=self._clock.tolerance_ns,
        )

    def _open_turns(self, known: Mapping[str, Session], end_ns: int) -> list[OpenTurn]:
        found: list[OpenTurn] = []
        for turn in turns.open_at(self._db, end_ns):
            session = known.get(turn.session)
            if session is None or session.actor is not Actor.AGENT:
                continue
            traits = registry.traits(session.agent or "")
            found.append(
                OpenTurn(
                    turn.session,
                    turn.id,
                    session.agent,
                    traits.covers_all_tools,
                    turn.started_ns,
                )
            )
        return found

    def _declared_person(self, live: Sequence[Session]) -> str | None:
        declared = [
            one.id
            for one in live
            if one.actor is Actor.HUMAN and not one.native_id.startswith("human-")
        ]
        return declared[-1] if declared else None

    def _with_holder(self, evidence: Evidence, scene: Scene) -> Evidence:
        """Add the living process that has the path open for writing."""
        path = os.path.join(self._top, evidence.path)
        pids = self._open_files.writers(path, self._scan.pids)
        if not pids:
            return evidence
        opened_ns = min(call.opened_ns for call in scene.windows)
        holder = self._scan.holder(pids, scene.sessions, opened_ns)
        if holder is None:
            return evidence
        at_work = (scene.session(call.session) for call in scene.windows)
        known = all(one is not None and one.pid is not None for one in at_work)
        # A process outside all sessions may belong to an agent whose own process is not known.
        if holder.session is None and not known:
            return evidence
        return replace(evidence, holder=holder)

    def _with_heuristics(self, evidence: Evidence, scene: Scene) -> Scene:
        """Add the only agent process in the worktree, if no window of any hook is open."""
        if scene.windows:
            return scene
        earliest_ns = evidence.end_ns if evidence.exact else evidence.begin_ns
        found = without_hooks(
            self._scan.agents(), scene.sessions, self._root, earliest_ns
        )
        if found is None or found.agent is None or not is_alive(found.id):
            return scene
        # An agent that reported the end of its session may take a second to exit.
        reported = sessions.of_process(self._db, *found.id)
        if any(not is_guessed(one) for one in reported):
            return scene
        who = lifecycle.Who(
            agent=found.agent, native_id=guessed_id(found.id), process=found.id
        )
        with self._db.write():
            session = lifecycle.see_session(
                self._db, who, self._clock.now_ns(), may_open=True
            )
        known = {one.id: one for one in scene.sessions} | {session.id: session}
        hint = ProcessHint(found.id.pid, session.id, found.agent)
        return replace(scene, sessions=tuple(known.values()), alone=hint)

    def _head_ns(self, now_ns: int) -> int:
        """Return when HEAD moved, by the time of its log; now if there is none."""
        try:
            return os.stat(self._head_log).st_ctime_ns
        except OSError:
            return now_ns

    def _attribution(self, claim: Claim) -> Attribution:
        session = claim.session
        if session is None:
            session = self.personal(claim.actor).id
        return Attribution(
            actor=claim.actor,
            session=session,
            agent=claim.agent,
            turn=claim.turn,
            call=claim.call,
            tool=claim.tool,
            confidence=claim.confidence,
            reason=claim.reason,
            candidates=claim.candidates,
        )


def _targets(path: RepoPath) -> tuple[RepoPath, ...]:
    """Return the file that a temporary of this name is to become, where it is one."""
    target = saved_as(path)
    return () if target is None else (target,)
