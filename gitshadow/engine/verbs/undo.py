"""oops, undo, redo, restore: one request, one report."""

from gitshadow.config import CONFIRM
from gitshadow.engine import params as read
from gitshadow.engine.desk import Desk
from gitshadow.engine.moments import time_of
from gitshadow.engine.undoing import UndoEngine
from gitshadow.engine.verbs import Document, Params
from gitshadow.engine.workspace import read_config
from gitshadow.errors import UsageError
from gitshadow.model import OpKind
from gitshadow.undo import run as undo_run
from gitshadow.undo.port import Request
from gitshadow.undo.reverse import OnConflict
from gitshadow.undo.targets import Target


def undo(desk: Desk, params: Params) -> Document:
    """Plan an undo, and apply it where the parameters say so."""
    ws = desk.workspace
    engine = UndoEngine(desk, read.text(params, "runner"))
    kind = read.text(params, "verb") or "undo"
    if kind not in list(OpKind):
        raise UsageError(f"could not undo: {kind} is no such verb")
    request = Request(
        kind=OpKind(kind),
        targets=_targets(desk, params),
        only=tuple(read.repo_paths(ws.layout, params, "only")),
        leave=tuple(read.repo_paths(ws.layout, params, "except")),
        on_conflict=OnConflict(read.text(params, "on_conflict") or "skip"),
        include_low=read.flag(params, "include_low"),
        at_ns=time_of(desk, params.get("at")),
        pin=read.text(params, "pin"),
        apply=read.flag(params, "yes") and not read.flag(params, "dry_run"),
        token=read.text(params, "token"),
    )
    report = undo_run.run(engine, request)
    document = dict(report.to_json())
    document["confirm"] = _confirm(desk, params)
    return document


def _confirm(desk: Desk, params: Params) -> bool:
    """Read the setting anew: a daemon may be older than it, and has another environment."""
    given = read.text(params, "confirm")
    environ = {CONFIRM.env_name: given} if given else {}
    return read_config(desk.workspace.repo, environ).confirm


def _targets(desk: Desk, params: Params) -> tuple[Target, ...]:
    rows = params.get("targets")
    if not isinstance(rows, list):
        return ()
    found: list[Target] = []
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise UsageError("could not read a target")
        text = row["text"]
        try:
            path = read.repo_path(desk.workspace.layout, params, text)
        except UsageError:
            path = None
        found.append(Target(text, path, row.get("path_only") is True))
    return tuple(found)
