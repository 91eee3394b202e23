"""flush, record, session start and end, exec: the ways in that are not hooks."""

import secrets
from dataclasses import dataclass

from gitshadow.attribution import lifecycle
from gitshadow.attribution.lifecycle import Who, microseconds
from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.engine import params as read
from gitshadow.engine.desk import Desk
from gitshadow.engine.resolve import session_of
from gitshadow.engine.verbs import Document, Params
from gitshadow.errors import StoreError, UsageError
from gitshadow.model import Actor, Call, RepoPath, Session, ToolClass
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.refs import display_path, session_id

_EXEC_TOOL = "exec"


def flush(desk: Desk, params: Params) -> Document:
    """Return when everything written before the call is in the journal.

    Raises:
        StoreError: some of it could not be stored; the next barrier tries again.
    """
    del params
    desk.observer.settle()
    for path, error in desk.pipeline.missed.items():
        shown = display_path(path)
        raise StoreError(f"could not record {shown}: {error}", hint=error.hint)
    return {"seq": events.last_seq(desk.workspace.db)}


def record(desk: Desk, params: Params) -> Document:
    """Record paths now, as written by a session where one is named."""
    ws = desk.workspace
    paths = read.repo_paths(ws.layout, params, "paths")
    before = events.last_seq(ws.db)
    wanted, agent = read.text(params, "session"), read.text(params, "agent")
    if wanted is None and agent is None:
        desk.observer.store(paths)
    else:
        session = session_of(ws.db, wanted) if wanted else _by_hand(desk, agent or "")
        tool = _Tool(name="record", kind=ToolClass.WRITE, paths=tuple(paths))
        call = _open_call(desk, session, tool, desk.pipeline.settled_ns)
        try:
            desk.observer.store(paths)
        finally:  # an open window would claim what others write there later
            _close_call(desk, session.id, call.id, "ok")
    return {"recorded": events.last_seq(ws.db) - before}


def _by_hand(desk: Desk, agent: str) -> Session:
    """Return the session of what is recorded by hand for an agent."""
    ws = desk.workspace
    who = Who(agent=agent, native_id="recorded-by-hand")
    with ws.db.write():
        return lifecycle.see_session(ws.db, who, ws.clock.now_ns(), may_open=True)


def session_start(desk: Desk, params: Params) -> Document:
    """Open a session by hand: an agent's, or with `human` a person's."""
    ws = desk.workspace
    desk.observer.settle()
    now_ns = ws.clock.now_ns()
    human = read.flag(params, "human")
    native = read.text(params, "native") or f"manual-{secrets.token_hex(8)}"
    agent = None if human else read.text(params, "agent") or "generic"
    with ws.db.write():
        if agent is not None:
            session = lifecycle.see_session(
                ws.db, Who(agent=agent, native_id=native), now_ns, may_open=True
            )
            lifecycle.begin_turn(ws.db, session.id, None, now_ns)
        else:
            session = Session(
                id=session_id("human", native, now_ns),
                native_id=native,
                actor=Actor.HUMAN,
                agent=None,
                started_ns=microseconds(now_ns),
                last_seen_ns=now_ns,
            )
            sessions.put(ws.db, session)
    return {"id": session.id, "session": session.id, "native_id": native}


def session_end(desk: Desk, params: Params) -> Document:
    """End a session that was opened by hand; without an id the newest one."""
    ws = desk.workspace
    desk.observer.settle()
    wanted = read.text(params, "id")
    session = session_of(ws.db, wanted) if wanted else _newest_manual(desk)
    with ws.db.write():
        lifecycle.end_session(ws.db, session, ws.clock.now_ns(), "ended by hand")
    return {"id": session.id, "session": session.id}


def exec_begin(desk: Desk, params: Params) -> Document:
    """Open a session around a command: everything it writes is the session's."""
    ws = desk.workspace
    if not ws.config.enabled:
        return {"session": None, "call": None}
    desk.observer.settle()
    now_ns = ws.clock.now_ns()
    pid = read.number(params, "pid")
    agent = read.text(params, "agent") or _EXEC_TOOL
    outer = read.text(params, "session")
    parent = sessions.get(ws.db, outer) if outer else None
    who = Who(
        agent=agent,
        native_id=f"exec-{secrets.token_hex(8)}",
        parent=parent.id if parent else None,
        process=_process(pid),
    )
    with ws.db.write():
        session = lifecycle.see_session(ws.db, who, now_ns, may_open=True)
        prompt = " ".join(read.strings(params, "argv"))
        turn = lifecycle.begin_turn(ws.db, session.id, None, now_ns, prompt)
    tool = _Tool(name=_EXEC_TOOL, kind=ToolClass.SHELL, turn=turn.id)
    call = _open_call(desk, session, tool, now_ns)
    return {"session": session.id, "call": call.id}


def exec_end(desk: Desk, params: Params) -> Document:
    """End the session of a command, its last writes recorded."""
    ws = desk.workspace
    name = read.needed(params, "session")
    now_ns = ws.clock.now_ns()
    _close_call(desk, name, read.needed(params, "call"), "ok", now_ns)
    desk.observer.settle()
    session = sessions.get(ws.db, name)
    if session is not None:
        status = read.number(params, "exit")
        with ws.db.write():
            lifecycle.end_session(ws.db, session, now_ns, f"exit {status}")
    return {"session": name}


def git_hook(desk: Desk, params: Params) -> Document:
    """Take the call of a git hook: look at HEAD and what it changed."""
    del params
    desk.observer.settle()
    return {}


def journal_gap(desk: Desk, params: Params) -> Document:
    """Journal a gap that the daemon itself noticed."""
    desk.pipeline.gap(read.text(params, "why") or "the daemon failed")
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    """Hold what a window is opened for."""

    name: str
    kind: ToolClass
    paths: tuple[RepoPath, ...] = ()
    turn: str | None = None


def _open_call(desk: Desk, session: Session, tool: _Tool, opened_ns: int) -> Call:
    ws = desk.workspace
    call = Call(
        id=f"{tool.name}-{secrets.token_hex(6)}",
        session=session.id,
        turn=tool.turn,
        tool=tool.name,
        tool_class=tool.kind,
        opened_ns=microseconds(opened_ns),
        paths=tool.paths,
        pid=session.pid,
        pid_started=session.pid_started,
        worktree=ws.layout.worktree,
    )
    with ws.db.write():
        turns.open_call(ws.db, call)
    return call


def _close_call(
    desk: Desk, session: str, call: str, outcome: str, at_ns: int | None = None
) -> None:
    ws = desk.workspace
    end = ws.clock.now_ns() if at_ns is None else at_ns
    with ws.db.write():
        turns.close_call(ws.db, session, call, end, outcome)


def _process(pid: int | None) -> ProcessId | None:
    started = process_start(pid) if pid is not None else None
    return ProcessId(pid, started) if pid is not None and started is not None else None


def _newest_manual(desk: Desk) -> Session:
    live = [
        one
        for one in sessions.live(desk.workspace.db)
        if one.native_id.startswith("manual-")
    ]
    if not live:
        raise UsageError(
            "could not end a session: none was started by hand",
            hint="git agent-undo sessions",
        )
    return live[-1]
