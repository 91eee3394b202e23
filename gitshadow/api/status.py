"""status, init: is this worktree recorded right now, by what, and what is not recorded."""

import os
from collections.abc import Sequence

from gitshadow.attribution.lifecycle import SILENCE_NS
from gitshadow.attribution.native_ids import is_hooked
from gitshadow.capture.coverage import UNTRACKED_DATA
from gitshadow.config import DaemonMode
from gitshadow.maintenance import diagnostics, file_system, setup
from gitshadow.maintenance.setup import Initialised
from gitshadow.messages.status import (
    AlertRow,
    ClosingRow,
    Coverage,
    CurrentSession,
    DaemonState,
    ExcludedRow,
    InitAnswer,
    InitRequest,
    StatusAnswer,
    StatusRequest,
)
from gitshadow.model import Actor, Excluded, RepoPath, Session
from gitshadow.query.rows import closing_row, rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.sharing import remotes
from gitshadow.store.disk import disk
from gitshadow.store.git_index import rules_of
from gitshadow.store.journal import alerts, events, sessions
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.layout import Layout
from gitshadow.store.refs import display_path

_ALERTED_NS = 24 * 3600 * 10**9
_VIEW_HINT = (
    "`git log --all` also shows the recorded history; to hide it:"
    " --exclude='refs/agent-undo/*'; or with settings for Git (log.excludeDecoration):"
    " git agent-undo hooks install git-config"
)


def init(context: RecorderContext, request: InitRequest) -> InitAnswer:
    """Record what changed in a worktree that is recorded already; return what is recorded."""
    ws = context.workspace
    context.observer.settle()
    allowed = ws.config.enabled and ws.config.daemon is DaemonMode.AUTO
    left_out = ws.coverage.data_left_out()
    done = Initialised(True, ws.states.count(), (), left_out, daemon_allowed=allowed)
    return init_answer(ws.layout, done)._replace(daemon=context.observer.watching)


def init_answer(layout: Layout, done: Initialised) -> InitAnswer:
    """Return the answer of `init` after a first or a repeated look at the worktree."""
    unreadable = [
        f"could not read {display_path(path)}: {why}" for path, why in done.unreadable
    ]
    return InitAnswer(
        root=display_path(RepoPath(os.fsencode(layout.root))),
        worktree=layout.worktree,
        files=done.files,
        already=done.already,
        warnings=(*unreadable, *setup.warnings(layout)),
        hints=() if done.already else (_VIEW_HINT,),
        excluded=len(done.excluded),
        data=tuple(
            ExcludedRow(display_path(one.path), one.reason, one.rule, one.count)
            for one in done.excluded
            if one.reason == UNTRACKED_DATA
        ),
        stored_bytes=done.stored,
        daemon=False,
        daemon_allowed=done.daemon_allowed,
    )


def status(context: RecorderContext, request: StatusRequest) -> StatusAnswer:
    """Return what `status` promises, after a barrier.

    With `brief` nothing is recorded first, and no excluded path is named.
    """
    ws = context.workspace
    if ws.config.enabled and not request.brief:
        context.observer.settle()
    known = sessions.all_sessions(ws.db)
    now_ns, heard = ws.clock.now_ns(), _heard(known)
    live = [one for one in known if one.ended_ns is None and one.actor is Actor.AGENT]
    return StatusAnswer(
        root=display_path(RepoPath(os.fsencode(ws.layout.root))),
        worktree=ws.layout.worktree,
        object_format=ws.repo.format.name,
        enabled=ws.config.enabled,
        daemon=DaemonState(
            running=context.observer.watching,
            pid=context.observer.pid,
            allowed=ws.config.daemon is DaemonMode.AUTO,
            started=rfc3339(context.observer.started_ns),
        ),
        degraded=context.observer.degraded,
        events=events.count(ws.db),
        sessions=len(known),
        open_sessions=len(live),
        current=tuple(
            CurrentSession(one.id, one.agent, rfc3339(one.started_ns)) for one in live
        ),
        heard={name: rfc3339(heard[name]) for name in heard},
        heard_lately=tuple(
            name for name, at_ns in heard.items() if now_ns - at_ns <= SILENCE_NS
        ),
        gaps=events.count_gaps(ws.db),
        last_gap=rfc3339(events.last_gap_ns(ws.db, ws.layout.worktree)),
        coverage=Coverage(
            ws.states.count(), () if request.brief else excluded_rows(context)
        ),
        disk=disk(ws.layout.state_dir, ws.layout.common_dir, context.loose),
        undo_window=_window(context),
        hints=tuple(_hints(context)),
        unreported=diagnostics.unreported(ws),
        alerts=tuple(
            AlertRow(
                alerts.turn_of(ws.db, one) or one.session,
                one.agent,
                rfc3339(one.ts_ns),
                one.text,
            )
            for one in alerts.all_alerts(ws.db, now_ns - _ALERTED_NS)
        ),
    )


def _heard(known: Sequence[Session]) -> dict[str, int]:
    """Return when a hook of each agent last came, the newest first."""
    # A process that was seen, or a command of ours, opens sessions too, but proves no hook.
    heard: dict[str, int] = {}
    for one in known:
        if one.agent is None or one.actor is not Actor.AGENT:
            continue
        if is_hooked(one):
            seen = max(one.last_seen_ns or 0, one.started_ns)
            heard[one.agent] = max(seen, heard.get(one.agent, 0))
    return dict(sorted(heard.items(), key=lambda item: -item[1]))


def _window(context: RecorderContext) -> ClosingRow | None:
    """Return the effect of an agent program that will be the next to be past undoing."""
    ws = context.workspace
    found = SagaTables(ws.db).next_to_close(ws.clock.now_ns())
    return None if found is None else closing_row(found)


def excluded_rows(context: RecorderContext) -> tuple[ExcludedRow, ...]:
    """Return what is not recorded here, topmost paths, each with the reason and the rule."""
    found: tuple[Excluded, ...] = context.walker.excluded_now()
    # One git process for all ignored paths; the walk does not know the file and line of each rule.
    ignored = [one.path for one in found if one.reason == "ignored" and not one.rule]
    rules = rules_of(context.workspace.git, ignored)
    return tuple(
        ExcludedRow(
            path=display_path(one.path),
            reason=one.reason,
            rule=one.rule or rules.get(one.path),
            count_=one.count,
        )
        for one in found
    )


def _hints(context: RecorderContext) -> list[str]:
    ws = context.workspace
    hints = []
    if not ws.config.enabled:
        hints.append("recording is off: git config agent-undo.enabled true")
    if ws.config.witness and (why := context.processes.witness.check()) is not None:
        hints.append(f"the kernel does not report who wrote: {why}")
    if (clash := file_system.clash(ws)) is not None:
        hints.append(clash)
    hints += [remotes.warning(leak) for leak in remotes.leaks(ws.repo)]
    return hints
