"""From a hook event to the journal: sessions, turns and call windows as the agent reports them.

The hook intake asks `delivery.reach` what an event is about, and captures or waits accordingly.
Then it stamps the time and calls `apply` (before events), or stamps, applies and captures (all
others). An event that comes late has its own time and changes nothing that came after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent, HookPhase
from gitshadow.adapters.payload import shortened_id
from gitshadow.attribution import lifecycle
from gitshadow.attribution.delivery import Reach, calling_session
from gitshadow.attribution.lifecycle import Asked, Who
from gitshadow.attribution.markers import SESSION_VARIABLE
from gitshadow.attribution.process import ProcessId, agent_process, living, started_ns
from gitshadow.attribution.process_evidence import running
from gitshadow.attribution.windows import (
    OUTCOME_DENIED,
    OUTCOME_FAILED,
    OUTCOME_UNREPORTED,
)
from gitshadow.model import Call, RepoPath, Session, ToolClass, Turn, micro
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.db import Db

OUTCOMES: Mapping[HookPhase, str] = {
    HookPhase.AFTER: "ok",
    HookPhase.FAILED: OUTCOME_FAILED,
    HookPhase.DENIED: OUTCOME_DENIED,
}
_OPENING = (
    HookPhase.SESSION_START,
    HookPhase.PROMPT,
    HookPhase.BEFORE,
    HookPhase.SUBAGENT_START,
)
# Programs start their hooks late, so a tool may have begun earlier than its duration says. Half a
# second is safe: nobody saves a file and answers a question in another window within it.
EARLY_NS = 500_000_000
_SAME_END_NS = 2_000_000_000
"""Two ends of one derived call id that come closer than this are one end, delivered twice."""


@dataclass(frozen=True, slots=True)
class EventSource:
    """The worktree that takes an event, and where the event came from.

    `pids` are the ancestors of the hook program, nearest first, `env` the markers of its
    environment. `own` is the hook program itself, which the host started when the event happened:
    on a busy machine it gets to work much later. A program that reports about itself is its own
    first ancestor.
    """

    worktree: str
    pids: tuple[ProcessId, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    own: ProcessId | None = None


class Doubt(NamedTuple):
    """A call whose window changed, and the time whose rows may depend on the old window."""

    call: Call
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What an event did to the journal, and what must be captured.

    `background` is set if the agent has tasks that go on writing after its turn or call. `doubts`
    are set if rows may have another author than the recorded one.
    """

    session: str
    turn: str | None = None
    call: str | None = None
    paths: tuple[RepoPath, ...] = ()
    other_paths: tuple[bytes, ...] = ()
    needs_barrier: bool = False
    opened: bool = False
    closed: bool = False
    background: bool = False
    doubts: tuple[Doubt, ...] = ()


def apply(
    db: Db, event: HookEvent, at_ns: int, around: Reach, place: EventSource
) -> Intake:
    """Store one event in the journal, in one transaction.

    Args:
        db: The journal.
        event: What the adapter read.
        at_ns: Its time in the clock of the file system: now, or that of its spool file.
        around: What it is about in the worktree.
        place: The worktree that takes it.

    Returns:
        What it did. Applying the same event again does nothing more, but raises the same doubt.

    Raises:
        JournalError: the journal could not be written; nothing of the event was.
    """
    with db.write():
        return _Intake(db, event, at_ns, around, place).take()


def begin_at_writes(db: Db, session: str, call_id: str) -> Doubt | None:
    """Set the window of a call that names its paths to begin shortly before it wrote them.

    Returns:
        The rows that have to be judged again, None if the window did not change.
    """
    # A file tool writes each path at once and at its end. An earlier write to the path is somebody
    # else's, made while the agent waited for a permission.
    call = turns.get_call(db, session, call_id)
    if call is None or call.began_ns is not None or call.closed_ns is None:
        return None
    wanted = events.EventFilter(
        sessions=(session,), call=call_id, paths=call.paths, worktree=call.worktree
    )
    newest = {row.path: row.ts_ns for row in reversed(events.changes(db, wanted))}
    began_ns = min(newest.values(), default=0) - EARLY_NS
    if began_ns <= call.opened_ns:
        return None
    begun = replace(call, began_ns=began_ns)
    with db.write():
        turns.open_call(db, begun)
    return Doubt(begun, call.opened_ns, call.closed_ns)


