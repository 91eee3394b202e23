"""flush, record, session start and end, exec, Git's own hooks: what is recorded on request."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gitshadow.attribution import lifecycle
from gitshadow.attribution.lifecycle import Asked, Who
from gitshadow.attribution.native_ids import (
    RECORDED_BY_HAND,
    is_by_person,
    new_command_id,
    new_id_by_person,
)
from gitshadow.attribution.process import (
    ProcessId,
    ProcessScan,
    ancestors,
    command_line,
    living,
    started_ns,
)
from gitshadow.config import PromptPolicy
from gitshadow.errors import StoreError, UsageError
from gitshadow.messages.codec import Nothing
from gitshadow.messages.record import (
    AlreadyRow,
    ExecBeginAnswer,
    ExecBeginRequest,
    ExecEndAnswer,
    ExecEndRequest,
    FlushAnswer,
    GapRequest,
    GitHookRequest,
    RecordAnswer,
    RecordRequest,
    SessionEndAnswer,
    SessionEndRequest,
    SessionStartAnswer,
    SessionStartRequest,
)
from gitshadow.model import Actor, Call, RepoPath, Session, ToolClass, micro
from gitshadow.query.params import typed_paths
from gitshadow.query.resolve import session_of
from gitshadow.query.rows import credited
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.refs import display_path

_EXEC_TOOL = "exec"
# Events of Git's own hooks (githooks(5), git 2.56; pre-commit 4.7).
_BEGINNINGS = frozenset({"pre-commit", "pre-merge-commit", "commit-msg", "post-commit"})
_ENDS = frozenset({"prepare-commit-msg"})
_WRITTEN = "commit-msg"
_REPLAYS = frozenset({b"cherry-pick", b"revert", b"rebase", b"am", b"merge", b"pull"})
_DONE = "hooks-done"
_REFS = "reference-transaction"


def flush(context: RecorderContext, request: Nothing) -> FlushAnswer:
    """Return when everything written before the call is in the journal.

    Raises:
        StoreError: some of it could not be stored; the next barrier tries again.
    """
    context.observer.settle()
    # Scripts call flush to be sure: a file that could not be stored must not look recorded.
    for path, error in context.pipeline.missed.items():
        shown = display_path(path)
        raise StoreError(f"could not record {shown}: {error}", hint=error.hint)
    return FlushAnswer(events.last_seq(context.workspace.db))


def record(context: RecorderContext, request: RecordRequest) -> RecordAnswer:
    """Record paths now, as written by a session where one is named."""
    ws = context.workspace
    paths = typed_paths(ws.layout, request.cwd, request.paths)
    before = events.last_seq(ws.db)
    wanted, agent = request.session, request.agent
    already: tuple[AlreadyRow, ...] = ()
    if wanted is None and agent is None:
        context.observer.store(paths)
    else:
        session = (
            session_of(ws.db, wanted) if wanted else _by_hand(context, agent or "")
        )
        tool = _Tool(name="record", kind=ToolClass.WRITE, paths=paths)
        call = _open_call(context, session, tool, context.pipeline.settled_ns)
        try:
            context.observer.store(paths)
        finally:
            # An open window would claim what others write there later.
            _close_call(context, session.id, call.id, "ok")
        already = tuple(_recorded_before(context, paths, before, session.id))
    return RecordAnswer(events.last_seq(ws.db) - before, already)


def _recorded_before(
    context: RecorderContext, paths: Sequence[RepoPath], before: int, session: str
) -> Iterator[AlreadyRow]:
    """Yield the rows of paths that were recorded already, as somebody else's."""
    # They are only listed: who wrote them was decided when they were recorded, and a claim made
    # afterwards must not change it.
    ws = context.workspace
    for path in paths:
        chosen = EventFilter(limit=1, paths=(path,), worktree=ws.layout.worktree)
        for row in events.changes(ws.db, chosen):
            who = row.attribution
            if row.path != path or row.seq > before:
                continue
            if who.session != session:
                shown = credited(who)
                yield AlreadyRow(
                    path=display_path(path),
                    seq=row.seq,
                    actor=shown.actor.value,
                    agent=shown.agent,
                    session=who.session,
                )


def _by_hand(context: RecorderContext, agent: str) -> Session:
    """Return the session of what is recorded by hand for an agent."""
    ws = context.workspace
    who = Who(agent=agent, native_id=RECORDED_BY_HAND)
    with ws.db.write():
        return lifecycle.see_session(ws.db, who, ws.clock.now_ns(), may_open=True)


