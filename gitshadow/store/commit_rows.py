"""Commits back into rows: what one commit of a chain says happened, row by row. Pure.

Invariant: equal commits give equal rows; every row is paid for by the diff or by a path note.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import (
    GITLINK_MODE,
    Actor,
    Attribution,
    Baseline,
    CommitEvent,
    Confidence,
    EventKind,
    FileVersion,
    HeadChange,
    Oid,
    PathChange,
    RepoPath,
    git_mode,
    micro,
)
from gitshadow.store import refs
from gitshadow.store.refs import ShadowCommit
from gitshadow.store.trees import Entry, TreeChange

PLAIN_MODES = (0o644, 0o755)
BASELINE_REASON = "first snapshot of the session"
ROW_KINDS = frozenset({"write", "restore", "head", "coverage"})
_FIXED = {"restore": EventKind.RESTORE, "coverage": EventKind.COVERAGE}


@dataclass(slots=True)
class KnownModes:
    """Track the exact mode of every path of one worktree; only those that are not plain.

    Shared by all chains of the worktree: what one session chmods, the next one finds.
    """

    plain: tuple[int, int] = PLAIN_MODES
    odd: dict[RepoPath, int] = field(default_factory=dict)

    def of(self, path: RepoPath, entry: Entry) -> int:
        """Return the exact mode of what a tree holds at a path."""
        known = self.odd.get(path)
        if known is not None and git_mode(known) == entry[0]:
            return known
        return refs.exact_mode(entry[0], self.plain)

    def root(self, commit: ShadowCommit) -> None:
        """Take over a baseline: it names every path that is not plain."""
        self.plain = commit.modes or PLAIN_MODES
        self.odd = {note.path: note.mode for note in commit.paths}

    def note(self, path: RepoPath, mode: int | None) -> None:
        """Take over one path's new mode; None where it is gone."""
        plain = None if mode is None else refs.exact_mode(git_mode(mode), self.plain)
        if mode is None or mode == plain:
            self.odd.pop(path, None)
        else:
            self.odd[path] = mode


@dataclass(slots=True)
class ChainModes:
    """Track modes along one chain: its own meaning of plain, its worktree's exact modes."""

    known: KnownModes = field(default_factory=KnownModes)
    plain: tuple[int, int] = PLAIN_MODES

    def take(self, commit: ShadowCommit, changes: Iterable[TreeChange]) -> None:
        """Move on to the state after a commit."""
        if commit.kind == "baseline":
            self.plain = commit.modes or PLAIN_MODES
            self.known.root(commit)
            return
        noted = {note.path: note.mode for note in commit.paths}
        for change in changes:
            mode = change.new and refs.exact_mode(change.new[0], self.plain)
            self.known.note(change.path, noted.pop(change.path, mode))
        for path, mode in noted.items():
            self.known.note(path, mode)


class CommitContext(NamedTuple):
    """Hold what a commit's message leaves to others.

    `changes` is its diff to the parent; `entry_of` what its tree holds at a path; `modes` are
    those before it.
    """

    commit: Oid
    changes: Sequence[TreeChange]
    entry_of: Callable[[RepoPath], Entry | None]
    modes: ChainModes
    actor: Actor


class _Change(NamedTuple):
    path: RepoPath
    old_path: RepoPath | None
    before: FileVersion | None
    after: FileVersion | None


def rows_of(message: ShadowCommit, scene: CommitContext) -> list[CommitEvent]:
    """Return the rows that a commit stands for, in order of seq.

    Raises:
        StoreError: its sequence numbers do not fit its changes.
    """
    if message.seqs is None:
        return []
    first, last = message.seqs
    if message.kind == "baseline":
        return [_baseline(message, scene, first)]
    if message.kind not in ROW_KINDS:
        return []
    rows: list[CommitEvent] = []
    who = author_of(message, scene.actor)
    if message.kind == "head":
        where = (first, message.time_ns, message.worktree)
        rows.append(HeadChange(*where, who, scene.commit, message.note))
    for seq, one in enumerate(_changes(message, scene), first + len(rows)):
        change = PathChange(
            seq=seq,
            ts_ns=message.time_ns,
            worktree=message.worktree,
            kind=_kind(message, one),
            path=one.path,
            attribution=who,
            commit=scene.commit,
            old_path=one.old_path,
            before=one.before,
            after=one.after,
            burst=message.burst,
            op=message.op,
            offline="offline" in message.flags,
            switched="switched" in message.flags,
            moved_in="moved_in" in message.flags,
            inexact="inexact" in message.flags,
        )
        rows.append(change)
    if len(rows) != last - first + 1:
        raise StoreError(
            f"cannot replay commit {scene.commit}:"
            f" {len(rows)} rows do not fit {first}-{last}"
        )
    return rows


def author_of(message: ShadowCommit, actor: Actor) -> Attribution:
    """Return who wrote the rows of a commit, as the commit says."""
    return Attribution(
        actor=actor,
        session=message.session or "",
        agent=message.agent,
        turn=message.turn,
        call=message.call,
        tool=message.tool,
        confidence=message.confidence or Confidence.UNKNOWN,
        reason=message.reason or "",
        candidates=message.candidates,
    )


def _changes(message: ShadowCommit, scene: CommitContext) -> Iterator[_Change]:
    """Yield what the commit changed, by path bytes, renames as one."""
    modes = scene.modes
    notes = {note.path: note for note in message.paths}
    moved = {note.old_path for note in message.paths if note.old_path is not None}
    diff = {change.path: _covered(change) for change in scene.changes}
    for path in sorted(diff.keys() | notes.keys()):
        note, (old, new) = notes.get(path), diff.get(path, (None, None))
        if path not in diff:
            old = new = scene.entry_of(path)
        if (path in moved and new is None) or (old is None and new is None):
            continue
        source = path
        if note is not None and note.old_path is not None:
            source = note.old_path
            old = diff.get(source, (None, None))[0]
        after = new and (note.mode if note else refs.exact_mode(new[0], modes.plain))
        yield _Change(
            path=path,
            old_path=note.old_path if note else None,
            before=old and FileVersion(old[1], modes.known.of(source, old)),
            after=FileVersion(new[1], after) if new and after else None,
        )


def _covered(change: TreeChange) -> tuple[Entry | None, Entry | None]:
    """Return both sides of a change; a submodule counts as absent, it is only carried."""
    old, new = change.old, change.new
    return (
        None if old is None or old[0] == GITLINK_MODE else old,
        None if new is None or new[0] == GITLINK_MODE else new,
    )


def _kind(message: ShadowCommit, one: _Change) -> EventKind:
    if message.kind in _FIXED:
        return _FIXED[message.kind]
    if one.old_path is not None:
        return EventKind.RENAME
    if one.before is None:
        return EventKind.CREATE
    if one.after is None:
        return EventKind.DELETE
    if one.before.is_link != one.after.is_link:
        return EventKind.TYPE
    same = one.before.oid == one.after.oid
    return EventKind.MODE if same else EventKind.MODIFY


def _baseline(message: ShadowCommit, scene: CommitContext, seq: int) -> Baseline:
    who = Attribution(
        actor=scene.actor,
        session=message.session or "",
        agent=message.agent,
        confidence=Confidence.CERTAIN,
        reason=BASELINE_REASON,
    )
    return Baseline(
        seq, micro(message.time_ns), message.worktree, who, commit=scene.commit
    )
