"""Follow moves of HEAD through its reflog, and name what Git itself changed; git-reflog(1).

The reflog has each step: a commit writes no file, a checkout or a merge does. `switches` works out
which changes of files these steps explain. How far the log was read is stored as a *mark*: the
offset where an entry ends, and which entry that is. So a move is noticed even if HEAD is back
where it was.
Invariant: nothing is written to the reflog. A move without an entry in it is never treated as a
known step.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from gitshadow.attribution.commits import agent_named
from gitshadow.errors import StoreError
from gitshadow.model import GITLINK_MODE, Oid, RepoPath, git_mode
from gitshadow.recording.workspace import Workspace
from gitshadow.store.repo import HeadLog, ReflogEntry, Repo
from gitshadow.store.trees import Ends, Entry

# Git writes such entries in pairs, by way of no commit at all (refs/files-backend.c).
_RENAMED = "Branch: renamed "
_SHORT = 10
_SHORT_COMMIT = 8
_MOST_SUBJECT = 72
_MOST_NEW = 64
"""How many commits are looked at for the agent they name; a pull brings many at once."""
_MOST_STEPS = 100
"""So many steps get a row of their own; what came before them is one move."""
# What Git writes into the log of HEAD (builtin/commit.c, builtin/checkout.c, sequencer.c).
# `commit (merge)` ends a merge, which has written files.
_COMMIT = re.compile(r"(commit(?: \((?:initial|amend)\))?): (.*)", re.DOTALL)
_CHECKOUT = re.compile(r"checkout: moving from .* to (.*)", re.DOTALL)
_REBASE = re.compile(r"rebase\b|pull\b[^:]*\([a-z]+\):")
_BEGINS = re.compile(r"[^:]*\(start\):|rebase: checkout ")
_RETURNS = re.compile(r".*: returning to (refs/\S+)")
_RESET = "reset: "


def reflog_mark(log: HeadLog, head: Oid | None) -> str:
    """Return the mark of the newest entry; empty if that entry leads to another commit."""
    # Git writes the entry of a move before it moves HEAD (refs/files-backend.c), so the newest one
    # may be of a move that is still under way.
    found = log.newest(1)
    return found[-1].mark if found and found[-1].new == head else ""


def mark_read_to(mark: str) -> int:
    """Return the size that the log had when a mark was made."""
    return int(mark.partition(":")[0]) if mark else 0


def reflog_since(
    log: HeadLog, mark: str, known: Oid | None, head: Oid | None
) -> list[ReflogEntry] | None:
    """Return the entries that led HEAD from one commit to another, oldest first.

    Args:
        log: The log of HEAD.
        mark: How far the log was read; empty where that is not known.
        known: Where HEAD was then.
        head: Where it is.

    Returns:
        None where the log does not say how (it is off, or it was expired).
    """
    found: list[ReflogEntry] | None = None
    if mark:
        found = _after_mark(log.since(mark_read_to(mark)), mark)
    if found is None:
        found = _since_commit(log.since(log.size()), known)
    found = [one for one in found if not one.words.startswith(_RENAMED)]
    return _between(found, known, head)


def _after_mark(found: Sequence[ReflogEntry], mark: str) -> list[ReflogEntry] | None:
    """Return the entries after a mark, None where the log is another one by now.

    `git gc` removes old entries, so that the marked one ends elsewhere (git-reflog(1), expire).
    """
    digest = mark.partition(":")[2]
    same = [at for at, one in enumerate(found) if one.mark == mark]
    same = same or [at for at, one in enumerate(found) if one.mark.endswith(digest)]
    return list(found[same[-1] + 1 :]) if same else None


def _since_commit(found: Sequence[ReflogEntry], known: Oid | None) -> list[ReflogEntry]:
    """Return the entries since HEAD last left a commit."""
    for at in range(len(found) - 1, -1, -1):
        if found[at].old == known != found[at].new:
            return list(found[at:])
    return []


def _between(
    found: list[ReflogEntry], known: Oid | None, head: Oid | None
) -> list[ReflogEntry] | None:
    """Return the entries from one commit to another; HEAD may be a moment behind its log."""
    starts = [at for at, one in enumerate(found) if one.old == known]
    ends = [at for at, one in enumerate(found) if one.new == head]
    if starts and ends and starts[0] <= ends[-1]:
        led = found[starts[0] : ends[-1] + 1]
        joined = all(one.new == two.old for one, two in pairwise(led))
        return led if joined else None
    return [] if known == head else None


class HeadMoveKind(StrEnum):
    """Store what a step of HEAD does to files.

    A commit writes none. A checkout, a merge or a rebase writes each path that differs. A reset
    may do either, and so may a move of which the steps are not known.
    """

    COMMIT = "commit"
    SWITCH = "switch"
    EITHER = "either"


class HeadMove(NamedTuple):
    """Store where HEAD was and is: branch (None: detached) and commit (None: unborn).

    `names` is the agent that a commit names which was made since on top of the old one. `words`
    are Git's for it, None where its log does not show it. `at_s` is when Git noted it, `mark`
    how far the log is read with it. `steps` is the number of moves that it combines.
    """

    old_ref: str | None
    old: Oid | None
    new_ref: str | None
    new: Oid | None
    names: str | None = None
    words: str | None = None
    at_s: int | None = None
    mark: str = ""
    steps: int = 1

    @property
    def is_checkout(self) -> bool:
        """Return whether HEAD names another branch now, or a checkout named one."""
        return self.old_ref != self.new_ref or bool(_CHECKOUT.match(self.words or ""))

    @property
    def kind(self) -> HeadMoveKind:
        """Return what it does to files."""
        words = self.words
        if not words or words.startswith(_RESET):
            return HeadMoveKind.EITHER
        return HeadMoveKind.COMMIT if _COMMIT.match(words) else HeadMoveKind.SWITCH

    def describe(self) -> str:
        """Return a sentence on what moved, with short ids: old commits may go away."""
        made = _COMMIT.match(self.words or "")
        if made is not None and self.new is not None and self.steps == 1:
            subject = made[2][:_MOST_SUBJECT]
            said = f'{made[1]} {self.new[:_SHORT_COMMIT]} "{subject}"'
            return said if self.names is None else f"{said} that names {self.names}"
        moved = (
            f"HEAD moved from {_place(self.old_ref, self.old)}"
            f" to {_place(self.new_ref, self.new)}"
        )
        if self.steps > 1:
            moved += f" in {self.steps} steps"
        if self.words is None:
            moved += ", in steps that its reflog does not show"
        return (
            moved
            if self.names is None
            else f"{moved}, with a commit that names {self.names}"
        )


def _place(ref: str | None, oid: Oid | None) -> str:
    name = (ref or "detached").removeprefix("refs/heads/")
    return f"{name} ({oid[:_SHORT] if oid else 'unborn'})"


class HeadPosition(NamedTuple):
    """Store where HEAD was when it was last looked at, and how far its log was read then."""

    ref: str | None
    oid: Oid | None
    mark: str = ""


def read_moves(repo: Repo, known: HeadPosition) -> tuple[HeadMove, ...]:
    """Return how HEAD moved since it was known, step by step, oldest first."""
    # A crash may lose the file of the branch. A HEAD that cannot be read has not moved, so that
    # writes are still recorded; Git itself reports the damage.
    try:
        ref, oid = repo.head()
    except StoreError:
        return ()
    same, log = (ref, oid) == (known.ref, known.oid), repo.head_log
    if same and (not known.mark or log.size() == mark_read_to(known.mark)):
        return ()
    entries = reflog_since(log, known.mark, known.oid, oid)
    moves = _moves(repo, known, entries or [], ref)
    if moves or same:
        return moves
    # A ref alone may change without an entry (git-symbolic-ref): then nothing is left out.
    words = "" if entries is not None else None
    names = _named(repo, known.oid, oid)
    mark = reflog_mark(log, oid)
    return (HeadMove(known.ref, known.oid, ref, oid, names, words, mark=mark),)


def _moves(
    repo: Repo,
    known: HeadPosition,
    entries: Sequence[ReflogEntry],
    ref: str | None,
) -> tuple[HeadMove, ...]:
    found: list[HeadMove] = []
    at = known.ref
    for part in _parts(entries):
        words, was = part[-1].words, at
        at = _ref_after(repo, part, at)
        if part[0].old == part[-1].new and at == was:
            continue
        found.append(
            HeadMove(
                was,
                part[0].old,
                at,
                part[-1].new,
                _named(repo, part[0].old, part[-1].new),
                words,
                part[-1].at_s,
                part[-1].mark,
            )
        )
    if not found:
        return ()
    found[-1] = found[-1]._replace(new_ref=ref, mark=entries[-1].mark)
    if len(found) <= _MOST_STEPS:
        return tuple(found)
    return (_folded(found[:-_MOST_STEPS]), *found[-_MOST_STEPS:])


def _parts(entries: Sequence[ReflogEntry]) -> list[list[ReflogEntry]]:
    """Return the entries of each move: all those of one rebase are one."""
    parts: list[list[ReflogEntry]] = []
    for entry in entries:
        rebases = _REBASE.match(entry.words) and not _BEGINS.match(entry.words)
        if rebases and parts and _REBASE.match(parts[-1][-1].words):
            parts[-1].append(entry)
        else:
            parts.append([entry])
    return parts


def _ref_after(repo: Repo, part: Sequence[ReflogEntry], ref: str | None) -> str | None:
    """Return the branch after a move, as Git's message for it says."""
    words = part[-1].words
    returned, moved = _RETURNS.match(words), _CHECKOUT.match(words)
    if returned is not None:
        return returned[1]
    if moved is not None:
        name = f"refs/heads/{moved[1]}"
        try:
            return name if repo.ref(name) is not None else None
        except StoreError:
            return None
    return None if _BEGINS.match(part[0].words) else ref


