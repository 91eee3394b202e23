"""Find the commits that a commit repeats: rebased, squashed, picked, amended, reverted twice.

A commit repeats others if facts say so and the content agrees. The facts: an equal author and
author date; HEAD's reflog; the commit that a revert names; that a branch changes the same files in
the same way. The content: the lines that a file loses and gains, in order and at the same place.
Invariant: a line is handed on only from a commit that adds it, too. No fact counts without content.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import chain, islice
from operator import or_
from typing import NamedTuple

from gitshadow.blame.git_history import GitPast
from gitshadow.blame.owners import Diff, added_numbers, kept_lines, split_lines, whole
from gitshadow.errors import StoreError
from gitshadow.model import LINK_MODE, Oid, RepoPath
from gitshadow.store.line_diff import Hunk
from gitshadow.store.object_format import OID_PATTERN
from gitshadow.store.objects import CommitInfo
from gitshadow.store.trees import TreeChange

_REVERTS = re.compile(
    rb"^This reverts commit (%b)\b" % OID_PATTERN.encode(), re.MULTILINE
)
"""What git-revert(1) writes into the message."""
_ADDED_WORDS = re.compile(
    rb"^(\(cherry picked from commit .*\)|[A-Za-z-]+: .*)$", re.MULTILINE
)
"""Lines that `cherry-pick -x`, `am -s` and hooks add to a message."""
_MOST_TIPS = 64
_MOST_LATER = 8
_MOST_PATHS = 1_000
"""A commit of more paths is not compared with others as a whole."""
_MOST_CHANGES = 256
"""So many changes of a file are kept, each with both contents."""

Merge = Callable[[bytes, bytes, bytes], bytes | None]
"""Make the change from the first content to the second one in the third; None on a conflict."""


class CommitLine(NamedTuple):
    """One line of a file in a commit, by number from 1; `base`: a commit that has not got it."""

    commit: Oid
    path: RepoPath
    line: int
    base: Oid | None = None


class _Step(NamedTuple):
    """A change that a commit may repeat: from one commit (None: nothing) to another."""

    base: Oid | None
    tip: Oid


class _Patch(NamedTuple):
    """What a change does to a file: the lines that it removes and those that it adds."""

    old: bytes
    new: bytes
    removed: Sequence[bytes]
    added: Sequence[bytes]
    numbers: Sequence[int]


class _Graph:
    """The known commits and those that they are built on; ancestors as bits of a number."""

    def __init__(self, known: Mapping[Oid, CommitInfo]) -> None:
        self._bits: dict[Oid, int] = {}
        self._oids: list[Oid] = []
        self.children: dict[Oid, list[CommitInfo]] = {}
        for one in reversed(tuple(known.values())):
            for parent in one.parents:
                self.children.setdefault(parent, []).append(one)
                if parent not in self._bits:
                    self._enter(parent, 0)
            below = (self._bits[parent] for parent in one.parents)
            self._enter(one.oid, reduce(or_, below, 0))

    def _enter(self, oid: Oid, ancestors: int) -> None:
        self._bits[oid] = ancestors | 1 << len(self._oids)
        self._oids.append(oid)

    def descends(self, commit: Oid, ancestor: Oid) -> bool:
        """Return whether a commit is another one or built on it, as far as is known."""
        # The highest bit of a commit is its own.
        own = self._bits.get(ancestor, 0).bit_length() - 1
        return own >= 0 and bool(self._bits.get(commit, 0) >> own & 1)

    def common(self, one: Oid, other: Oid) -> Oid | None:
        """Return the newest commit that two are built on, None if none is known."""
        both = self._bits.get(one, 0) & self._bits.get(other, 0)
        return self._oids[both.bit_length() - 1] if both else None


@dataclass
class RewrittenCommits:
    """Answer for the commits of one repository; remembers what it found.

    `is_recorded` returns whether recorded writes say whose the lines of a blob are.
    """

    commits: GitPast
    read: Callable[[Oid], bytes]
    diff: Diff
    merge: Merge
    is_recorded: Callable[[Oid], bool]
    _found: dict[tuple[Oid, RepoPath], Mapping[int, CommitLine]] = field(
        default_factory=dict
    )
    _patches: dict[tuple[Oid | None, Oid], _Patch | None] = field(default_factory=dict)

    def originals(
        self, commit: Oid, path: RepoPath, *names: RepoPath
    ) -> Mapping[int, CommitLine]:
        """Return, for lines that a commit added to a file, the same line in an earlier commit.

        Args:
            commit: A commit of the user's.
            path: The file.
            names: Other names of the file.

        Returns:
            By number from 1; lines that no other commit proves are missing.
        """
        key = commit, path
        if key not in self._found:
            made = self.commits.commit(commit)
            paths = tuple(dict.fromkeys((path, *names)))
            self._found[key] = {} if made is None else self._look(made, paths)
        return self._found[key]

    def added(self, commit: Oid, path: RepoPath, *names: RepoPath) -> frozenset[int]:
        """Return the numbers of the lines that a commit added to a file."""
        made = self.commits.commit(commit)
        found = made and self._patch(_step_of(made), (path, *names))[1]
        return frozenset(found.numbers) if found else frozenset()

    def _look(
        self, made: CommitInfo, paths: Sequence[RepoPath]
    ) -> Mapping[int, CommitLine]:
        mine = _step_of(made)
        _, patch = self._patch(mine, paths)
        if patch is None or not patch.added:
            return {}
        same = self._by_same_author(made)
        named = (map(_step_of, same), self._folded(made, same), self._reverted(made))
        for step in chain.from_iterable(named):
            if found := self._repeated(step, patch, paths):
                return found
        for step in self._wholes(made):
            found = self._repeated(step, patch, paths)
            if found and self._is_whole(step, mine):
                return found
        found = self._by_lines(made, same, patch, paths)
        return found or self._staged(made, patch, paths)

    @cached_property
    def _graph(self) -> _Graph:
        return _Graph(self.commits.known())

    @cached_property
    def _by_author(self) -> Mapping[tuple[bytes, int], Sequence[CommitInfo]]:
        found: dict[tuple[bytes, int], list[CommitInfo]] = {}
        for one in self.commits.known().values():
            found.setdefault((one.author, one.author_time), []).append(one)
        return found

    def _by_same_author(self, made: CommitInfo) -> list[CommitInfo]:
        """Return the older commits with the same author and author date, the likeliest first."""
        same = self._by_author.get((made.author, made.author_time), ())
        found = [one for one in same if self.commits.is_older(one, made)]
        amended = self.commits.amended(made.oid)
        before = None if amended is None else self.commits.commit(amended)
        if before is not None and before not in found:
            found.append(before)
        found.sort(key=lambda one: _words(one) != _words(made))
        return found[:_MOST_LATER]

    def _folded(self, made: CommitInfo, same: Sequence[CommitInfo]) -> Iterator[_Step]:
        """Yield the changes of several commits in a row, of which the first is an original."""
        for one in same:
            for later in self._later(one.oid):
                if self.commits.is_older(later, made):
                    yield _Step(_step_of(one).base, later.oid)

    def _later(self, commit: Oid) -> Iterator[CommitInfo]:
        """Yield the next commits on top of a known one."""
        todo = list(self._graph.children.get(commit, ()))
        for at in islice(todo, _MOST_LATER):
            yield at
            todo += self._graph.children.get(at.oid, ())

    def _reverted(self, made: CommitInfo) -> Iterator[_Step]:
        """Yield the way back from each commit that a message says is reverted."""
        for name in _REVERTS.findall(made.message):
            undone = self.commits.commit(Oid(name.decode("ascii")))
            if undone is not None and undone.parents:
                yield _Step(undone.oid, undone.parents[0])

    def _wholes(self, made: CommitInfo) -> Iterator[_Step]:
        """Yield what a commit may repeat as a whole: a branch, or another commit."""
        if len(made.parents) != 1:
            return
        graph, parent = self._graph, made.parents[0]
        beside = (
            one
            for oid in dict.fromkeys(self.commits.tips())
            if not graph.descends(made.oid, oid) and not graph.descends(oid, made.oid)
            if (one := self.commits.commit(oid)) and self.commits.is_older(one, made)
        )
        for one in islice(beside, _MOST_TIPS):
            base = graph.common(parent, one.oid)
            base = base or self.commits.merge_base(parent, one.oid)
            if base is not None:
                yield _Step(base, one.oid)
        if self.commits.is_repeated(made.oid):
            others = (
                one
                for one in self.commits.known().values()
                if not graph.descends(made.oid, one.oid)
                and self.commits.is_older(one, made)
            )
            yield from map(_step_of, islice(others, _MOST_TIPS))

    def _patch(
        self, step: _Step, paths: Sequence[RepoPath]
    ) -> tuple[RepoPath, _Patch | None]:
        """Return what a step does to a file, and the name that the file has after it."""
        blob = self.commits.blob
        there = next((one for one in paths if blob(step.tip, one)), paths[0])
        after = blob(step.tip, there)
        if after is None:
            return there, None
        before: Oid | None = None
        if step.base is not None:
            olds = (blob(step.base, one) for one in (there, *paths))
            before = next((oid for oid in olds if oid is not None), None)
        return there, self._between(before, after)

    def _between(self, before: Oid | None, after: Oid) -> _Patch | None:
        if before == after:
            return None
        key = before, after
        if key not in self._patches:
            if len(self._patches) >= _MOST_CHANGES:
                self._patches.clear()
            try:
                old = b"" if before is None else whole(self.read(before))
                new = whole(self.read(after))
            except StoreError:
                self._patches[key] = None
            else:
                self._patches[key] = _patch_of(old, new, self.diff(old, new))
        return self._patches[key]

    def _repeated(
        self, step: _Step, patch: _Patch, paths: Sequence[RepoPath]
    ) -> Mapping[int, CommitLine]:
        """Return the lines of a step if its change is the same at the same place."""
        path, theirs = self._patch(step, paths)
        if theirs is None or not self._is_repeated(theirs, patch):
            return {}
        # Beside equal lines, the same change can be shifted by the lines around it.
        if theirs.added != patch.added:
            return self._aligned(step, patch, paths)
        pairs = zip(patch.numbers, theirs.numbers, strict=True)
        return {
            here: CommitLine(step.tip, path, there, step.base) for here, there in pairs
        }

    def _is_repeated(self, theirs: _Patch, made: _Patch) -> bool:
        """Return whether a change is what Git makes of another one in other surroundings."""
        if sorted(theirs.added) != sorted(made.added):
            return False
        # The same lines may be added elsewhere; then a merge does not come to this content.
        return self.merge(theirs.old, theirs.new, made.old) == made.new

    def _is_whole(self, theirs: _Step, made: _Step) -> bool:
        """Return whether one step changes the same paths as another, and in the same way."""
        mine = self.commits.differences(*made)
        others = {one.path: one for one in self.commits.differences(*theirs)}
        if len(mine) > _MOST_PATHS or {one.path for one in mine} != others.keys():
            return False
        return all(self._is_same(others[one.path], one) for one in mine)

    def _is_same(self, theirs: TreeChange, made: TreeChange) -> bool:
        if theirs[1:] == made[1:]:
            return True
        if theirs.new is None or made.new is None:
            return theirs.new == made.new
        if LINK_MODE in (theirs.new[0], made.new[0]):
            return False
        one = self._between(theirs.old[1] if theirs.old else None, theirs.new[1])
        other = self._between(made.old[1] if made.old else None, made.new[1])
        if one is None or other is None:
            return one is other
        return self._is_repeated(one, other)

    def _by_lines(
        self,
        made: CommitInfo,
        same: Sequence[CommitInfo],
        patch: _Patch,
        paths: Sequence[RepoPath],
    ) -> Mapping[int, CommitLine]:
        """Return the lines that agree where a rewritten commit was changed by hand, too."""
        found: dict[int, CommitLine] = {}
        # What a commit is built on is seldom its original, though commits of one second have one
        # author date.
        same = [one for one in same if not self._graph.descends(made.oid, one.oid)]
        sure = len(same) == 1 and self.commits.is_repeated(made.oid)
        for one in same:
            if sure or _words(one) == _words(made):
                for step in (_step_of(one), *self._folded(made, [one])):
                    found |= self._aligned(step, patch, paths)
        return found

    def _aligned(
        self, step: _Step, patch: _Patch, paths: Sequence[RepoPath]
    ) -> dict[int, CommitLine]:
        """Return the added lines of a change that a step adds at the same place."""
        path, theirs = self._patch(step, paths)
        if theirs is None:
            return {}
        wanted, given = set(patch.numbers), set(theirs.numbers)
        kept = kept_lines(self.diff(theirs.new, patch.new), patch.new.count(b"\n"))
        return {
            new + 1: CommitLine(step.tip, path, old + 1, step.base)
            for old, new in kept
            if new + 1 in wanted and old + 1 in given
        }

    def _staged(
        self, made: CommitInfo, patch: _Patch, paths: Sequence[RepoPath]
    ) -> Mapping[int, CommitLine]:
        """Return the lines of a commit that took a part of a content that was recorded."""
        for later in self._later(made.oid):
            blob = self.commits.blob(later.oid, paths[0])
            if blob is not None and self.is_recorded(blob):
                step = _Step(_step_of(made).base, later.oid)
                found = self._aligned(step, patch, paths)
                if len(found) == len(patch.added):
                    return found
        return {}


def _patch_of(old: bytes, new: bytes, hunks: Sequence[Hunk]) -> _Patch:
    olds, news = split_lines(old), split_lines(new)
    removed = [
        line
        for start, count, _, _ in hunks
        if count
        for line in olds[start - 1 : start - 1 + count]
    ]
    numbers = list(added_numbers(hunks))
    return _Patch(old, new, removed, [news[at - 1] for at in numbers], numbers)


def _step_of(commit: CommitInfo) -> _Step:
    return _Step(commit.parents[0] if commit.parents else None, commit.oid)


def _words(commit: CommitInfo) -> bytes:
    """Return a commit's message without what Git adds to it when it is picked."""
    return b" ".join(_ADDED_WORDS.sub(b"", commit.message).split())
