"""Find what a report has to add: what undo does not cover, moves of HEAD, rules, the index.

A unit that wrote `.gitignore` or `.agent-undoignore` changed what is recorded. Its plan is made
under the rules that it restores, and what changed while it was not recorded is named. What stays
staged in the index is named with the command that unstages it.
In a submodule or nested repository, which is not recorded with this one, only file times are looked
at: a change at the time of the unit is named as that, not as the unit's.
Invariant: only reads, and follows no link.
"""

import os
import shlex
from bisect import bisect_left
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import accumulate, islice
from stat import S_ISDIR
from typing import NamedTuple

from gitshadow.capture.coverage import UNTRACKED_DATA, is_rules
from gitshadow.messages.undo import FileItem, Uncovered
from gitshadow.model import (
    Actor,
    EventKind,
    FileVersion,
    Gap,
    HeadChange,
    PathChange,
    RepoPath,
    Touch,
)
from gitshadow.recording.index import IndexView
from gitshadow.store.files import WorkFiles
from gitshadow.store.journal import events, state
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter, path_changes
from gitshadow.store.layout import discover
from gitshadow.store.refs import display_path, parse_path
from gitshadow.undo.apply import Result
from gitshadow.undo.choose import Selection, UnitWindow
from gitshadow.undo.effective import Undone
from gitshadow.undo.plan import Plan, Unrecorded, newest_seq
from gitshadow.undo.report import Action, Reason, State
from gitshadow.undo.reverse import Read
from gitshadow.undo.targets import is_undoable
from gitshadow.undo.worktree_scan import version_at
from gitshadow.words import counted

_MOST_ENTRIES = 20_000
"""So many entries of each repository are looked at: about a third of a second."""
_SHOWN = 3
_FOREVER_NS = 2**62
_MOVES_SHOWN = 20
_COMMITS = "undo does not change branches"
_ROWS_READ = 1000
_PATHS_SHOWN = 5
Rules = Mapping[RepoPath, bytes | None]
"""The contents that rule files are to have; None: the file is to be absent."""
# Restored rules may bring further rule files into the plan, in directories below them.
_RULE_ROUNDS = 4


class InnerRepository(NamedTuple):
    """A repository below a worktree; `kind` is the reason for which it is not recorded."""

    root: bytes
    path: RepoPath
    kind: str

    def holds(self, path: RepoPath) -> bool:
        """Return whether a path of the worktree is this repository or in it."""
        return path == self.path or path.startswith(self.path + b"/")

    def changed(
        self, windows: Sequence[UnitWindow], touched: Sequence[RepoPath] = ()
    ) -> Uncovered | None:
        """Return what was changed in it, and what undoes that; None for nothing.

        Args:
            windows: When the unit was at work.
            touched: Paths of the worktree in it that were noticed then: a deleted file has no time.
        """
        held = {
            path
            for path, at_ns in islice(self._times(), _MOST_ENTRIES)
            if any(one.contains(at_ns) for one in windows)
        }
        inside = {RepoPath(path[len(self.path) + 1 :]) for path in touched}
        found = sorted(held | {path for path in inside if path and not _is_gits(path)})
        if not found:
            return self._named(self._advice()) if touched else None
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        shown = ", ".join(map(display_path, found[:_SHOWN])) + more
        return self._named(f"{shown} changed then; {self._advice()}")

    def _named(self, hint: str) -> Uncovered:
        shown = display_path(self.path)
        return Uncovered(shown, self.kind, shown, hint)

    def _advice(self) -> str:
        place = os.path.join(os.fsdecode(self.root), os.fsdecode(self.path))
        layout = discover(place)
        where = f"git -C {shlex.quote(os.fsdecode(self.path))} agent-undo"
        if layout is not None and layout.initialised:
            return f"to undo it there: {where} oops"
        return f"to record it from now on: {where} init"

    def _times(self) -> Iterator[tuple[RepoPath, int]]:
        """Yield the files in it, by paths in it, with the times of their last changes."""
        todo = [b""]
        while todo:
            directory = todo.pop()
            try:
                entries = list(
                    os.scandir(os.path.join(self.root, self.path, directory))
                )
            except OSError:
                continue
            for entry in entries:
                path = os.path.join(directory, entry.name)
                if _is_gits(path):
                    continue
                try:
                    stat = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if S_ISDIR(stat.st_mode):
                    todo.append(path)
                else:
                    yield RepoPath(path), stat.st_ctime_ns


