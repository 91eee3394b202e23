"""Moments: what the working tree was at a time, at an event, in a pin, now.

Each commit's tree is the true state of the working tree, so a moment is the tree of the newest
commit up to it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gitshadow.errors import UsageError
from gitshadow.model import (
    CommitEvent,
    Event,
    FileVersion,
    Gap,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.query.resolve import (
    Recorded,
    events_of_commit,
    find,
    newest_until,
    recorded_commit,
)
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import events, pins, sessions
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.refs import exact_mode
from gitshadow.undo.targets import events_of, unit_of


class Moment(NamedTuple):
    """A tree, and the newest event that it contains (None: the present)."""

    tree: Oid
    seq: int | None


def moment_of(context: RecorderContext, at: object) -> Moment:
    """Return the moment that a parameter names.

    Args:
        context: The worktree, settled.
        at: None or `now`: the present. A number: nanoseconds since the epoch. A text: a pin's
            name, a commit of ours, or any id that is printed: the moment after its last event;
            with `^` behind it, the moment before its first.

    Raises:
        UsageError: it names none, or lies before the history.
    """
    ws = context.workspace
    if at is None or at == "now":
        return Moment(ws.recorder.tree, None)
    if isinstance(at, int):
        check_begun(context, at)
        wanted = EventFilter(limit=1, until_ns=at, worktree=ws.layout.worktree)
        return _of_events(context, wanted, "that time")
    text = str(at)
    # Digits are the number of an event, even if a pin has that name.
    pin = None if text.isdigit() else pins.get(ws.db, text)
    if pin is not None:
        return Moment(ws.repo.commit(pin.commit).tree, None)
    if text.endswith("^") and len(text) > 1:
        first = _events_named(context, text[:-1])[0]
        before = EventFilter(limit=1, before_seq=first.seq, worktree=first.worktree)
        return _of_events(context, before, f"the time before {text[:-1]}")
    commit = recorded_commit(ws, text)
    if commit is not None:
        return _of_commit(context, commit)
    event = _events_named(context, text)[-1]
    limit = EventFilter(limit=1, before_seq=event.seq + 1, worktree=event.worktree)
    return _of_events(context, limit, f"event {event.seq}")


def time_of(context: RecorderContext, at: object) -> int | None:
    """Return the time that a parameter names: nanoseconds, or those of an id's last event.

    Raises:
        UsageError: it names none, or lies before the history.
    """
    if at is None:
        return None
    if not isinstance(at, int):
        named = str(at)
        if named.endswith("^") and len(named) > 1:
            return _events_named(context, named[:-1])[0].ts_ns - 1
        return _events_named(context, named)[-1].ts_ns
    check_begun(context, at)
    return at


def check_begun(context: RecorderContext, at_ns: int) -> None:
    """Refuse a time before the first recorded state.

    Raises:
        UsageError: it is, and says when the history begins.
    """
    ws = context.workspace
    begins_ns = events.begins_ns(ws.db, ws.layout.worktree)
    # An empty tree in its place would make `restore` delete every file.
    if begins_ns is None or at_ns < begins_ns:
        begin = rfc3339(begins_ns) or "with the first recorded change"
        raise UsageError(
            f"cannot go to {rfc3339(at_ns)}: the history begins later",
            hint=f"it begins {begin}; to list it: git agent-undo log --all",
        )


def _events_named(context: RecorderContext, text: str) -> Sequence[Event]:
    """Return the events of what an id names, at least one, oldest first.

    Raises:
        UsageError: it names nothing, several things, or what wrote nothing here.
    """
    ws = context.workspace
    commit = recorded_commit(ws, text)
    rows = [] if commit is None else events_of_commit(ws, commit)
    if rows:
        return rows
    thing = find(ws, text).thing
    if isinstance(thing, Event):
        return (thing,)
    mine = events_of(ws.db, ws.layout.worktree, unit_of(ws.db, thing))
    if not mine:
        raise UsageError(
            f"cannot use {text} as a time: it changed nothing here",
            hint="a time, a pin, or an id (git agent-undo log)",
        )
    return mine


def _of_commit(context: RecorderContext, commit: Recorded) -> Moment:
    """Return the moment of one of our commits; its tree is the true state at it."""
    ws = context.workspace
    rows = events_of_commit(ws, commit)
    return Moment(commit.info.tree, rows[-1].seq if rows else newest_until(ws, commit))


def _of_events(context: RecorderContext, wanted: EventFilter, what: str) -> Moment:
    ws = context.workspace
    found = [row for row in events.rows(ws.db, wanted) if not isinstance(row, Gap)]
    if not found:
        raise UsageError(
            f"cannot go to {what}: the history begins later",
            hint="git agent-undo log",
        )
    return Moment(ws.repo.commit(found[0].commit).tree, found[0].seq)


def version_at(
    context: RecorderContext, path: RepoPath, moment: Moment
) -> FileVersion | None:
    """Return what a path held at a moment, with its exact mode where that was recorded."""
    ws = context.workspace
    later = None if moment.seq is None else _next_in_commit(context, path, moment.seq)
    if later is not None:
        return later.before if path == later.path_before else None
    entry = ws.repo.trees.entry(moment.tree, path)
    if entry is None or entry[0] == 0o040000:
        return None
    before = None if moment.seq is None else moment.seq + 1
    wanted = EventFilter(
        limit=1, paths=(path,), before_seq=before, worktree=ws.layout.worktree
    )
    # Git's trees know only two modes of files; the exact permissions are in the journal. The blob
    # must be the same, because a file in a sync commit has no event of its own.
    for event in events.changes(ws.db, wanted):
        if event.path == path and event.after and event.after.oid == entry[1]:
            return event.after
    state = ws.states.get(path)
    if state is not None and state.version.oid == entry[1]:
        return state.version
    return FileVersion(entry[1], exact_mode(entry[0], ws.recorder.modes))


def _next_in_commit(
    context: RecorderContext, path: RepoPath, seq: int
) -> PathChange | None:
    """Return the next change of a path if it is in the commit of this event."""
    # A storm is one commit of many events. A moment between two of them has the tree of its end.
    ws = context.workspace
    event = events.get(ws.db, seq)
    wanted = EventFilter(
        limit=1, paths=(path,), after_seq=seq, worktree=ws.layout.worktree
    )
    for row in events.changes(ws.db, wanted):
        is_exact = path in (row.path, row.old_path)
        if is_exact and isinstance(event, CommitEvent) and row.commit == event.commit:
            return row
    return None


def newest_commit(context: RecorderContext) -> Oid | None:
    """Return the newest commit of ours in this worktree."""
    found = sessions.chains(context.workspace.db, context.workspace.layout.worktree)
    return found[0].tip if found else None