def _folded(moves: Sequence[HeadMove]) -> HeadMove:
    """Return one move that combines many."""
    first, last = moves[0], moves[-1]
    names = next((one.names for one in reversed(moves) if one.names), None)
    plain = all(one.kind is HeadMoveKind.COMMIT for one in moves)
    return last._replace(
        old_ref=first.old_ref,
        old=first.old,
        names=names,
        words=last.words if plain else _RESET,
        steps=len(moves),
    )


def _named(repo: Repo, old: Oid | None, new: Oid | None) -> str | None:
    """Return the agent that a new commit names, of several the newest that names one.

    New are the commits up to the old one, along first parents; none where HEAD went elsewhere.
    """
    found: str | None = None
    at = new
    for _ in range(_MOST_NEW):
        if at == old:
            return found
        if at is None:
            return None
        try:
            made = repo.commit(at)
        # The record of the move fails in the same way, and journals why.
        except StoreError:
            return None
        found = found or agent_named(made.author, made.message)
        at = made.parents[0] if made.parents else None
    return None


class HeadStep(NamedTuple):
    """Store one move with the paths that it changed: what the old commit has and the new one.

    `trees` are those of both commits (None: unborn), None where one cannot be read.
    """

    move: HeadMove
    changes: Mapping[RepoPath, Ends]
    trees: tuple[Oid | None, Oid | None] | None = None