def _is_gits(path: bytes) -> bool:
    """Return whether a path in a repository, or in one below it, is Git's own."""
    # Git writes there whatever it does, also where it only looks.
    return b".git" in path.split(b"/")


def not_covered(
    db: Db,
    worktree: str,
    windows: Sequence[UnitWindow],
    inner: Sequence[InnerRepository] = (),
    reverted: Mapping[RepoPath, int] = {},
) -> tuple[Uncovered, ...]:
    """Return what was done in these windows that no undo of files reverts.

    Writes to uncovered paths, gaps in the capture, commits that the sessions made, what changed in
    inner repositories, and what they wrote in other worktrees. What nobody claims may have been
    noticed late, so it counts from the window's begin on. Writes to `reverted` paths are left out,
    from the time on that is given for each.
    """
    found: dict[tuple[str, str], Uncovered] = {}
    busy = _busy(db, worktree, windows)
    touches = [touches_of(db, worktree, window) for window in busy]
    noticed = [touch.path for touched in touches for touch in touched]
    for one in inner if windows else ():
        entry = one.changed(windows, [path for path in noticed if one.holds(path)])
        if entry is not None:
            found[entry.what, entry.why] = entry
    for window, touched in zip(busy, touches, strict=True):
        for entry in (
            *(
                _named(one)
                for one in touched
                if one.ts_ns < reverted.get(one.path, _FOREVER_NS)
                and not any(repo.holds(one.path) for repo in inner)
            ),
            *_gaps(db, worktree, window),
            *_commits(db, worktree, window),
            *_elsewhere(db, worktree, window),
        ):
            found.setdefault((entry.what, entry.why), entry)
    return tuple(one for one in found.values() if not _is_part(one, found))


def _busy(db: Db, worktree: str, windows: Sequence[UnitWindow]) -> Sequence[UnitWindow]:
    """Return the windows in which anything was noticed, and the earliest one.

    What nobody claims counts from a window's begin on, so it is all in the earliest.
    """
    if len(windows) < 2:
        return windows
    # There may be thousands of turns that did nothing.
    first = min(windows, key=lambda one: one.begin_ns)
    begin_ns = first.begin_ns
    touches = state.touches_between(db, worktree, begin_ns, _FOREVER_NS)
    noticed = [touch.ts_ns for touch in touches]
    whose = frozenset[str]().union(*(one.sessions or () for one in windows))
    if whose:
        moves = EventFilter(
            worktree=worktree,
            kinds=(EventKind.HEAD,),
            sessions=whose,
            since_ns=begin_ns,
        )
        outside = EventFilter(sessions=whose, outside=worktree, since_ns=begin_ns)
        noticed += [row.ts_ns for row in events.rows(db, moves)]
        noticed += [row.ts_ns for row in events.writes(db, outside)]
    noticed.sort()

    def is_busy(window: UnitWindow) -> bool:
        at = bisect_left(noticed, window.begin_ns)
        return window is first or (at < len(noticed) and window.contains(noticed[at]))

    return [window for window in windows if is_busy(window)]


def _is_part(one: Uncovered, found: Mapping[tuple[str, str], Uncovered]) -> bool:
    """Return whether a file of untracked data is in a directory that is listed, too."""
    if one.why != UNTRACKED_DATA:
        return False
    above = accumulate(one.what.split("/")[:-1], "{}/{}".format)
    return any((up, UNTRACKED_DATA) in found for up in above)


