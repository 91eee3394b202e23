"""diff and cat: what files held at a moment."""

import base64
import shlex

from gitshadow.api import Document, Params
from gitshadow.errors import RefusedError, UsageError
from gitshadow.model import Event, RepoPath, format_mode
from gitshadow.query import params as read
from gitshadow.query.moments import moment_of, version_at
from gitshadow.query.resolve import Thing, find, session_of, things
from gitshadow.query.rows import Row
from gitshadow.recording.context import RecorderContext
from gitshadow.reporting.patches import (
    Delta,
    deltas_between,
    line_counts,
    net_deltas,
    patch_fields,
)
from gitshadow.store.journal import events, pins
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.paths import is_within
from gitshadow.store.purge import is_purged
from gitshadow.store.refs import display_path
from gitshadow.undo.targets import events_of, unit_of


def cat(context: RecorderContext, params: Params) -> Document:
    """Return a file's bytes at a moment, base64."""
    context.observer.settle()
    ws = context.workspace
    path = read.repo_path(ws.layout, params, read.needed(params, "path"))
    moment = moment_of(context, params.get("at"))
    found = version_at(context, path, moment)
    if found is None:
        raise UsageError(
            f"cannot find {display_path(path)} at that time",
            hint=f"git agent-undo log -- {shlex.quote(display_path(path))}",
        )
    data = ws.repo.read_blob(found.oid)
    if is_purged(data):
        raise RefusedError(f"cannot show {display_path(path)}: it was purged")
    return {
        "path": display_path(path),
        "oid": found.oid,
        "mode": format_mode(found.mode),
        "data_base64": base64.b64encode(data).decode("ascii"),
    }


def diff(context: RecorderContext, params: Params) -> Document:
    """Return the patch between two moments, or the net change of a session or of what `of` names.

    `of` is an id, a pin or a time; of the last two, and of an event, it is the change since.
    With `patch` false the patch is left out, with `hunks` its files are data.
    """
    context.observer.settle()
    ws = context.workspace
    paths = read.repo_paths(ws.layout, params, "paths")
    wanted = read.text(params, "session")
    unit = _unit_named(context, params.get("of"))
    if wanted is not None:
        session = session_of(ws.db, wanted)
        rows = events.rows(ws.db, EventFilter(sessions=(session.id,)))
        deltas = net_deltas(rows[::-1])
    elif unit is not None:
        mine = events_of(ws.db, ws.layout.worktree, unit_of(ws.db, unit))
        deltas = net_deltas(mine)
    elif "of" in params:
        old = moment_of(context, params["of"])
        deltas = deltas_between(ws.repo, old.tree, moment_of(context, None).tree)
    else:
        old = moment_of(context, params.get("a"))
        new = moment_of(context, params.get("b"))
        deltas = deltas_between(ws.repo, old.tree, new.tree)
    chosen = [delta for delta in deltas if _within(delta.path, paths)]
    stat = [_stat_row(context, delta) for delta in chosen]
    if params.get("patch") is False:
        return {"stat": stat}
    as_data = params.get("hunks") is True
    return {**patch_fields(ws.repo, chosen, "patch", as_data=as_data), "stat": stat}


def _unit_named(context: RecorderContext, words: object) -> Thing | None:
    """Return what an id names that has changes of its own; None for a moment.

    Raises:
        UsageError: it names several things.
    """
    if not isinstance(words, str) or pins.get(context.workspace.db, words) is not None:
        return None
    if not things(context.workspace.db, words):
        return None
    thing = find(context.workspace.db, words).thing
    return None if isinstance(thing, Event) else thing


def _within(path: RepoPath, chosen: list[RepoPath]) -> bool:
    return not chosen or any(is_within(path, one) for one in chosen)


def _stat_row(context: RecorderContext, delta: Delta) -> Row:
    kind = "modify"
    if delta.before is None:
        kind = "create"
    elif delta.after is None:
        kind = "delete"
    elif delta.path != delta.old_path:
        kind = "rename"
    row: Row = {"path": display_path(delta.path), "kind": kind}
    if kind == "rename":
        row["old_path"] = display_path(delta.old_path)
    counts = line_counts(context.workspace.repo, delta)
    return row if counts is None else {**row, "added": counts[0], "removed": counts[1]}
