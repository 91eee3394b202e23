"""diff and cat: what files held at a moment."""

import base64
import shlex
from contextlib import suppress

from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.codec import UNSET
from gitshadow.messages.states import CatAnswer, CatRequest, DiffAnswer, DiffRequest
from gitshadow.model import Event, RepoPath, format_mode
from gitshadow.query.moments import moment_of, version_at
from gitshadow.query.params import typed_path, typed_paths
from gitshadow.query.resolve import Thing, find, session_of, things
from gitshadow.recording.context import RecorderContext
from gitshadow.reporting.patches import (
    Delta,
    deltas_between,
    net_deltas,
    patch_of,
    stat_rows,
)
from gitshadow.store.journal import events, pins
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.paths import any_within
from gitshadow.store.purge import is_purged
from gitshadow.store.refs import display_path
from gitshadow.undo.targets import events_of, unit_of


def cat(context: RecorderContext, request: CatRequest) -> CatAnswer:
    """Return a file's bytes at a moment, base64."""
    context.observer.settle()
    ws = context.workspace
    path = typed_path(ws.layout, request.cwd, request.path)
    moment = moment_of(context, request.at)
    found = version_at(context, path, moment)
    if found is None:
        raise UsageError(
            f"cannot find {display_path(path) or '.'} at that time",
            hint=_hint(context, path, request.at),
        )
    data = ws.repo.read_blob(found.oid)
    # A purge leaves a note in place of the content; printed as the file, it would be a lie.
    if is_purged(data):
        raise RefusedError(f"cannot show {display_path(path)}: it was purged")
    return CatAnswer(
        path=display_path(path),
        oid=found.oid,
        mode=format_mode(found.mode),
        data_base64=base64.b64encode(data).decode("ascii"),
    )


def _hint(context: RecorderContext, path: RepoPath, at: object) -> str:
    """Return how to see a file that is not there at a moment: before, if that deleted it."""
    if isinstance(at, str) and not at.endswith("^"):
        before = f"{at}^"
        with suppress(UsageError):  # a pin, or the beginning of the history
            if version_at(context, path, moment_of(context, before)) is not None:
                return f"for the moment before: --at '{before}'"
    return f"git agent-undo log -- {shlex.quote(display_path(path) or '.')}"


def diff(context: RecorderContext, request: DiffRequest) -> DiffAnswer:
    """Return the patch between two moments, or the net change of a session or of what `of` names.

    `of` is an id, a pin or a time; of the last two, and of an event, it is the change since.
    """
    context.observer.settle()
    ws = context.workspace
    paths = typed_paths(ws.layout, request.cwd, request.paths)
    deltas = [
        each
        for each in _deltas(context, request)
        if not paths or any_within((each.path,), paths)
    ]
    stat = stat_rows(ws.repo, deltas, lines=request.lines)
    if not request.patch:
        return DiffAnswer(UNSET, UNSET, stat)
    patch = patch_of(ws.repo, deltas, as_data=request.hunks)
    return DiffAnswer(patch.text, patch.file_diffs, stat)


def _deltas(context: RecorderContext, request: DiffRequest) -> list[Delta]:
    ws = context.workspace
    unit = _unit_named(context, request.of)
    if request.session is not None:
        session = session_of(ws.db, request.session)
        rows = events.changes(ws.db, EventFilter(sessions=(session.id,)))
        return net_deltas(rows[::-1])
    if unit is not None:
        mine = events_of(ws.db, ws.layout.worktree, unit_of(ws.db, unit))
        return net_deltas(mine)
    if request.of is not None:
        old, new = moment_of(context, request.of), moment_of(context, None)
    else:
        old, new = moment_of(context, request.a), moment_of(context, request.b)
    return deltas_between(ws.repo, old.tree, new.tree)


def _unit_named(context: RecorderContext, words: object) -> Thing | None:
    """Return what an id names that has changes of its own; None for a moment.

    Raises:
        UsageError: it names several things.
    """
    if not isinstance(words, str) or pins.get(context.workspace.db, words) is not None:
        return None
    if not things(context.workspace, words):
        return None
    thing = find(context.workspace, words).thing
    return None if isinstance(thing, Event) else thing
