"""Moments: which state each path is to have again for `restore`.

Invariant: a path that came later is only to go where agents alone wrote it since it came, and it
still is what they left.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gitshadow.errors import UsageError
from gitshadow.model import (
    GITLINK_MODE,
    EventKind,
    FileState,
    FileVersion,
    Oid,
    PathChange,
    RepoPath,
    paths_of,
)
from gitshadow.store.journal import events
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.refs import exact_mode
from gitshadow.store.repo import Repo
from gitshadow.undo.lineage import Lineage, before_of, trace
from gitshadow.undo.plan import PathFilter, WantedState
from gitshadow.undo.report import Reason
from gitshadow.undo.targets import is_agents


class PinSnapshot(NamedTuple):
    """A pin: its tree, the exact modes that the tree does not have, and its time.

    `plain` are the permissions that 100644 and 100755 stand for.
    """

    tree: Oid
    ts_ns: int
    modes: Mapping[RepoPath, int]
    plain: tuple[int, int]


class RestorePoint(NamedTuple):
    """What paths are to be again, and the newest event that decides it."""

    wanted: Mapping[RepoPath, WantedState]
    newest_seq: int


def at_time(db: Db, worktree: str, moment_ns: int, paths: PathFilter) -> RestorePoint:
    """Return the state at a moment of every path that was written since."""
    rows = events.changes(db, EventFilter(worktree=worktree, since_ns=moment_ns + 1))
    wanted: dict[RepoPath, WantedState] = {}
    for path, history in _by_path(reversed(rows)).items():
        if not paths.takes((path,)):
            continue
        first = history[0]
        # The file existed before, but nobody recorded it: its content at that time is unknown.
        if first.kind is EventKind.COVERAGE:
            if len(history) > 1:
                wanted[path] = WantedState(None, reason=Reason.NO_BASELINE)
            continue
        wanted[path] = WantedState(
            _before(first, path), _is_agents(history, path), _whose(history)
        )
    newest = max((row.seq for row in rows), default=0)
    return RestorePoint(wanted, newest)


def before_agent(
    db: Db,
    worktree: str,
    paths: Mapping[RepoPath, str],
    is_missing: Callable[[RepoPath], bool],
) -> RestorePoint:
    """Return the state of files before the newest write of an agent to each.

    What is missing gets its last recorded state, whoever deleted it.

    Args:
        db: The journal.
        worktree: Its worktree.
        paths: Files and directories, as they were typed.
        is_missing: Whether nothing is at a path.

    Raises:
        UsageError: one was never recorded, or is there and no agent wrote it.
    """
    wanted: dict[RepoPath, WantedState] = {}
    newest = 0
    for path, typed in paths.items():
        history = events.history(db, worktree, _recorded(db, worktree, path), 0)
        missing = is_missing(path)
        if missing and not history:
            raise UsageError(
                f"cannot restore {typed}: it was never recorded",
                hint="to list recorded paths: git agent-undo log",
            )
        found = _want_last(history, path, wanted) if missing else 0
        for lineage in [] if found else trace(history):
            event = _newest_of_agent(lineage)
            if event is None or not PathFilter((path,)).takes((lineage.path,)):
                continue
            found = max(found, lineage.events[-1].seq)
            _want_before(event, lineage, wanted)
        if not found:
            raise UsageError(
                f"cannot restore {typed}: no agent has written it",
                hint="give a time: git agent-undo restore PATH --at '10 minutes ago'",
            )
        newest = max(newest, found)
    return RestorePoint(wanted, newest)


def _want_last(
    history: Sequence[PathChange], path: RepoPath, wanted: dict[RepoPath, WantedState]
) -> int:
    """Want what was deleted last at a path; return the newest event, 0 where there is none.

    Of a directory these are the files that went with the last one: others were deleted before.
    """
    gone: dict[RepoPath, PathChange] = {}
    for row in history:
        for end in (row.old_path, row.path):
            if end is not None and PathFilter((path,)).takes((end,)):
                # Only the last deletion counts, and only if nothing was created there since.
                gone.pop(end, None)
                is_left = end == row.old_path or row.after is None
                if is_left and row.before is not None:
                    gone[end] = row
    last = max(gone.values(), key=lambda row: row.seq, default=None)
    if last is None:
        return 0
    for end, row in gone.items():
        if row.burst == last.burst and (row.burst or row.commit == last.commit):
            wanted[end] = WantedState(row.before)
    return last.seq


def at_snapshot(
    db: Db,
    worktree: str,
    repo: Repo,
    pin: PinSnapshot,
    now: tuple[Oid, Mapping[RepoPath, FileState]],
) -> RestorePoint:
    """Return the state in a pin of every path that differs from it.

    Args:
        db: The journal.
        worktree: Its worktree.
        repo: Its object store.
        pin: The snapshot.
        now: The tree of the working tree as recorded, and the state of every covered path.
    """
    tree, states = now
    goals: dict[RepoPath, FileVersion | None] = {}
    for change in repo.trees.diff(tree, pin.tree):
        # A submodule is another repository; its commits are not in our object store.
        if GITLINK_MODE in (change.old and change.old[0], change.new and change.new[0]):
            continue
        goals[change.path] = change.new and _exact(pin, change.path, change.new)
    for path, state in states.items():
        if path in goals:
            continue
        # Trees know two permissions only, so files that differ in other bits are equal in `diff`.
        entry = repo.trees.entry(pin.tree, path) if _differs(pin, path, state) else None
        if entry is not None:
            goals[path] = _exact(pin, path, entry)
    came = [path for path, goal in goals.items() if goal is None]
    history = _by_path(events.history(db, worktree, came, 0)) if came else {}
    wanted = {
        path: WantedState(
            goal, goal is None and _is_agents(history.get(path, []), path)
        )
        for path, goal in goals.items()
    }
    newest = max((row.seq for rows in history.values() for row in rows), default=0)
    return RestorePoint(wanted, newest)


def _exact(pin: PinSnapshot, path: RepoPath, entry: tuple[int, Oid]) -> FileVersion:
    mode = pin.modes.get(path)
    return FileVersion(
        entry[1], exact_mode(entry[0], pin.plain) if mode is None else mode
    )


def _differs(pin: PinSnapshot, path: RepoPath, state: FileState) -> bool:
    """Return whether a path has another exact mode than in a pin whose tree has the same."""
    mode = state.version.mode
    then = pin.modes.get(path)
    if then is not None:
        return then != mode
    return not state.version.is_link and mode & 0o7777 not in pin.plain


def _by_path(rows: Iterable[PathChange]) -> dict[RepoPath, list[PathChange]]:
    """Return the events of each path, at either end of a rename, in their order."""
    found: dict[RepoPath, list[PathChange]] = {}
    for row in rows:
        for path in (row.old_path, row.path):
            if path is not None:
                found.setdefault(path, []).append(row)
    return found


def _before(row: PathChange, path: RepoPath) -> FileVersion | None:
    """Return what stood at a path before an event that has it at one of its ends."""
    if row.old_path is not None and row.path == path:
        return None
    return row.before


def is_provable(row: PathChange) -> bool:
    """Return whether a write was surely an agent's, or one of an op of ours."""
    return _is_sure(row) or row.op is not None


