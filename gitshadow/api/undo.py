"""oops, undo, redo, restore: one request, one report."""

import re

from gitshadow.adapters import registry
from gitshadow.attribution.process import ProcessId
from gitshadow.config import CONFIRM, POST_UNDO, PRE_UNDO, Config
from gitshadow.errors import UsageError
from gitshadow.messages.undo import (
    FileUndoAnswer,
    FileUndoRequest,
    HandOverAnswer,
    UndoTarget,
)
from gitshadow.model import OpKind
from gitshadow.query.moments import time_of
from gitshadow.query.params import typed_unit
from gitshadow.query.resolve import Own, newest_of, own_of
from gitshadow.query.rows import about_row
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace, read_config
from gitshadow.store.journal import pins, short_ids
from gitshadow.undo import run as undo_run
from gitshadow.undo import sdk_turns
from gitshadow.undo.engine import UndoEngine
from gitshadow.undo.report import Action
from gitshadow.undo.run import ResolvedUndo
from gitshadow.undo.sdk_turns import ProgramTarget
from gitshadow.undo.targets import undoes_of

_DONE = ("reversed", "partial")
_OP = re.compile(r"op-[0-9a-f]{8,32}(-[0-9]{1,3})?")


def undo(
    context: RecorderContext, request: FileUndoRequest
) -> FileUndoAnswer | HandOverAnswer:
    """Plan an undo, and apply it if the request says so.

    With `announce` the answer is the plan, marked as such, if a hook command of the user's has to
    run first: the caller runs it, and asks again.

    Raises:
        UsageError: the request cannot be read, or a target is nothing or several things.
        RefusedError: the token is that of another plan; nothing was changed.
    """
    settings = _settings(context, request)
    own: Own | None = None
    if request.ancestors:
        own, request = _own(context, request)
    program = request.program
    wanted = None if program is None else sdk_turns.wanted(context, program)
    runner = request.runner
    if wanted is not None and runner is None and request.by_program:
        runner = wanted.session
    engine = UndoEngine(context, runner)
    resolved = _resolved(context, request, wanted)
    if own is not None:
        resolved = resolved._replace(whose=own.whose)
    if request.hand_over:
        whose = sdk_turns.hand_over(context, engine, resolved)
        if whose is not None:
            return HandOverAnswer(whose)
    announced = request.apply and request.announce and settings.pre_undo != ()
    if announced:
        resolved = resolved._replace(asked=resolved.asked._replace(yes=False))
    if wanted is not None and not wanted.targets:
        answer = sdk_turns.nothing(request).answer()._replace(about=())
    else:
        answer = _answer(engine, resolved)
    answer = _with_staged(answer, context.workspace)._replace(confirm=settings.confirm)
    if wanted is not None:
        answer = answer._replace(missing=wanted.missing, loose=wanted.loose)
    elif answer.op_id is not None:
        name = short_ids.of(context.workspace.db, short_ids.OP, answer.op_id)
        answer = answer._replace(op_short=name)
    answer = _with_rewinds(answer)
    if request.hook_settings is not None:
        answer = answer._replace(announced=announced, hooks=_hooks(settings))
    return answer


def _own(
    context: RecorderContext, request: FileUndoRequest
) -> tuple[Own, FileUndoRequest]:
    """Return the session that the caller is in, and the request for its newest turn.

    Raises:
        UsageError: nothing of it can be undone.
        RefusedError: no agent above the caller reported its session.
    """
    ws = context.workspace
    own = own_of(ws.db, [ProcessId(*pair) for pair in request.ancestors])
    context.observer.settle()
    newest = newest_of(ws, own)
    if newest is None:
        raise UsageError("nothing to undo: no change of this session is in effect")
    return own, request._replace(
        verb=OpKind.UNDO.value,
        targets=(UndoTarget(undoes_of(newest)),),
        runner=own.session.id,
        hand_over=False,
    )


def _resolved(
    context: RecorderContext, request: FileUndoRequest, program: ProgramTarget | None
) -> ResolvedUndo:
    """Return what the words of a request mean here.

    Raises:
        UsageError: one of them cannot be used.
    """
    if request.verb not in list(OpKind):
        raise UsageError(f"no such verb: {request.verb}")
    if request.op is not None and not _OP.fullmatch(request.op):
        raise UsageError(f"cannot use {request.op} as an op id")
    ws, at = context.workspace, request.at
    # A pin is more than its time: it has the exact modes of files, which trees do not have.
    if isinstance(at, str) and pins.get(ws.db, at) is not None:
        at, request = None, request._replace(pin=at)
    # What `restore` is given is always a path, whatever it looks like.
    all_paths = request.verb == OpKind.RESTORE
    typed = [(text, is_path or all_paths) for text, is_path in request.targets]
    targets, paths = typed_unit(
        ws.layout, request.cwd, typed, request.only, request.except_
    )
    return ResolvedUndo(
        request,
        targets if program is None else program.targets,
        paths,
        at_ns=time_of(context, at),
        # To find out what the program's turns wrote, all was recorded a moment ago.
        is_settled=program is not None,
    )


def _answer(engine: UndoEngine, request: ResolvedUndo) -> FileUndoAnswer:
    op = request.asked.op
    if request.asked.apply and op is not None:
        earlier = undo_run.earlier_report(engine, op)
        if earlier is not None:
            return earlier._replace(about=())
    report = undo_run.run(engine, request)
    return report.answer()._replace(about=tuple(map(about_row, report.about)))


def _with_rewinds(answer: FileUndoAnswer) -> FileUndoAnswer:
    """Return the report of an undo with how to rewind the conversations that it concerns."""
    if answer.status not in _DONE or answer.kind not in (OpKind.OOPS, OpKind.UNDO):
        return answer
    agents = dict.fromkeys(row.agent for row in answer.about or () if row.agent)
    notes = tuple(
        f"the conversation in {agent} is not changed; to rewind it: {how}"
        for agent in agents
        if (how := registry.traits(agent).rewind)
    )
    return answer._replace(notes=(*answer.notes, *notes))


def _with_staged(answer: FileUndoAnswer, ws: Workspace) -> FileUndoAnswer:
    """Return an answer that lists what the index still has of its items."""
    items = answer.items
    gone = any(item.action == Action.DELETE for item in items)
    if not gone and all(item.old_path is None for item in items):
        return answer
    # Only renames and deletions can leave something staged; the index is not read for others.
    from gitshadow.undo.report_context import creations_staged, moves_staged

    staged = (*moves_staged(items, ws.index), *creations_staged(items, ws.index))
    return answer._replace(not_covered=(*answer.not_covered, *staged))


def _settings(context: RecorderContext, request: FileUndoRequest) -> Config:
    """Read the settings again: a daemon may be older than they are, and has another environment.

    Raises:
        ShadowError: one cannot be used; nothing was done yet.
    """
    environ = {CONFIRM.env_name: request.confirm} if request.confirm else {}
    hooks = request.hook_settings or {}
    names = (*PRE_UNDO.env_names, *POST_UNDO.env_names)
    environ |= {name: hooks[name] for name in names if name in hooks}
    return read_config(context.workspace.repo, environ)


def _hooks(settings: Config) -> tuple[str, ...]:
    """Return which hook commands there are; who runs them reads what they are."""
    named = {"pre_undo": settings.pre_undo, "post_undo": settings.post_undo}
    return tuple(name for name, argv in named.items() if argv)
