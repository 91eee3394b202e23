"""oops, undo, redo, restore: one request, one report."""

import re
from dataclasses import replace

from gitshadow.api import Document, Params
from gitshadow.config import CONFIRM, POST_UNDO, PRE_UNDO, Config
from gitshadow.errors import UsageError
from gitshadow.messages.codec import encode
from gitshadow.model import OpKind
from gitshadow.query import params as read
from gitshadow.query.moments import time_of
from gitshadow.query.rows import about_row
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace, read_config
from gitshadow.store.journal import pins
from gitshadow.undo import run as undo_run
from gitshadow.undo import sdk_turns
from gitshadow.undo.engine import UndoEngine
from gitshadow.undo.hunk_selection import Choice
from gitshadow.undo.port import FileUndoRequest
from gitshadow.undo.report import Action, Report
from gitshadow.undo.reverse import OnConflict
from gitshadow.undo.targets import Target

_OP = re.compile(r"op-[0-9a-f]{8,32}(-[0-9]{1,3})?")


def undo(context: RecorderContext, params: Params) -> Document:
    """Plan an undo, and apply it where the parameters say so.

    With `announce` the answer is the plan, marked as such, where a hook command of the user's
    is to be told first: whoever asks runs it, and asks again.
    """
    ws = context.workspace
    settings = _settings(context, params)
    wanted = sdk_turns.wanted(context, params.get("program"))
    targets = _targets(context, params) if wanted is None else wanted.targets
    runner = read.text(params, "runner")
    if wanted is not None and runner is None and read.flag(params, "by_program"):
        runner = wanted.session
    engine = UndoEngine(context, runner)
    kind = read.text(params, "verb") or "undo"
    if kind not in list(OpKind):
        raise UsageError(f"no such verb: {kind}")
    at, pin = params.get("at"), read.text(params, "pin")
    if isinstance(at, str) and pins.get(ws.db, at) is not None:
        at, pin = None, at
    request = FileUndoRequest(
        kind=OpKind(kind),
        targets=targets,
        only=tuple(read.repo_paths(ws.layout, params, "only")),
        leave=tuple(read.repo_paths(ws.layout, params, "except")),
        on_conflict=OnConflict(read.text(params, "on_conflict") or "skip"),
        include_low=read.flag(params, "include_low"),
        at_ns=time_of(context, at),
        pin=pin,
        apply=read.flag(params, "yes") and not read.flag(params, "dry_run"),
        token=read.text(params, "token"),
        offer=read.flag(params, "offer"),
        choice=_choice(params),
        op=_op(params),
    )
    if read.flag(params, "hand_over"):
        whose = sdk_turns.hand_over(context, engine, request)
        if whose is not None:
            return {"hand_over": whose}
    announced = (
        request.apply and read.flag(params, "announce") and settings.pre_undo != ()
    )
    if announced:
        request = replace(request, apply=False)
    if wanted is not None and not targets:
        report = sdk_turns.nothing(request)
    else:
        report = undo_run.run(engine, request)
    report = _with_staged(report, ws)
    document = dict(report.to_json())
    document["about"] = [encode(about_row(one)) for one in report.about]
    if wanted is not None:
        document |= {"missing": list(wanted.missing), "loose": list(wanted.loose)}
    document["confirm"] = settings.confirm
    if "hook_settings" in params:
        document |= {"announced": announced, "hooks": _hooks(settings)}
    return document


def _with_staged(report: Report, ws: Workspace) -> Report:
    """Return a report that names what the index still has of it."""
    gone = any(item.action is Action.DELETE for item in report.items)
    if not gone and all(item.old_path is None for item in report.items):
        return report
    from gitshadow.undo.report_context import creations_staged, moves_staged

    staged = (*moves_staged(report, ws.index), *creations_staged(report, ws.index))
    return replace(report, not_covered=(*report.not_covered, *staged))


def _settings(context: RecorderContext, params: Params) -> Config:
    """Read the settings anew: a daemon may be older than they are, and has another environment.

    Raises:
        ShadowError: one cannot be used; nothing was done yet.
    """
    given = read.text(params, "confirm")
    environ = {CONFIRM.env_name: given} if given else {}
    hooks = params.get("hook_settings")
    if isinstance(hooks, dict):
        names = (*PRE_UNDO.env_names, *POST_UNDO.env_names)
        environ |= {name: str(hooks[name]) for name in names if name in hooks}
    return read_config(context.workspace.repo, environ)


def _hooks(settings: Config) -> list[str]:
    """Return which hook commands there are; what they are is read by whoever runs them."""
    named = {"pre_undo": settings.pre_undo, "post_undo": settings.post_undo}
    return [name for name, argv in named.items() if argv]


def _op(params: Params) -> str | None:
    """Read the id that the op is to get."""
    op = read.text(params, "op")
    if op is not None and not _OP.fullmatch(op):
        raise UsageError(f"cannot use {op} as an op id")
    return op


def _choice(params: Params) -> Choice | None:
    """Read which parts of a plan are chosen: its token, and numbers by item."""
    given = params.get("choice")
    if given is None:
        return None
    taken = given.get("taken") if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(taken, dict):
        raise UsageError("cannot read which parts are selected")
    try:
        parts = {int(item): frozenset(map(int, of)) for item, of in taken.items()}
    except (TypeError, ValueError) as error:
        raise UsageError("cannot read which parts are selected") from error
    return Choice(str(given.get("of")), parts)


def _targets(context: RecorderContext, params: Params) -> tuple[Target, ...]:
    rows = params.get("targets")
    if not isinstance(rows, list):
        return ()
    found: list[Target] = []
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise UsageError("cannot read a target")
        text = row["text"]
        try:
            path = read.repo_path(context.workspace.layout, params, text)
        except UsageError:
            path = None
        found.append(Target(text, path, row.get("path_only") is True))
    return tuple(found)