def not_carried(result: Result) -> tuple[Uncovered, ...]:
    """Return the attributes of files and the modes of directories that could not be set."""
    attributes = (
        Uncovered(
            f"{', '.join(names)} of {display_path(path)}",
            "it could not be set on the restored file",
            display_path(path),
        )
        for path, names in result.lost
    )
    modes = (
        Uncovered(
            f"mode {mode:04o} of {display_path(path)}",
            "it could not be set on the restored directory",
            display_path(path),
        )
        for path, mode in result.unset
    )
    return (*attributes, *modes)


def head_moves(db: Db, worktree: str) -> tuple[HeadChange, ...]:
    """Return the newest moves of HEAD, oldest first."""
    wanted = EventFilter(worktree=worktree, kinds=(EventKind.HEAD,), limit=_MOVES_SHOWN)
    rows = reversed(events.rows(db, wanted))
    return tuple(row for row in rows if isinstance(row, HeadChange))


def moves_since(moves: Iterable[HeadChange], seq: int) -> tuple[str, ...]:
    """Return how HEAD moved since an event."""
    return tuple(row.note or "HEAD moved" for row in moves if row.seq > seq)


def notes_of(
    db: Db,
    worktree: str,
    selection: Selection,
    kept: Collection[str],
    head: Iterable[HeadChange],
) -> tuple[str, ...]:
    """Return what a person should know before saying yes.

    Args:
        db: The journal.
        worktree: Its worktree.
        selection: What is undone.
        kept: The paths of the report, as displayed, that are merged with later edits.
        head: The newest moves of HEAD.
    """
    if not selection.taken:
        return selection.notes
    last = selection.taken[-1]
    wanted = EventFilter(worktree=worktree, since_ns=last.ts_ns, after_seq=last.seq)
    later = [
        row
        for row in events.writes(db, wanted)
        if is_undoable(row)
        and row.op is None
        and row.attribution.actor is not Actor.AGENT
    ]
    notes = list(selection.notes)
    paths = {display_path(row.path) for row in later}
    count = len(paths.intersection(kept))
    if count:
        notes.append(f"your later edits to {counted(count, 'file')} are kept")
    moves = moves_since(head, selection.taken[0].seq)
    if moves:
        often = " several times" if len(moves) > 1 else ""
        newest = f"{'last ' if often else ''}{moves[-1].removeprefix('HEAD moved ')}"
        notes.append(f"HEAD has moved{often} since ({newest}) and is not changed")
    return tuple(notes)


def moved_since(db: Db, worktree: str, token: str, paths: Collection[RepoPath]) -> str:
    """Return what has changed since the plan with a token was made.

    Args:
        db: The journal.
        worktree: Its worktree.
        token: What is to be applied.
        paths: What the plan of now depends on: named first.
    """
    since = newest_seq(token)
    if since is None:
        return "no plan has this token"
    wanted = EventFilter(worktree=worktree, limit=_ROWS_READ)
    found = [row for row in events.rows(db, wanted) if row.seq > since]
    rows = path_changes(events.unfolded(db, found[::-1]))[::-1]
    moved = [row for row in rows if is_undoable(row) or row.switched]
    # The files of the plan explain the refusal best; others only if there are none.
    near = [row for row in moved if {row.path, row.old_path} & set(paths)] or moved
    names = dict.fromkeys(display_path(row.path) for row in near)
    if not names:
        return "the plan is different now"
    shown = ", ".join(list(names)[:_PATHS_SHOWN])
    rest = len(names) - _PATHS_SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return f"files changed since: {shown}{more} changed since"


def touches_of(db: Db, worktree: str, window: UnitWindow) -> list[Touch]:
    """Return the writes to uncovered paths that may be those of a window."""
    found = state.touches_between(db, worktree, window.begin_ns, _FOREVER_NS)
    return [touch for touch in found if _is_of(touch, window)]


def _named(touch: Touch) -> Uncovered:
    shown = display_path(touch.path) or "."
    return Uncovered(shown, touch.why, shown)


def _is_of(touch: Touch, window: UnitWindow) -> bool:
    if touch.session is None:
        return True
    if window.call is not None and touch.call != window.call:
        return False
    if not window.contains(touch.ts_ns):
        return False
    return window.sessions is None or touch.session in window.sessions