def steps_of(repo: Repo, moves: Sequence[HeadMove]) -> list[HeadStep]:
    """Return what each move changed; nothing for one whose ends cannot be read.

    Raises:
        StoreError: the newest commit cannot be read.
    """
    found: list[HeadStep] = []
    for move in moves:
        ends = None
        try:
            new = None if move.new is None else repo.commit(move.new).tree
        except StoreError:
            if move is moves[-1]:
                raise
        else:
            # Git may have dropped the old commit (amended, expired, collected): then nobody knows
            # any more what was switched.
            with suppress(StoreError):
                ends = move.old and repo.commit(move.old).tree, new
        changes = repo.trees.diff(*ends) if ends is not None else ()
        differ = {one.path: (one.old, one.new) for one in changes}
        found.append(HeadStep(move, differ, ends))
    return found


def carry(
    repo: Repo, tree: Oid, step: HeadStep, is_absent: Callable[[RepoPath], bool]
) -> Oid:
    """Bring what a tree carries, and nobody records, to what the new HEAD has of it.

    That are submodules and what a sparse checkout leaves out.

    Args:
        repo: Where the tree is.
        tree: The newest tree.
        step: What changed between the commits.
        is_absent: Whether a path is neither on the disk nor recorded.
    """
    carried = {
        path: new
        for path, (old, new) in step.changes.items()
        if is_gitlink(old if new is None else new)
        or (old is not None and is_absent(path) and repo.trees.entry(tree, path) == old)
    }
    return repo.trees.splice(tree, carried) if carried else tree