def session_start(
    context: RecorderContext, request: SessionStartRequest
) -> SessionStartAnswer:
    """Open a session by hand: an agent's, or with `human` a person's."""
    ws = context.workspace
    process = living(request.pid)
    if request.pid is not None and process is None:
        raise UsageError(f"cannot open a session for process {request.pid}: it is gone")
    if process is not None:
        context.processes.activity.watch(process)
    context.observer.settle()
    now_ns = ws.clock.now_ns()
    native = request.native or new_id_by_person(of_process=process is not None)
    agent = None if request.human else request.agent or "generic"
    who = Who(agent=agent or "", native_id=native, process=process)
    with ws.db.write():
        if agent is not None:
            session = lifecycle.see_session(ws.db, who, now_ns, may_open=True)
            lifecycle.begin_turn(ws.db, session.id, None, now_ns)
        else:
            session = Session(
                id=lifecycle.fresh_id(ws.db, "human", native, now_ns),
                native_id=native,
                actor=Actor.HUMAN,
                agent=None,
                started_ns=micro(now_ns),
                last_seen_ns=now_ns,
            )
            sessions.put(ws.db, session)
    if process is not None:
        context.processes.marks.writes_alone(session.id)
    return SessionStartAnswer(session.id, session.id, native)


def session_end(
    context: RecorderContext, request: SessionEndRequest
) -> SessionEndAnswer:
    """End a session that was opened by hand; without an id the newest one."""
    ws = context.workspace
    context.observer.settle()
    wanted = request.id
    session = session_of(ws.db, wanted) if wanted else _newest_manual(context)
    with ws.db.write():
        lifecycle.end_session(ws.db, session, ws.clock.now_ns(), "ended by hand")
    return SessionEndAnswer(session.id, session.id)


def exec_begin(context: RecorderContext, request: ExecBeginRequest) -> ExecBeginAnswer:
    """Open a session around a command: everything it writes is the session's.

    Inside another session its turn is a part of that one's, so that undoing that includes it.
    """
    ws = context.workspace
    if not ws.config.enabled:
        return ExecBeginAnswer(None, None)
    process = living(request.pid)
    if process is not None:
        context.processes.activity.watch(process, adopts=True)
        ws.own_bytes.begins = True
    context.observer.settle()
    now_ns = ws.clock.now_ns()
    native = new_command_id()
    parent = _session_around(context, request.pid, request.session)
    who = Who(
        agent=request.agent or _EXEC_TOOL,
        native_id=native,
        parent=parent,
        process=process,
    )
    kept = ws.config.prompts is not PromptPolicy.OFF
    asked = Asked((" ".join(request.argv) or None) if kept else None)
    with ws.db.write():
        session = lifecycle.see_session(ws.db, who, now_ns, may_open=True)
        above = None
        if parent is not None:
            above = lifecycle.turn_of(ws.db, parent, None, now_ns, may_open=False)
        wanted = None if above is None else f"{above}/{native}"
        turn = lifecycle.begin_turn(ws.db, session.id, wanted, now_ns, asked)
    tool = _Tool(name=_EXEC_TOOL, kind=ToolClass.SHELL, turn=turn.id)
    call = _open_call(context, session, tool, now_ns)
    return ExecBeginAnswer(session.id, call.id)


def _session_around(
    context: RecorderContext, pid: int | None, named: str | None
) -> str | None:
    """Return the live session in which a process runs, else the session `named`."""
    # The process tree first: a variable is inherited by shells that outlive their session.
    db = context.workspace.db
    live = [one for one in sessions.live(db) if one.actor is Actor.AGENT]
    found = ProcessScan().session_of(pid, live) if pid is not None and live else None
    if found is None and named is not None and sessions.get(db, named) is not None:
        found = named
    return found


def exec_end(context: RecorderContext, request: ExecEndRequest) -> ExecEndAnswer:
    """Record the last writes of a command and end its session."""
    ws = context.workspace
    name = request.session
    now_ns = ws.clock.now_ns()
    _close_call(context, name, request.call, "ok", now_ns)
    context.observer.settle()
    session = sessions.get(ws.db, name)
    if session is None:
        return ExecEndAnswer(name)
    # A process in the background still writes for this session: the session then ends with that
    # process, the wrapper's own pid being gone.
    left = context.processes.left_running(session)
    with ws.db.write():
        if left is None:
            lifecycle.end_session(ws.db, session, now_ns, f"exit {request.exit}")
        else:
            lifecycle.end_turn(ws.db, session.id, now_ns)
            pid, started = left.pid, left.started
            sessions.put(ws.db, replace(session, pid=pid, pid_started=started))
    return ExecEndAnswer(name)