def _gaps(db: Db, worktree: str, window: UnitWindow) -> Iterable[Uncovered]:
    wanted = EventFilter(
        worktree=worktree, kinds=(EventKind.GAP,), since_ns=window.begin_ns
    )
    for row in reversed(events.rows(db, wanted)):
        # Untracked data has its own entry for each unit that wrote there.
        if isinstance(row, Gap) and not (row.note or "").startswith(UNTRACKED_DATA):
            shown = display_path(row.path) if row.path is not None else None
            yield Uncovered(shown or "a gap in the recording", row.note or "gap", shown)


def _commits(db: Db, worktree: str, window: UnitWindow) -> Iterable[Uncovered]:
    if not window.sessions:
        return
    wanted = EventFilter(
        worktree=worktree,
        kinds=(EventKind.HEAD,),
        sessions=window.sessions,
        since_ns=window.begin_ns,
        until_ns=window.end_ns,
    )
    for row in reversed(events.rows(db, wanted)):
        if not isinstance(row, HeadChange):
            continue
        if window.call is None or row.attribution.call == window.call:
            said = row.note or "HEAD moved"
            is_commit = said.startswith("commit ")
            yield Uncovered(said if is_commit else f"commit: {said}", _COMMITS)


def _elsewhere(db: Db, worktree: str, window: UnitWindow) -> Iterable[Uncovered]:
    """Yield what the sessions wrote in other worktrees, as far as it is not undone there."""
    if not window.sessions:
        return
    wanted = EventFilter(
        sessions=window.sessions,
        since_ns=window.begin_ns,
        until_ns=window.end_ns,
        outside=worktree,
    )
    found: dict[str, list[PathChange]] = {}
    for row in events.writes(db, wanted):
        is_write = row.op is None and is_undoable(row)
        if is_write and window.call in (None, row.attribution.call):
            found.setdefault(row.worktree, []).append(row)
    for other, rows in sorted(found.items()):
        undone = Undone(db, other)
        left = [row for row in reversed(rows) if undone.by(row) is None]
        known = state.get_worktree(db, other)
        if left and known is not None:
            yield _in_worktree(display_path(RepoPath(known.path)), left)