class _Intake:
    """The intake of one event."""

    def __init__(
        self,
        db: Db,
        event: HookEvent,
        at_ns: int,
        around: Reach,
        place: EventSource,
    ) -> None:
        self._db = db
        self._event = event
        self._at_ns = at_ns
        self._place = place
        self._reach = around

    def take(self) -> Intake:
        event = self._event
        if event.phase is HookPhase.SUBAGENT_END and not sessions.find_native(
            self._db, event.agent, event.native_session
        ):
            # Claude Code compacts by a subagent that has no start and no tools (2.1.330). A session
            # of it would be empty.
            above = self._seen(event.parent_session or event.native_session, None)
            return Intake(session=above.id, needs_barrier=self._reach.needs_barrier)
        session = self._see()
        if event.model is not None:
            sessions.note_model(self._db, session.id, self._at_ns, event.model)
        done = Intake(
            session=session.id,
            paths=self._reach.paths,
            other_paths=self._reach.other_paths,
            needs_barrier=self._reach.needs_barrier,
            background=event.background_tasks > 0,
        )
        if event.phase is HookPhase.PROMPT:
            turn = self._begin_turn(session)
            if session.ended_ns is not None:
                lifecycle.end_turn(self._db, session.id, session.ended_ns)
            return replace(done, turn=turn.id)
        if event.phase is HookPhase.CONTINUATION:
            # Grok reports one after the end of its session too.
            if session.ended_ns is not None:
                return done
            turn_id = lifecycle.continue_turn(self._db, session.id, self._at_ns)
            return replace(done, turn=turn_id)
        if event.phase is HookPhase.SUBAGENT_START:
            return replace(done, turn=self._turn(session))
        if event.phase is HookPhase.BEFORE:
            return self._open(session, done)
        if event.phase in OUTCOMES:
            return self._close(session, done)
        if event.phase is HookPhase.TURN_END:
            return self._end_turn(session, done)
        if event.phase in (HookPhase.SESSION_END, HookPhase.SUBAGENT_END):
            self._end_session(session)
        return done

    def _see(self) -> Session:
        event = self._event
        if event.parent_session is None:
            return self._seen(event.native_session, None)
        parent = self._seen(event.parent_session, None)
        return self._seen(event.native_session, parent.id)

    def _seen(self, native: str, parent: str | None) -> Session:
        """Return one of the event's two sessions, opened or touched."""
        known = sessions.find_native(self._db, self._event.agent, native)
        if known is None and parent is None and native == self._event.native_session:
            parent = self._session_around()
        who = Who(
            agent=self._event.agent,
            native_id=native,
            parent=parent,
            process=self._process(known),
        )
        may_open = self._event.phase in _OPENING
        return lifecycle.touch_session(
            self._db, known, who, self._at_ns, may_open=may_open
        )

    def _session_around(self) -> str | None:
        """Return the session in which a new agent was started: another agent's, or a command's."""
        named = calling_session(self._event) or ""
        caller = sessions.find_native(self._db, self._event.agent, named)
        if caller is None:
            pids, own = self._place.pids, self._process(None)
            above = () if own not in pids else pids[pids.index(own) + 1 :]
            caller = lifecycle.session_above(self._db, above)
        if caller is None:
            caller = sessions.get(self._db, self._place.env.get(SESSION_VARIABLE, ""))
        return None if caller is None else caller.id

    def _process(self, known: Session | None) -> ProcessId | None:
        """Return the agent's process; the known one if it was an ancestor of the hook."""
        named = living(self._event.only_writer, self._at_ns)
        if named is not None:
            return named
        # Also if it is dead by now, because the event comes late: else the session would be bound
        # to a living ancestor, and its window would never close.
        if (
            known is not None
            and known.pid is not None
            and known.pid_started is not None
        ):
            process = ProcessId(known.pid, known.pid_started)
            if process in self._place.pids:
                return process
        if self._place.own is not None and self._place.own in self._place.pids[:1]:
            return self._place.own
        return agent_process(self._event.agent, self._place.pids, self._place.env)

    def _bind_child(self, session: Session) -> None:
        """Set this session as the parent of one that the call started, unless it has one."""
        native = self._event.child_session
        if native is None:
            return
        child = sessions.find_native(self._db, self._event.agent, native)
        if child is None or child.parent is not None:
            return
        if child.id not in (session.id, session.parent):
            sessions.put(self._db, replace(child, parent=session.id))

    def _end_session(self, session: Session) -> None:
        # A late end must not close a session that went on after it.
        if session.ended_ns is not None or (session.last_seen_ns or 0) > self._at_ns:
            return
        reason = self._event.reason or self._event.phase.value.replace("_", " ")
        lifecycle.end_session(self._db, session, self._at_ns, reason)

    def _turn(self, session: Session) -> str | None:
        event = self._event
        may_open = event.phase in _OPENING and session.ended_ns is None
        found = lifecycle.turn_of(
            self._db,
            session.id,
            self._turn_id(session),
            self._at_ns,
            may_open=may_open,
        )
        is_call = may_open and event.phase is HookPhase.BEFORE
        if found is None and is_call and registry.traits(event.agent).prompts_unseen:
            return self._begin_turn(session).id
        if found is None and is_call and self._has_subagents(session):
            # A subagent works on, or woke its parent: both for the turn that started it.
            return lifecycle.continue_turn(self._db, session.id, self._at_ns)
        return found

    def _begin_turn(self, session: Session) -> Turn:
        if self._event.transcript_path is not None:
            # The agent's own file is read only when a person asks for it, and never stored.
            path = self._event.transcript_path
            sessions.note_transcript(self._db, session.id, path)
        wanted = self._own_turn_id(session, begins=True)
        asked = Asked(self._event.prompt, self._event.prompt_digest)
        return lifecycle.begin_turn(self._db, session.id, wanted, self._at_ns, asked)

    def _own_turn_id(self, session: Session, *, begins: bool = False) -> str | None:
        """Return the id of a turn that is no subagent's, None for the one that is open.

        An agent that a call of another one has started works for that one's turn, so its turn is
        called `<turn>/<its own>`. Senders of our own form know their turns by the ids they sent.
        """
        event, own = self._event, self._event.turn_id
        if session.parent is None or event.parent_session is not None:
            return own
        if event.host in registry.OWN_FORM or (own is None and not begins):
            return own
        for turn in reversed(turns.list_turns(self._db, session.id)):
            if own is not None and turn.id.endswith(f"/{own}"):
                return turn.id
        above = self._open_turn_above(session)
        if above is None:
            return own
        return f"{above}/{own or shortened_id(event.native_session)}"

    def _turn_id(self, session: Session) -> str | None:
        """Return the turn's id as the agent gives it.

        A subagent's turn is a part of its parent's and is called `<turn>/<subagent>`, so that
        ids stay unique and the turn of the parent finds its parts. Some agents name the
        subagent's own turn instead (Codex 0.169), others none.
        """
        event = self._event
        if event.subagent_id is None:
            return self._own_turn_id(session)
        above = event.turn_id
        top = session.parent
        if not (top and above and turns.get_turn(self._db, top, above)):
            own = turns.newest(self._db, session.id, self._at_ns)
            # A subagent works for the turn that started it, also in the background after its end.
            is_at_work = own is not None and own.ended_ns is None
            if own and is_at_work and event.phase is not HookPhase.SUBAGENT_START:
                return own.id
            above = self._open_turn_above(session) or event.turn_id
            if above is None:
                return own.id if own else None
        return f"{above}/{event.subagent_id}"

    def _open_turn_above(self, session: Session) -> str | None:
        if session.parent is None:
            return None
        return lifecycle.turn_of(
            self._db, session.parent, None, self._at_ns, may_open=False
        )

    def _has_subagents(self, session: Session) -> bool:
        """Return whether a session has started subagents whose calls are reported as its own."""
        return registry.traits(self._event.agent).one_session and turns.has_called(
            self._db, session.id, ToolClass.AGENT
        )

    def _end_turn(self, session: Session, done: Intake) -> Intake:
        one_session = registry.traits(self._event.agent).one_session
        open_calls = turns.open_calls(self._db, session.id) if one_session else ()
        if any(call.tool_class is ToolClass.AGENT for call in open_calls):
            # It is a subagent's stop: its turn goes on for the call that started it.
            return done
        ended = lifecycle.end_turn(
            self._db, session.id, self._at_ns, self._turn_id(session)
        )
        are_several = self._has_subagents(session)
        turn = None if ended is None else ended.id
        doubts = () if ended is None else self._expire_refused(session, ended)
        # Only one of them may have stopped. The shells of others go on, and so do their calls.
        runs = running(self._db, session, self._over_ns()) if are_several else ()
        lifecycle.expire_calls(
            self._db,
            session.id,
            self._at_ns,
            lifecycle.ENDED_BY_TURN,
            lambda call: (
                call.id not in runs
                and (call.turn in (None, turn) or (turn is None and are_several))
            ),
        )
        return replace(done, turn=turn, doubts=doubts)

    def _expire_refused(self, session: Session, turn: Turn) -> tuple[Doubt, ...]:
        """End the file tools of a turn whose end was not reported: they were refused."""
        # These agents report the end of every tool that ran, but not that one was refused. Its
        # window would go on to the end of the turn, and take what a person writes there.
        if not registry.traits(self._event.agent).waits_unseen:
            return ()
        refused = lifecycle.expire_calls(
            self._db,
            session.id,
            self._at_ns,
            OUTCOME_UNREPORTED,
            lambda call: bool(call.paths) and call.turn == turn.id,
        )
        return tuple(Doubt(call, call.opened_ns, self._at_ns) for call in refused)

    def _open(self, session: Session, done: Intake) -> Intake:
        turn = self._turn(session)
        done = replace(done, turn=turn)
        if self._event.tool_class is ToolClass.READ:
            return done
        call_id = self._free_call(session)
        if call_id is None:
            return self._open_earlier(session, done)
        self._end_calls_before(session)
        # One that opens late is over already, with its session.
        ended_ns = session.ended_ns
        end_ns = None if ended_ns is None else max(ended_ns, self._at_ns)
        self._store(session, turn, call_id, self._at_ns, end_ns, None)
        return replace(done, call=call_id, opened=True)

    def _open_earlier(self, session: Session, done: Intake) -> Intake:
        """Let a known call begin when its hook gave up, if the daemon was too busy to hear it."""
        call = turns.get_call(self._db, session.id, self._event.call_id or "")
        done = replace(done, call=self._event.call_id)
        opened_ns = micro(self._at_ns)
        if self._event.call_derived or call is None or call.opened_ns <= opened_ns:
            return done
        earlier = replace(call, opened_ns=opened_ns)
        turns.open_call(self._db, earlier)
        return replace(done, doubts=(Doubt(earlier, opened_ns, call.opened_ns),))

    def _close_earlier(self, call: Call, done: Intake) -> Intake:
        """Let a call end when its hook gave up, as it began."""
        closed_ns = call.closed_ns or self._at_ns
        end_ns = max(self._at_ns, call.opened_ns)
        if not self._event.call_derived and end_ns < closed_ns:
            began_ns = call.began_ns
            if began_ns is not None and self._event.duration_ns is not None:
                counted_ns = self._began(replace(call, began_ns=None))
                began_ns = counted_ns and min(counted_ns, began_ns)
            call = replace(call, closed_ns=end_ns, began_ns=began_ns)
            turns.forget_begin(self._db, call)
            turns.open_call(self._db, call)
        return replace(done, doubts=(Doubt(call, call.opened_ns, closed_ns),))

    def _close(self, session: Session, done: Intake) -> Intake:
        if self._event.tool_class is ToolClass.READ:
            return replace(done, turn=self._turn(session))
        self._bind_child(session)
        call = self._call_of(session)
        outcome = OUTCOMES[self._event.phase]
        if call is None:
            return self._close_unseen(session, done, outcome)
        done = replace(done, turn=call.turn, call=call.id)
        outlives = call.closed_ns is not None and self._has_subagents(session)
        if not lifecycle.may_close(call, self._at_ns, outlives_turn=outlives):
            if call.closed_ns is None or call.outcome != outcome:
                return done
            # The first delivery may have failed after it closed the call, before rows were judged
            # again: without the doubt they would keep their wrong author.
            return self._close_earlier(call, done)
        end_ns = max(self._at_ns, call.opened_ns)
        closed = replace(
            call, closed_ns=end_ns, outcome=outcome, began_ns=self._began(call)
        )
        turns.open_call(self._db, closed)
        did_less = outcome == OUTCOME_DENIED or (
            outcome == OUTCOME_FAILED and bool(call.paths)
        )
        is_as_it_was = call.closed_ns is None and not did_less
        if is_as_it_was and closed.began_ns is None:
            return replace(done, closed=True)
        doubt = Doubt(closed, call.opened_ns, end_ns)
        return replace(done, closed=True, doubts=(doubt,))

    def _began(self, call: Call) -> int | None:
        """Return when the tool of a call began to run, None where it may be since the hook.

        A shell that ran for no time at all was not measured.
        """
        ran_ns = self._event.duration_ns
        if ran_ns is None or (ran_ns == 0 and not call.paths):
            return None
        # Cursor reports the write before the end, whose hooks may take longer than the tool.
        if call.began_ns is not None:
            return call.began_ns
        began_ns = self._over_ns() - ran_ns - EARLY_NS
        return began_ns if began_ns > call.opened_ns else None

    def _over_ns(self) -> int:
        """Return when a tool was over whose end is reported: when its hook was started."""
        own = self._place.own
        # A program that reports about itself was started for all of its events.
        if own is None or own in self._place.pids[:1]:
            return self._at_ns
        # On a busy machine a hook program gets to work long after the tool has ended; its start is
        # nearer to that end.
        return min(started_ns(own), self._at_ns)

    def _close_unseen(self, session: Session, done: Intake, outcome: str) -> Intake:
        """Store a call whose before event never came: it was open as long as the tool ran."""
        turn = self._turn(session)
        if self._event.tool is None:
            return replace(done, turn=turn)
        known = self._reported_again(session)
        if known is not None:
            # The end of a call that has not ended is reported after the hooks of this report. They
            # may take longer than the tool, and then its duration, counted back from the end,
            # would not reach the write.
            if known.closed_ns is None and known.began_ns is None:
                began_ns = self._over_ns() - (self._event.duration_ns or 0)
                began_ns = max(known.opened_ns, began_ns)
                turns.open_call(self._db, replace(known, began_ns=began_ns))
            return replace(done, turn=known.turn, call=known.id)
        call_id = self._free_call(session) or self._event.call_id or ""
        begun_ns = self._over_ns() - (self._event.duration_ns or 0)
        # What a notice had recorded of the paths before is not this call's.
        known_ns = turns.checkpoint_before(
            self._db, self._place.worktree, self._reach.paths, self._at_ns
        )
        opened_ns = max(begun_ns, known_ns)
        call = self._store(session, turn, call_id, opened_ns, self._at_ns, outcome)
        # `unreported` recognizes such a call by this: the begin of one that was announced is later.
        turns.open_call(self._db, replace(call, began_ns=call.opened_ns))
        doubts = (Doubt(call, opened_ns, self._at_ns),) if call.paths else ()
        return replace(done, turn=turn, call=call_id, closed=True, doubts=doubts)

    def _reported_again(self, session: Session) -> Call | None:
        """Return the call whose write an end without a call id reports once more."""
        # Cursor reports an edited file in addition to the end of the call that edited it.
        ran_ns = self._event.duration_ns
        if not self._event.call_derived or ran_ns is None or not self._reach.paths:
            return None
        around = turns.windows_between(self._db, self._at_ns - ran_ns, self._at_ns)
        named = set(self._reach.paths)
        mine = [one for one in around if one.session == session.id]
        return next((one for one in mine[::-1] if named <= set(one.paths)), None)

    def _store(
        self,
        session: Session,
        turn: str | None,
        call_id: str,
        opened_ns: int,
        closed_ns: int | None,
        outcome: str | None,
    ) -> Call:
        event = self._event
        # A tool that names only paths outside the worktree must not claim other writes in it.
        elsewhere = bool(event.paths) and not self._reach.paths
        kind = event.tool_class
        if elsewhere and kind is not ToolClass.SHELL:
            kind = ToolClass.WRITE
        elif event.awaited and all(self._is_below(session, n) for n in event.awaited):
            # Its subagents write, and have windows of their own: two open windows would make each
            # of their writes ambiguous.
            kind = ToolClass.AGENT
        call = Call(
            id=call_id,
            session=session.id,
            turn=turn,
            tool=event.tool or "tool",
            tool_class=kind,
            opened_ns=micro(opened_ns),
            closed_ns=closed_ns,
            outcome=outcome,
            paths=self._reach.paths,
            pid=session.pid,
            pid_started=session.pid_started,
            worktree=self._place.worktree,
        )
        turns.open_call(self._db, call)
        return call

    def _is_below(self, session: Session, native: str) -> bool:
        child = sessions.find_native(self._db, self._event.agent, native)
        return child is not None and child.parent == session.id

    def _end_calls_before(self, session: Session) -> None:
        """End the open calls of an agent that runs one tool at a time."""
        sequential = registry.traits(self._event.agent).sequential
        if sequential or self._event.call_derived:
            lifecycle.expire_calls(
                self._db,
                session.id,
                self._at_ns,
                lifecycle.ENDED_BY_CALL,
                lambda call: sequential or call.id.startswith("h-"),
            )

    def _free_call(self, session: Session) -> str | None:
        """Return the id for a new call; None for a call that is known already.

        A derived id is repeated if the agent does the same thing twice; then it gets a number.
        """
        wanted = self._event.call_id or ""
        found, number = wanted, 2
        while True:
            known = turns.get_call(self._db, session.id, found)
            if known is None:
                return found
            repeated = known.closed_ns is not None and known.closed_ns <= self._at_ns
            if not self._event.call_derived or not repeated:
                return None
            found, number = f"{wanted}~{number}", number + 1

    def _call_of(self, session: Session) -> Call | None:
        """Return the call that an event closes; of repeated ones the newest before it.

        One that was over before the tool can have begun is an earlier one.
        """
        wanted = self._event.call_id or ""
        found, number = turns.get_call(self._db, session.id, wanted), 2
        if not self._event.call_derived:
            return found
        newest = found
        while found is not None and found.opened_ns <= self._at_ns:
            newest = found
            again = f"{wanted}~{number}"
            found, number = turns.get_call(self._db, session.id, again), number + 1
        ran_ns = self._event.duration_ns
        if newest is None or newest.closed_ns is None or ran_ns is None:
            return newest
        over_ns = self._at_ns - max(ran_ns, _SAME_END_NS)
        return newest if newest.closed_ns > over_ns else None