def journal_gap(context: RecorderContext, request: GapRequest) -> Nothing:
    """Journal a gap that the daemon itself noticed."""
    context.pipeline.gap(request.why or "the daemon failed")
    return Nothing()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    """The tool for whose writes a window is opened."""

    name: str
    kind: ToolClass
    paths: tuple[RepoPath, ...] = ()
    turn: str | None = None


def _open_call(
    context: RecorderContext, session: Session, tool: _Tool, opened_ns: int
) -> Call:
    ws = context.workspace
    call = Call(
        id=f"{tool.name}-{os.urandom(6).hex()}",
        session=session.id,
        turn=tool.turn,
        tool=tool.name,
        tool_class=tool.kind,
        opened_ns=micro(opened_ns),
        paths=tool.paths,
        pid=session.pid,
        pid_started=session.pid_started,
        worktree=ws.layout.worktree,
    )
    with ws.db.write():
        turns.open_call(ws.db, call)
    return call


def _close_call(
    context: RecorderContext,
    session: str,
    call: str,
    outcome: str,
    at_ns: int | None = None,
) -> None:
    ws = context.workspace
    end = ws.clock.now_ns() if at_ns is None else at_ns
    with ws.db.write():
        turns.close_call(ws.db, session, call, end, outcome)


def _newest_manual(context: RecorderContext) -> Session:
    live = [one for one in sessions.live(context.workspace.db) if is_by_person(one)]
    if not live:
        raise UsageError(
            "cannot end a session: none was started by hand",
            hint="git agent-undo sessions",
        )
    return live[-1]


def git_hook(context: RecorderContext, request: GitHookRequest) -> Nothing:
    """Record everything written before a call of a git hook; open or close a window.

    A window is open while other hooks run after ours. If our script calls them (`chained`) it
    belongs to the script, if a manager calls us (`managed`) to the manager, and if Git runs them
    (`beside`) to the commit, but not while a person writes the message.
    """
    event, commits = request.event, context.commits
    # A reference transaction comes in the middle of a git command, which must not wait for a walk.
    if event == _REFS:
        context.observer.settle_soon()
        return Nothing()
    above = ancestors(request.pid) if request.pid is not None else ()
    ours = bool(above) and commits.belongs_to(above[0])
    over = commits.gone() or event in _ENDS or (event == _DONE and ours)
    process = _runner(request, event, above)
    if process is not None and request.managed:
        # pre-commit stashes unstaged changes before its first hook runs, so the window begins when
        # its process began.
        commits.begin(
            process, min(context.workspace.clock.now_ns(), started_ns(process))
        )
    context.observer.settle()
    if over:
        commits.end()
    if process is not None:
        commits.begin(process, context.workspace.clock.now_ns())
    _write_trailers(context, request, above)
    return Nothing()


def _write_trailers(
    context: RecorderContext, request: GitHookRequest, above: tuple[ProcessId, ...]
) -> None:
    """Add trailers that name the authors of the lines to the message of a person's commit."""
    message = request.message
    if message is None:
        return
    # Imported only here, because it imports all of blame and every git command runs this hook.
    from gitshadow.interchange import commit_trailers

    asked = commit_trailers.MessageContext(
        message, request.source or "", request.index_
    )
    if request.event == _WRITTEN:
        commit_trailers.finish(context, asked)
    elif _git_verb(above) not in _REPLAYS:
        commit_trailers.prepare(context, asked)


def _git_verb(above: tuple[ProcessId, ...]) -> bytes | None:
    """Return the verb of the nearest git process above, None if there is none or it is hidden."""
    for process in above:
        words = command_line(process.pid)
        if not words or os.path.basename(words[0]) != b"git":
            continue
        rest = iter(words[1:])
        for word in rest:
            # Only these of Git's own options take their value as a word of its own.
            if word in (b"-c", b"-C"):
                next(rest, None)
            elif not word.startswith(b"-"):
                return word
        return None
    return None


def _runner(
    request: GitHookRequest, event: str | None, above: tuple[ProcessId, ...]
) -> ProcessId | None:
    """Return the process that runs other hooks after ours and ends with them, if any."""
    if event == _DONE:
        return None
    if request.chained or request.managed:
        return above[0] if above else None
    beside = request.beside and event in _BEGINNINGS
    for process in above if beside else ():
        words = command_line(process.pid)
        if words and os.path.basename(words[0]) == b"git":
            return process
    return None