def _in_worktree(root: str, rows: Sequence[PathChange]) -> Uncovered:
    paths = dict.fromkeys(row.path for row in rows)
    names = [display_path(path) for path in paths]
    rest = len(names) - _PATHS_SHOWN
    shown = ", ".join(names[:_PATHS_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
    bursts = " ".join(dict.fromkeys(row.burst for row in rows if row.burst is not None))
    return Uncovered(
        f"{shown} in {root}",
        f"another worktree; to undo it: git -C {shlex.quote(root)} agent-undo undo {bursts}",
    )


def restored_by(plan_under: Callable[[Rules], Plan], read: Read) -> Rules:
    """Return the contents that a plan gives to rule files, when it is made for these contents.

    Args:
        plan_under: Makes the plan for given contents of rule files.
        read: Gives recorded content.
    """
    rules: Rules = {}
    for _ in range(_RULE_ROUNDS):
        restored = _restored(plan_under(rules), read)
        if restored == rules:
            break
        rules = restored
    return rules


class Hidden(NamedTuple):
    """What a unit changed while its own rules kept it from being recorded.

    `changes` are the unit's, by all evidence, as if they had been recorded; the `others` can only
    be named.
    """

    changes: tuple[PathChange, ...] = ()
    others: tuple[Unrecorded, ...] = ()


def hidden_by(db: Db, worktree: str, selection: Selection, files: WorkFiles) -> Hidden:
    """Return the paths that were changed while the unit's rules kept them from being recorded.

    They left or entered coverage, and were touched, in the time of a unit that wrote a rule file.
    Their rows may come before that of the rule file: a watcher reports both, in any order. What
    was recorded before is the unit's change, if nobody else wrote there until now.
    """
    if not any(is_rules(row.path) for row in selection.taken):
        return Hidden()
    wanted = EventFilter(
        worktree=worktree,
        kinds=(EventKind.COVERAGE,),
        since_ns=min((window.begin_ns for window in selection.windows), default=None),
    )
    touched = {
        touch.path
        for window in selection.windows
        for touch in touches_of(db, worktree, window)
    }
    found: dict[RepoPath, Unrecorded] = {}
    changes: dict[RepoPath, PathChange] = {}
    for row in sorted(events.changes(db, wanted), key=lambda row: row.seq):
        if row.path in found or row.path in changes or row.path not in touched:
            continue
        if row.before is None:
            why = "changed before it was first recorded"
            found[row.path] = Unrecorded(row.path, Reason.NO_BASELINE, why)
        elif not _holds(files, row.path, row.before):
            change = _change_of(db, row, selection, files)
            if change is not None:
                changes[row.path] = change
                continue
            why = "changed while it was not recorded"
            found[row.path] = Unrecorded(row.path, Reason.EXCLUDED, why)
    others = tuple(found[path] for path in sorted(found))
    return Hidden(tuple(changes.values()), others)


def _change_of(
    db: Db, left: PathChange, selection: Selection, files: WorkFiles
) -> PathChange | None:
    """Return what a unit did to a path that had left coverage, None if others may have done it."""
    # A write is noticed before the row is made that says that its path is no longer recorded.
    begin_ns = min(
        (window.begin_ns for window in selection.windows), default=left.ts_ns
    )
    since = state.touches_between(db, left.worktree, begin_ns, _FOREVER_NS)
    # A touch of nobody is how a hook or a barrier met the path; who wrote last, the time says.
    touches = [touch for touch in since if touch.path == left.path and touch.session]
    own = [any(_is_of(one, window) for window in selection.windows) for one in touches]
    if not own or not all(own):
        return None
    try:
        look, now = files.look(left.path), version_at(files, left.path)
    except OSError:
        return None
    windows, at_ns = selection.windows, look and look.stat.ctime_ns
    if at_ns is not None and (
        now is None or not any(one.contains(at_ns) for one in windows)
    ):
        return None
    return left._replace(
        kind=EventKind.DELETE if now is None else EventKind.MODIFY,
        after=now,
        attribution=selection.taken[-1].attribution,
    )


def _restored(plan: Plan, read: Read) -> Rules:
    """Return the contents that a plan gives to rule files."""
    found: dict[RepoPath, bytes | None] = {}
    for path, step in plan.steps.items():
        if is_rules(path):
            oid = step.after.oid if step.after is not None else None
            found[path] = plan.made.get(oid) or read(oid) if oid is not None else None
    return found


def _holds(files: WorkFiles, path: RepoPath, version: FileVersion) -> bool:
    try:
        return version_at(files, path) == version
    except OSError:
        return False


def moves_staged(items: Sequence[FileItem], index: IndexView) -> Iterator[Uncovered]:
    """Yield the moves of a report that the index has, in the order of the items."""
    for item in items:
        if item.old_path is None or item.state != State.REVERSED:
            continue
        now, then = (RepoPath(parse_path(p)) for p in (item.path, item.old_path))
        if not _is_staged(index, then, now) or index.head_entry(now) is None:
            continue
        # undo never writes the user's index, so the command for it is all that can be given.
        words = shlex.join(sorted((item.path, item.old_path)))
        yield Uncovered(
            "the index",
            f"the rename is still staged: git restore --staged -- {words}",
            item.path,
        )


def creations_staged(
    items: Sequence[FileItem], index: IndexView
) -> Iterator[Uncovered]:
    """Yield the files that a report deleted, or would, and that the index has as new files."""
    for item in items:
        if item.action != Action.DELETE or item.state != State.REVERSED:
            continue
        path = RepoPath(parse_path(item.path))
        if path in index.paths() and index.head_entry(path) is None:
            yield Uncovered(
                "the index",
                f"{item.path} is still staged: git restore --staged -- {shlex.quote(item.path)}",
                item.path,
            )


def _is_staged(index: IndexView, has: RepoPath, has_not: RepoPath) -> bool:
    paths = index.paths()
    return has in paths and has_not not in paths
