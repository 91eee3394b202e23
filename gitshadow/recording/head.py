"""Moves of HEAD: what Git switched is Git's, what it overwrote is somebody's.

HEAD's reflog has each step: a commit writes no file, a checkout or a merge does. Which changes of
files they explain is worked out in `switches`.
Invariant: a move without an entry in the log is never taken for a step that is known.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from gitshadow.attribution.commits import agent_named
from gitshadow.errors import StoreError
from gitshadow.model import (
    GITLINK_MODE,
    FileVersion,
    Oid,
    RepoPath,
    git_mode,
)
from gitshadow.recording import reflog
from gitshadow.store.repo import Repo
from gitshadow.store.trees import Entry

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


class HeadMoveKind(StrEnum):
    """Say what a step of HEAD does to files.

    A commit writes none. A checkout, a merge or a rebase writes each path that differs. A reset
    may do either, and so may a move of which the steps are not known.
    """

    COMMIT = "commit"
    SWITCH = "switch"
    EITHER = "either"


class HeadMove(NamedTuple):
    """Hold where HEAD was and is: branch (None: detached) and commit (None: unborn).

    `names` is the agent that a commit names which was made since on top of the old one. `words`
    are Git's for it, None where its log does not show it. `at_s` is when Git noted it, `mark`
    how far the log is read with it. `steps` counts those that it stands for.
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
        """Tell whether HEAD names another branch now, or was told to."""
        return self.old_ref != self.new_ref or bool(_CHECKOUT.match(self.words or ""))

    @property
    def kind(self) -> HeadMoveKind:
        """Return what it does to files."""
        words = self.words
        if not words or words.startswith(_RESET):
            return HeadMoveKind.EITHER
        return HeadMoveKind.COMMIT if _COMMIT.match(words) else HeadMoveKind.SWITCH

    def describe(self) -> str:
        """Say in a sentence what moved; short ids only, since old commits may go away."""
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
    """Hold where HEAD was when it was last looked at, and how far its log was read then."""

    ref: str | None
    oid: Oid | None
    mark: str = ""


def read_moves(repo: Repo, git_dir: str, known: HeadPosition) -> tuple[HeadMove, ...]:
    """Return how HEAD moved since it was known, step by step, oldest first.

    A HEAD that cannot be read (its branch's file was lost to a crash) has not moved: writes go on
    being recorded, and Git itself says what is wrong.
    """
    try:
        ref, oid = repo.head()
    except StoreError:
        return ()
    same = (ref, oid) == (known.ref, known.oid)
    if same and (
        not known.mark or reflog.size_of(git_dir) == reflog.read_to(known.mark)
    ):
        return ()
    entries = reflog.entries_since(git_dir, known.mark, known.oid, oid)
    moves = _moves(repo, known, entries or [], ref)
    if moves or same:
        return moves
    # A ref alone may change without an entry (git-symbolic-ref): then nothing is left out.
    words = "" if entries is not None else None
    names = _named(repo, known.oid, oid)
    mark = reflog.mark_at(git_dir, oid)
    return (HeadMove(known.ref, known.oid, ref, oid, names, words, mark=mark),)


def _moves(
    repo: Repo,
    known: HeadPosition,
    entries: Sequence[reflog.ReflogEntry],
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


def _parts(entries: Sequence[reflog.ReflogEntry]) -> list[list[reflog.ReflogEntry]]:
    """Return the entries of each move: all those of one rebase are one."""
    parts: list[list[reflog.ReflogEntry]] = []
    for entry in entries:
        rebases = _REBASE.match(entry.words) and not _BEGINS.match(entry.words)
        if rebases and parts and _REBASE.match(parts[-1][-1].words):
            parts[-1].append(entry)
        else:
            parts.append([entry])
    return parts


def _ref_after(
    repo: Repo, part: Sequence[reflog.ReflogEntry], ref: str | None
) -> str | None:
    """Return the branch after a move, as Git's words for it tell."""
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
    """Return one move that stands for many."""
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
        except StoreError:  # whoever records the move says so
            return None
        found = found or agent_named(made.author, made.message)
        at = made.parents[0] if made.parents else None
    return None


def trees_of(repo: Repo, move: HeadMove) -> tuple[Oid | None, Oid | None] | None:
    """Return the trees of both ends of a move (None: unborn).

    Returns:
        None where Git has dropped the old commit (amended, expired, collected): nobody can tell
        any more what was switched.

    Raises:
        StoreError: the new commit cannot be read.
    """
    new = repo.commit(move.new).tree if move.new is not None else None
    if move.old is None:
        return None, new
    try:
        return repo.commit(move.old).tree, new
    except StoreError:
        return None


Ends = tuple[Entry | None, Entry | None]


class HeadStep(NamedTuple):
    """Hold one move with the paths that it changed: what the old commit has and the new one."""

    move: HeadMove
    changes: Mapping[RepoPath, Ends]


def steps_of(repo: Repo, moves: Sequence[HeadMove]) -> list[HeadStep]:
    """Return what each move changed; nothing for one whose ends cannot be read.

    Raises:
        StoreError: the newest commit cannot be read.
    """
    found: list[HeadStep] = []
    for move in moves:
        try:
            ends = trees_of(repo, move)
        except StoreError:
            if move is moves[-1]:
                raise
            ends = None
        changes = repo.diff(*ends) if ends is not None else ()
        found.append(HeadStep(move, {one.path: (one.old, one.new) for one in changes}))
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
        or (old is not None and is_absent(path) and repo.entry(tree, path) == old)
    }
    return repo.trees.splice(tree, carried) if carried else tree


def is_gitlink(entry: Entry | None) -> bool:
    """Tell whether a tree entry is a submodule."""
    return entry is not None and entry[0] == GITLINK_MODE


def candidates(
    steps: Sequence[HeadStep], known: Callable[[RepoPath], FileVersion | None]
) -> set[RepoPath]:
    """Return the paths that moves may have switched: what they changed and is not recorded yet.

    Args:
        steps: The moves.
        known: What was recorded last of a path.
    """
    last: dict[RepoPath, Ends] = {}
    for step in steps:
        last.update(step.changes)
    found: set[RepoPath] = set()
    for path, (old, new) in last.items():
        version = known(path)
        entry = None if version is None else (git_mode(version.mode), version.oid)
        leaf = old or new
        if entry != new and leaf is not None and leaf[0] != GITLINK_MODE:
            found.add(path)
    return found
