"""Collect the lines that a tree contains or a change added, with owners, and count them.

Only a newline byte ends a line. A file that has no lines is skipped by name and never counted.
Invariant: a portion names each of its lines once, in order. The classes add up to all lines, and
the reasons of the unknown ones to the unknown lines.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.blame.classification import Credit
from gitshadow.blame.line_owners import FileOwners, Owning
from gitshadow.blame.owners import count_lines, whole
from gitshadow.errors import StoreError
from gitshadow.model import GITLINK_MODE, LINK_MODE, Actor, Oid, PathChange, RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.store.content_diff import line_hunks
from gitshadow.store.git import TreeDelta
from gitshadow.store.line_diff import is_binary
from gitshadow.store.paths import is_within

LINK = "a symbolic link"
SUBMODULE = "a submodule"
BINARY = "binary"
LONG = "it has a line of more than 64 KiB"
MISSING = "its content is missing from the object store"
# Lines that are longer are those of minified or generated files.
_LONGEST_LINE = 65_536
ModelOf = Callable[[PathChange], str | None]
"""Return the model that an event's session named last before it."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Store a file with owners, and the numbers from 1 of the lines that are meant."""

    owned: FileOwners
    lines: Sequence[int]


class Skipped(NamedTuple):
    """A file that is not counted by line, and why."""

    path: RepoPath
    why: str


Part = Portion | Skipped


class Portions:
    """Find portions in one worktree, after a barrier."""

    def __init__(self, context: RecorderContext, owning: Owning) -> None:
        self._ws = context.workspace
        self._owning = owning

    def on_disk(self, paths: Sequence[RepoPath]) -> Iterator[Part]:
        """Yield every covered file below some paths (none: all), by path."""
        for path, state in sorted(self._ws.states.all().items()):
            if not is_below(path, paths):
                continue
            why = self._why_not(state.version.mode, state.version.oid)
            yield Skipped(path, why) if why else _all_of(self._owning.on_disk(path))

    def uncommitted(self) -> Iterator[Part]:
        """Yield what the working tree has and HEAD has not, by path."""
        head = self._ws.index.head_tree()
        known = self._ws.repo.trees.flat(head) if head is not None else {}
        for path, state in sorted(self._ws.states.all().items()):
            old, oid = known.get(path), state.version.oid
            if old is not None and old[1] == oid:
                continue
            new = (state.version.mode, oid)
            change = TreeDelta(path, path, old, new)
            yield from self._added([change], None)

    def at(self, commit: Oid, paths: Sequence[RepoPath]) -> Iterator[Part]:
        """Yield every file of a commit below some paths (none: all), by path."""
        tree = self._ws.repo.commit(commit).tree
        for path, (mode, oid) in sorted(self._ws.repo.trees.flat(tree).items()):
            if not is_below(path, paths):
                continue
            why = self._why_not(mode, oid)
            if why:
                yield Skipped(path, why)
            else:
                yield _all_of(self._owning.committed(path, commit))

    def between(
        self, base: Oid | None, tip: Oid, paths: Sequence[RepoPath]
    ) -> Iterator[Part]:
        """Yield what a commit has that a base (None: the empty tree) has not."""
        for change in self._ws.git.changes(base, tip):
            if is_below(change.path, paths):
                yield from self._added([change], tip)

    def added_by(self, commit: Oid, paths: Sequence[RepoPath]) -> Iterator[Part]:
        """Yield what a commit brought: of a merge, what no parent has."""
        parents: Sequence[Oid | None] = self._ws.repo.commit(commit).parents or (None,)
        found: dict[RepoPath, list[TreeDelta]] = {}
        for parent in parents:
            for change in self._ws.git.changes(parent, commit):
                found.setdefault(change.path, []).append(change)
        for path, changes in sorted(found.items()):
            # A path that is equal to one parent came from there, and not from the merge.
            if len(changes) == len(parents) and is_below(path, paths):
                yield from self._added(changes, commit)

    def _added(self, changes: Sequence[TreeDelta], tip: Oid | None) -> Iterator[Part]:
        path, new = changes[0].path, changes[0].new
        if new is None:
            return
        why = self._why_not(*new)
        if why:
            yield Skipped(path, why)
            return
        data = self._ws.repo.read_blob(new[1])
        lines = self._new_lines(changes[0], data)
        for change in changes[1:]:
            lines &= self._new_lines(change, data)
        if lines:
            owned = (
                self._owning.on_disk(path)
                if tip is None
                else self._owning.committed(path, tip)
            )
            yield Portion(owned, sorted(lines))

    def _new_lines(self, change: TreeDelta, data: bytes) -> set[int]:
        old = b""
        if change.old is not None and change.old[0] not in (LINK_MODE, GITLINK_MODE):
            old = self._read(change.old[1]) or b""
        return {
            line
            for _, _, start, count in line_hunks(whole(old), whole(data))
            for line in range(start, start + count)
        }

    def _why_not(self, mode: int, oid: Oid) -> str | None:
        """Return why an entry is not counted by line, None where it is."""
        if mode == LINK_MODE:
            return LINK
        if mode == GITLINK_MODE:
            return SUBMODULE
        data = self._read(oid)
        return MISSING if data is None else not_by_line(data)

    def _read(self, oid: Oid) -> bytes | None:
        try:
            return self._ws.repo.read_blob(oid)
        except StoreError:
            return None


def not_by_line(data: bytes) -> str | None:
    """Return why a content is not counted by line, None where it is."""
    if is_binary(data):
        return BINARY
    if len(data) > _LONGEST_LINE and max(map(len, data.split(b"\n"))) > _LONGEST_LINE:
        return LONG
    return None


def is_below(path: RepoPath, paths: Sequence[RepoPath]) -> bool:
    """Return whether a path is one of some paths or below one of them; none means all."""
    return not paths or any(is_within(path, top) for top in paths)


def _all_of(owned: FileOwners) -> Portion:
    return Portion(owned, range(1, count_lines(owned.data) + 1))


class CountedWriter(NamedTuple):
    """An agent's session and the model it used; None if no model was named."""

    agent: str
    session: str
    model: str | None


class ClaimedAuthor(NamedTuple):
    """The author that another source claims for lines that were not recorded here."""

    source: str
    agent: str | None
    model: str | None


@dataclass(slots=True)
class Shares:
    """Count the lines of portions by owner."""

    model_of: ModelOf
    lines: int = 0
    files: int = 0
    classes: Counter[Actor] = field(default_factory=Counter)
    writers: Counter[CountedWriter] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    claimed: Counter[ClaimedAuthor] = field(default_factory=Counter)

    def add(self, portion: Portion) -> None:
        """Count a portion."""
        self.files += 1
        credits = portion.owned.credits
        # Equal lines share one credit, and hashing its fields for each line takes longer.
        found = Counter(id(credits[line - 1]) for line in portion.lines)
        by_id = {id(credit): credit for credit in credits}
        for number, lines in found.items():
            self._count(by_id[number], lines)

    def _count(self, credit: Credit, lines: int) -> None:
        self.lines += lines
        self.classes[credit.actor] += lines
        if credit.actor is Actor.AGENT:
            self.writers[self._writer(credit)] += lines
        elif credit.actor is Actor.UNKNOWN:
            self.unknown[credit.reason] += lines
        if credit.claim is not None:
            claim = credit.claim
            self.claimed[ClaimedAuthor(claim.source, claim.agent, claim.model)] += lines

    def _writer(self, credit: Credit) -> CountedWriter:
        model = self.model_of(credit.event) if credit.event is not None else None
        return CountedWriter(credit.agent or "agent", credit.session or "", model)
