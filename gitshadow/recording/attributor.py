"""Find the author of each draft: collect the evidence, ask the ladder, name the session.

If the ladder names no session, the write goes into the rotating session of its class of actor, so
that human and unknown writes have chains, too.
Invariant: only personal sessions, and those of agents without hooks, are opened here.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gitshadow.adapters import registry
from gitshadow.attribution import lifecycle
from gitshadow.attribution.intake import Doubt
from gitshadow.attribution.ladder import (
    UNKNOWN_REASON,
    Claim,
    attribute,
    is_doubtful,
    is_witnessed,
    outweighs,
    rests_on_time,
    rests_on_windows,
)
from gitshadow.attribution.lifecycle import PersonalSessions, close_written
from gitshadow.attribution.native_ids import guessed_id, is_guessed
from gitshadow.attribution.process import is_alive
from gitshadow.attribution.process_evidence import OpenFiles, without_hooks
from gitshadow.attribution.windows import (
    DID_NOT_RUN,
    OUTCOME_FAILED,
    Evidence,
    OpenTurn,
    ProcessHint,
    Scene,
    could_write,
)
from gitshadow.capture.drafts import Draft
from gitshadow.capture.fs_events import is_editor_trace, saved_as
from gitshadow.model import (
    Actor,
    Attribution,
    Call,
    Confidence,
    EventKind,
    PathChange,
    RepoPath,
    Session,
    Touch,
)
from gitshadow.recording.agent_processes import AgentProcesses
from gitshadow.recording.host_evidence import HostEvidence
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.events import EventFilter

_GIT_DIR = RepoPath(b".git")
_SECOND_NS = 1_000_000_000


class Claimant:
    """Find the authors of drafts in one worktree."""

    def __init__(self, workspace: Workspace) -> None:
        layout = workspace.layout
        self._db = workspace.db
        self._traces = workspace.traces
        self._files = workspace.files
        self._clock = workspace.clock
        self.processes = AgentProcesses(workspace)
        self._host = HostEvidence(workspace)
        self._worktree = layout.worktree
        self._root = layout.root
        self._top = os.fsencode(layout.root)
        self._open_files = OpenFiles(layout.root)
        self._repo = workspace.repo
        self._personal = PersonalSessions(workspace.db, workspace.clock)

    def forget(self) -> None:
        """Forget the sessions in use: they may have been dropped."""
        self._personal.forget()
        self.processes.forget()

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
            for call in self.processes.windows(begin, end)
            if before is None or (call.session, call.id) != (before.session, before.id)
        ]
        known = [self._evidence(draft, offline) for draft in drafts]
        self.processes.look_at_leftovers(windows, live)
        claims: dict[int, Attribution] = {}
        # What a temporary file was moved to shows who moved it, so deletions are judged last.
        deletes = [draft.kind is EventKind.DELETE for draft in drafts]
        for at in sorted(range(len(drafts)), key=deletes.__getitem__):
            draft, seen = drafts[at], known[at]
            writes_bytes = draft.kind in (EventKind.CREATE, EventKind.MODIFY)
            scene = self._scene(windows, live, draft.end_ns, writes_bytes=writes_bytes)
            evidence = replace(
                seen,
                ending=self.processes.ending(seen, scene),
                lost=self.processes.lost(seen),
            )
            if before is None and not offline:
                evidence = self.processes.witness.add(draft, evidence, scene)
            claims[at] = self._attribution(self._claim_one(draft, evidence, scene))
        found = [claims[at] for at in range(len(drafts))]
        ends = (draft.end_ns for draft in drafts)
        close_written(self._db, zip(ends, found, strict=True))
        return found

    def _claim_one(self, draft: Draft, evidence: Evidence, scene: Scene) -> Claim:
        """Ask the ladder; where it has only the time of a write, look for better evidence."""
        claim = attribute(evidence, scene)
        if evidence.witnessed is not None:
            return claim
        if rests_on_time(claim):
            evidence = self._with_holder(evidence, scene)
            claim = attribute(evidence, scene)
        if is_doubtful(claim):
            excluded = self.processes.activity.excluded(draft, scene)
            return attribute(replace(evidence, excluded=excluded), scene)
        if claim.reason == UNKNOWN_REASON:
            return attribute(evidence, self._with_heuristics(evidence, scene))
        return claim

    def judge_again(self, doubts: Collection[Doubt]) -> dict[PathChange, Attribution]:
        """Return the new authors of rows that were judged before some windows changed."""
        # Only claims that rest on windows are judged again: open files and processes are evidence
        # of one moment, and are not stored.
        begin_ns = min(one.begin_ns for one in doubts)
        rows = [
            row
            for row in events.since(self._db, self._worktree, begin_ns)
            if any(self._is_in_doubt(row, one) for one in doubts)
        ]
        if not rows:
            return {}
        known = {row: self._evidence_of(row) for row in rows}
        begin_ns = min(one.begin_ns for one in known.values())
        windows = self.processes.windows(
            begin_ns, max(one.end_ns for one in known.values())
        )
        live = self.processes.live()
        self.processes.look_at_leftovers(windows, live)
        judged: dict[PathChange, Attribution] = {}
        for row, seen in known.items():
            evidence = replace(seen, unlisted=self._host.unlisted(row, windows))
            scene = self._scene(windows, live, row.ts_ns)
            claim = attribute(evidence, scene)
            who = self._attribution(claim)
            # An undo that wrote the path later chose its unit by the author that the row had then.
            # A new author would make its report false.
            undone = EventFilter(
                worktree=self._worktree,
                paths=(row.path,),
                kinds=(EventKind.RESTORE,),
                after_seq=row.seq,
                limit=1,
            )
            is_other = who != row.attribution and outweighs(claim, row.attribution)
            if is_other and not events.changes(self._db, undone):
                judged[row] = who
        return judged

    def _is_in_doubt(self, row: PathChange, doubt: Doubt) -> bool:
        """Return whether a row's claim may be another one after a window changed."""
        who, call = row.attribution, doubt.call
        if row.op is not None or row.switched or is_witnessed(who):
            return False
        if row.burst is None or row.ts_ns > doubt.end_ns + self._clock.tolerance_ns:
            return False
        in_time = call.contains(row.ts_ns, self._clock.tolerance_ns)
        if (who.session, who.call) == (call.session, call.id):
            # It may have been written by another name of the file, which is not stored.
            did_not = not in_time or call.outcome in DID_NOT_RUN
            failed = call.outcome == OUTCOME_FAILED and bool(call.paths)
            if failed and could_write(call, self._evidence_of(row)):
                return True
            return did_not or (
                rests_on_windows(who) and bool(self._host.unlisted(row, (call,)))
            )
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
        # By the time of its log; now if there is none.
        begin = end = min(now_ns, self._repo.head_log.changed_ns() or now_ns)
        if at_s is not None:
            end = min(end, (at_s + 1) * _SECOND_NS - 1)
            begin = min(end, max(settled_ns, at_s * _SECOND_NS))
        evidence = Evidence(
            path=_GIT_DIR, begin_ns=begin, end_ns=end, exact=begin == end
        )
        windows = self.processes.windows(begin, end)
        live = self.processes.live()
        self.processes.look_at_leftovers(windows, live)
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

    def touches(self, writes: Sequence[tuple[RepoPath, str, int]]) -> list[Touch]:
        """Return the touches of uncovered paths, each with the only session that had a window then.

        Args:
            writes: Each path, why it is not covered, and by when it was written.
        """
        times = [at_ns for _, _, at_ns in writes]
        windows = self.processes.windows(min(times), max(times))
        return [self._touch(path, why, at_ns, windows) for path, why, at_ns in writes]

    def _touch(
        self, path: RepoPath, why: str, at_ns: int, windows: Sequence[Call]
    ) -> Touch:
        near = [call for call in windows if call.nearly_contains(at_ns, turns.SLACK_NS)]
        is_one = len({call.session for call in near}) == 1
        call = near[-1] if is_one else None
        if call is not None and call.closed_ns is not None:
            at_ns = min(at_ns, call.closed_ns)
        return Touch(
            worktree=self._worktree,
            path=path,
            why=why,
            ts_ns=at_ns,
            session=call.session if call else None,
            turn=call.turn if call else None,
            call=call.id if call else None,
        )

    def personal(self, actor: Actor) -> Session:
        """Return the rotating session of human or unknown writes, opened where it is new."""
        return self._personal.of(actor)

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
        background = self.processes.leftovers.at(end_ns, writes_bytes=writes_bytes)
        named = {call.session for call in windows}
        named |= {hint.session for hint in background if hint.session is not None}
        known = {session.id: session for session in live}
        for session_id in named - known.keys():
            session = sessions.get(self._db, session_id)
            if session is not None:
                known[session_id] = session
        agents = [one for one in known.values() if one.actor is Actor.AGENT]
        people = (one for one in reversed(live) if one.actor is Actor.HUMAN)
        declared = (o.id for o in people if not o.native_id.startswith("human-"))
        return Scene(
            windows=tuple(windows),
            turns=tuple(self._open_turns(known, end_ns)) if agents else (),
            sessions=tuple(known.values()),
            human=next(iter(declared), None),
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

    def _with_holder(self, evidence: Evidence, scene: Scene) -> Evidence:
        """Add the living process that has the path open for writing."""
        path = os.path.join(self._top, evidence.path)
        pids = self._open_files.writers(path, self.processes.scan.pids)
        if not pids:
            return evidence
        opened_ns = min(call.opened_ns for call in scene.windows)
        holder = self.processes.scan.holder(pids, scene.sessions, opened_ns)
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
            self.processes.scan.agents(), scene.sessions, self._root, earliest_ns
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
