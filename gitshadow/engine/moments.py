"""Moments: what the working tree was at a time, at an event, in a pin, now.

Each commit's tree is the true state of the working tree, so a moment is the tree of the newest
commit up to it.
Invariant: a moment before the first snapshot is a UsageError, never an empty tree.
"""

from dataclasses import dataclass

from gitshadow.engine.desk import Desk
from gitshadow.errors import UsageError
from gitshadow.model import FileVersion, Oid, RepoPath
from gitshadow.store.journal import events, pins, sessions
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.refs import exact_mode


@dataclass(frozen=True, slots=True)
class Moment:
    """Hold a tree and the newest event that it contains (None: the present)."""

    tree: Oid
    seq: int | None


def moment_of(desk: Desk, at: object) -> Moment:
    """Return the moment that a parameter names.

    Args:
        desk: The worktree, settled.
        at: None or `now`: the present. A number: nanoseconds since the epoch. A text: an event's
            seq, a pin's name, or a commit of ours.

    Raises:
        UsageError: it names none, or lies before the history.
    """
    ws = desk.workspace
    if at is None or at == "now":
        return Moment(ws.recorder.tree, None)
    if isinstance(at, int):
        wanted = EventFilter(limit=1, until_ns=at, worktree=ws.layout.worktree)
        return _of_events(desk, wanted, "that time")
    text = str(at)
    if text.isdigit():
        event = events.get(ws.db, int(text))
        worktree = event.worktree if event is not None else ws.layout.worktree
        limit = EventFilter(limit=1, before_seq=int(text) + 1, worktree=worktree)
        return _of_events(desk, limit, f"event {text}")
    pin = pins.get(ws.db, text)
    if pin is not None:
        return Moment(ws.repo.commit(pin.commit).tree, None)
    raise UsageError(
        f"could not find a moment {text}",
        hint="a time, the seq of an event (git agent-undo log), or a pin",
    )


def time_of(desk: Desk, at: object) -> int | None:
    """Return the time that a parameter names: nanoseconds, or those of an event."""
    if at is None or isinstance(at, int):
        return at
    event = events.get(desk.workspace.db, int(str(at))) if str(at).isdigit() else None
    if event is None:
        raise UsageError(f"could not find a moment {at}", hint="git agent-undo log")
    return event.ts_ns


def _of_events(desk: Desk, wanted: EventFilter, what: str) -> Moment:
    ws = desk.workspace
    found = [row for row in events.rows(ws.db, wanted) if row.commit is not None]
    if not found:
        raise UsageError(
            f"could not go to {what}: the history begins later",
            hint="git agent-undo log",
        )
    commit = found[0].commit
    assert commit is not None
    return Moment(ws.repo.commit(commit).tree, found[0].seq)


def version_at(desk: Desk, path: RepoPath, moment: Moment) -> FileVersion | None:
    """Return what a path held at a moment, with its exact mode where that was recorded."""
    ws = desk.workspace
    entry = ws.repo.entry(moment.tree, path)
    if entry is None or entry[0] == 0o040000:
        return None
    before = None if moment.seq is None else moment.seq + 1
    wanted = EventFilter(
        limit=1, paths=(path,), before_seq=before, worktree=ws.layout.worktree
    )
    for event in events.rows(ws.db, wanted):
        if event.path == path and event.after and event.after.oid == entry[1]:
            return event.after
    state = ws.states.get(path)
    if state is not None and state.version.oid == entry[1]:
        return state.version
    return FileVersion(entry[1], exact_mode(entry[0], ws.recorder.modes))


def newest_commit(desk: Desk) -> Oid | None:
    """Return the newest commit of ours in this worktree."""
    found = sessions.chains(desk.workspace.db, desk.workspace.layout.worktree)
    return found[0].tip if found else None