def is_gitlink(entry: Entry | None) -> bool:
    """Return whether a tree entry is a submodule."""
    return entry is not None and entry[0] == GITLINK_MODE


class HeadFollower:
    """Read how HEAD of one worktree moves on from where it was recorded."""

    def __init__(self, workspace: Workspace) -> None:
        self._ws = workspace
        self._compared: tuple[Sequence[HeadMove], Sequence[HeadStep]] | None = None

    def moves(self) -> Sequence[HeadMove]:
        """Return how HEAD moved since it was recorded, oldest first."""
        row, log = self._ws.recorder.row, self._ws.repo.head_log
        # Git writes the log before it moves HEAD: a log that is read after HEAD could have the
        # entry of a move that HEAD did not show yet, and the mark would skip it.
        grown = log.size() != mark_read_to(row.head_mark)
        mark = reflog_mark(log, row.head) if grown else ""
        known = HeadPosition(row.head_ref, row.head, row.head_mark)
        moves = read_moves(self._ws.repo, known)
        if mark and not moves:
            self._ws.recorder.note_mark(mark)
        return moves

    def steps(self, moves: Sequence[HeadMove]) -> Sequence[HeadStep]:
        """Return what moves changed; the trees are compared once, until `forget`.

        Raises:
            StoreError: the newest commit cannot be read.
        """
        if self._compared is None or self._compared[0] != moves:
            self._compared = moves, steps_of(self._ws.repo, moves)
        return self._compared[1]

    def forget(self) -> None:
        """Forget the compared trees: those of a checkout name each file that differs."""
        self._compared = None

    def written(self, moves: Sequence[HeadMove]) -> Mapping[RepoPath, Entry]:
        """Return what Git wrote by a single move that wrote each path that differs."""
        if len(moves) != 1 or moves[0].kind is not HeadMoveKind.SWITCH:
            return {}
        try:
            changes = self.steps(moves)[0].changes
        except StoreError:  # as below
            return {}
        return {path: new for path, (_, new) in changes.items() if new is not None}

    def switched(self, moves: Sequence[HeadMove]) -> set[RepoPath]:
        """Return what moves of HEAD may have switched and is not recorded yet."""
        last: dict[RepoPath, Ends] = {}
        # The record of the move fails in the same way, and journals why.
        with suppress(StoreError):
            for step in self.steps(moves):
                last.update(step.changes)
        found: set[RepoPath] = set()
        for path, (old, new) in last.items():
            known = self._ws.states.get(path)
            held = None if known is None else known.version
            entry = None if held is None else (git_mode(held.mode), held.oid)
            if entry != new and not is_gitlink(old or new):
                found.add(path)
        return found