def _has_made(row: PathChange) -> bool:
    """Return whether an agent, or an op of ours, made what a write left."""
    return is_provable(row) and not row.moved_in


def _is_agents(history: Sequence[PathChange], path: RepoPath) -> bool:
    """Return whether a path came by an agent and only agents, or ops of ours, wrote it since."""
    came = 0
    for number, row in enumerate(history):
        gone = row.old_path == path or row.after is None
        absent = _before(row, path) is None and not gone
        came = number if absent else came
    mine = history[came:]
    return bool(mine) and all(_has_made(row) for row in mine)


def _is_sure(row: PathChange) -> bool:
    moved = row.switched or row.kind is EventKind.COVERAGE
    return is_agents(row) and not moved


def _whose(history: Sequence[PathChange]) -> str:
    return history[-1].attribution.session


def _newest_of_agent(lineage: Lineage) -> PathChange | None:
    mine = [row for row in lineage.events if row.op is None and _is_sure(row)]
    return mine[-1] if mine else None


def _want_before(
    event: PathChange, lineage: Lineage, wanted: dict[RepoPath, WantedState]
) -> None:
    """Want the state before an event; a file that was moved since is moved back too."""
    was = before_of(event)
    whose = event.attribution.session
    later = [row for row in lineage.events if row.seq >= event.seq]
    mine = all(_has_made(row) for row in later)
    if was.path != lineage.path:
        wanted[lineage.path] = WantedState(None, mine, whose)
    wanted[was.path] = WantedState(was.version, mine, whose)


def _recorded(db: Db, worktree: str, path: RepoPath) -> set[RepoPath]:
    rows = events.changes(db, EventFilter(worktree=worktree, paths=(path,)))
    return {end for end in paths_of(rows) if PathFilter((path,)).takes((end,))}
