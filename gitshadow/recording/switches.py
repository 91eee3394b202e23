"""Find the changes that Git made itself when HEAD moved.

For each path the steps of HEAD are followed from what was recorded to what is on the disk. What
was committed is an ordinary write before that commit, whether it is still there or was never seen.
Invariant: a path counts as switched only by a step of Git that changed it. If Git overwrote what
was not committed, that is an ordinary write.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from gitshadow.capture.drafts import BatchTime, Draft, Seen, draft_changes, draft_of
from gitshadow.errors import StoreError
from gitshadow.model import FileState, FileVersion, Oid, RepoPath, StatKey, git_mode
from gitshadow.recording.head import HeadMove, HeadMoveKind, HeadStep, is_gitlink
from gitshadow.store.git_index import Staged
from gitshadow.store.paths import parents
from gitshadow.store.refs import exact_mode
from gitshadow.store.trees import Entry

_SECOND_NS = 1_000_000_000
_NOWHERE: Entry = (0, Oid(""))


class SwitchStage(NamedTuple):
    """Store one move, what somebody wrote and committed before it, and what Git switched by it.

    `trees` are those of HEAD before and after, if Git switched all that differs between them.
    """

    move: HeadMove
    written: Sequence[Draft]
    switched: Sequence[Draft]
    trees: tuple[Oid, Oid] | None = None


@dataclass(frozen=True, kw_only=True)
class Witness:
    """Store whom to ask about contents that Git may have converted.

    `data_of` gives a blob. `staged` gives the index entries of paths, `converted` those of some
    paths that have a filter; `quiet` is whether nobody has written a path since Git did. A
    racy index entry is believed where `ordered`: stamps of files never repeat.
    """

    data_of: Callable[[Oid], bytes]
    staged: Callable[[Collection[RepoPath]], Mapping[RepoPath, Staged]]
    converted: Callable[[Collection[RepoPath]], Collection[RepoPath]]
    quiet: Callable[[RepoPath], bool]
    ordered: bool = True
    modes: tuple[int, int] = (0o644, 0o755)


class _Change(NamedTuple):
    """Store what one move did to a path."""

    at: int
    kind: HeadMoveKind
    old: Entry | None
    new: Entry | None


class _Part(NamedTuple):
    """Store what a path came to hold by a move: Git wrote it, or somebody who committed it."""

    at: int
    kind: HeadMoveKind
    entry: Entry | None


def split_switched(
    seen: Sequence[Seen], steps: Sequence[HeadStep], moment: BatchTime, witness: Witness
) -> tuple[list[SwitchStage], list[Seen]]:
    """Split what was seen into the moves of HEAD, oldest first, and what is left to explain."""
    return _Splitter(seen, steps, moment, witness).split()


@dataclass
class _Splitter:
    seen: Sequence[Seen]
    steps: Sequence[HeadStep]
    moment: BatchTime
    witness: Witness
    _written: dict[int, list[Draft]] = field(default_factory=dict)
    _switched: dict[int, list[Draft]] = field(default_factory=dict)
    _rest: list[Seen] = field(default_factory=list)

    def split(self) -> tuple[list[SwitchStage], list[Seen]]:
        """Return the stages and the rest."""
        self._place_plain()
        trails = {
            one.path: trail
            for one in self.seen
            if self._changes.get(one.path) and (trail := self._trail(one))
        }
        whole = {path for path, trail in trails.items() if self._is_whole(path, trail)}
        while barred := self._barred(trails.keys(), whole):
            whole -= barred
            trails = {path: one for path, one in trails.items() if path not in barred}
        for one in self.seen:
            self._place(one, trails.get(one.path, ()), one.path in whole)
        self._place_committed()
        stages: list[SwitchStage] = []
        for at, step in enumerate(self.steps):
            switched = self._switched.get(at, ())
            trees = _whole_trees(step, switched)
            stages.append(
                SwitchStage(step.move, self._written.get(at, ()), switched, trees)
            )
        return stages, self._rest

    def _place_plain(self) -> None:
        """Place what one step of Git explains byte for byte, and leave only the others in `seen`.

        That is nearly all of a checkout. It needs no trail, unless something that was removed, or
        only nearly fits, is above or below another path.
        """
        if len(self.steps) != 1 or self.steps[0].move.kind is HeadMoveKind.COMMIT:
            return
        changes = self.steps[0].changes
        plain: list[Seen] = []
        others: list[Seen] = []
        for one in self.seen:
            ends = changes.get(one.path)
            fits = ends is not None and tuple(map(_equals, ends, _versions(one)))
            (plain if fits == (True, True) else others).append(one)
        if any(one.after is None or one.path in changes for one in others):
            return
        self.seen = others
        drafts = (draft_of(one, self.moment) for one in plain)
        self._switched[0] = [draft for draft in drafts if draft is not None]

    def _place_committed(self) -> None:
        """Place what is on the disk as it was committed before the commit, or it would seem later.

        A report would then say nothing of a commit that was made since.
        """
        found: dict[int, list[Seen]] = {}
        rest: list[Seen] = []
        for one in self._rest:
            at = self._committed_at(one)
            (rest if at is None else found.setdefault(at, [])).append(one)
        for at, committed in found.items():
            drafts = draft_changes(committed, self.moment)
            self._written.setdefault(at, []).extend(drafts)
        self._rest = rest

    def _committed_at(self, one: Seen) -> int | None:
        """Return the move that committed what is on the disk; None if no order is known."""
        changes = self._changes.get(one.path)
        # Above or below another path, only all of them together can be recorded.
        if not changes or one.path in self._nested:
            return None
        last, after = changes[-1], _versions(one)[1]
        is_commit = last.kind is HeadMoveKind.COMMIT
        return last.at if is_commit and _equals(last.new, after) else None

    @cached_property
    def _changes(self) -> dict[RepoPath, list[_Change]]:
        """Return what the moves did to each path that was seen."""
        found: dict[RepoPath, list[_Change]] = {one.path: [] for one in self.seen}
        for at, (move, changes, _) in enumerate(self.steps):
            for path in found.keys() & changes.keys():
                found[path].append(_Change(at, move.kind, *changes[path]))
        return found

    def _trail(self, one: Seen) -> list[_Part]:
        """Return what a path came to hold, up to what Git wrote last; empty: nothing."""
        changes, (before, after) = self._changes[one.path], _versions(one)
        if any(is_gitlink(end) for one in changes for end in (one.old, one.new)):
            return []
        if one.path in self._proven:
            return self._converted(one.path, changes)
        ends = [changes[0].old, *(change.new for change in changes)]
        # Of equal texts, what is the same byte for byte says more, and no blob has to be read.
        fitting = [at for at, end in enumerate(ends) if _equals(end, before)]
        fitting = fitting or [
            at for at, end in enumerate(ends) if self._is(end, before)
        ]
        trail: list[_Part] = []
        base: tuple[Entry | None, ...] = ()
        if fitting:
            start, base = fitting[-1], (ends[fitting[-1]],)
            if fitting[1:] and start == len(changes) and self._is_anew(before, after):
                start, base = fitting[-2], ()
        else:
            commits = [
                at for at, one in enumerate(changes) if one.kind is HeadMoveKind.COMMIT
            ]
            if not commits and before is None:
                return self._brought_back(one, changes[-1])
            if not commits:
                return self._converted_away(one.path, changes, after)
            start = commits[0] + 1
            trail = [_Part(changes[commits[0]].at, HeadMoveKind.COMMIT, ends[start])]
        for at in range(start, len(changes)):
            change = changes[at]
            if change.kind is HeadMoveKind.COMMIT or self._writes(changes, at, after):
                _go_on(trail, base, change)
        while trail and trail[-1].kind is HeadMoveKind.COMMIT:
            trail.pop()
        runs = (list(run) for _, run in groupby(trail, lambda part: part.kind))
        return [run[-1] for run in runs]

    def _is_anew(self, before: FileVersion | None, after: FileVersion | None) -> bool:
        """Whether Git wrote a file again: it has the mode that Git gives to files, and had not."""
        if before is None or after is None or before.mode == after.mode:
            return False
        return after.mode & 0o777 in self.witness.modes

    def _writes(
        self, changes: Sequence[_Change], at: int, after: FileVersion | None
    ) -> bool:
        """Whether Git wrote a path by a move that is no commit."""
        if changes[at].kind is HeadMoveKind.SWITCH:
            return True
        # Git refuses to switch a path with uncommitted changes, so what comes next shows whether
        # this move has written it.
        if at + 1 < len(changes):
            return changes[at + 1].kind is not HeadMoveKind.COMMIT
        return self._is(changes[at].new, after)

    def _converted(self, path: RepoPath, changes: Sequence[_Change]) -> list[_Part]:
        """Return what became of a path that Git's index says is as committed, converted."""
        # Git refuses to switch what is not committed, unless it is forced to; a reset always is.
        trail: list[_Part] = []
        for change in changes:
            _go_on(trail, (changes[0].old,), change)
        at = trail[-1].at if trail else changes[-1].at
        kind = next(change.kind for change in changes if change.at == at)
        if kind is HeadMoveKind.COMMIT:
            return []
        if kind is HeadMoveKind.EITHER and not self.witness.quiet(path):
            return []
        return [_Part(at, HeadMoveKind.SWITCH, changes[-1].new)]

    def _converted_away(
        self, path: RepoPath, changes: Sequence[_Change], after: FileVersion | None
    ) -> list[_Part]:
        """Return the removal of a path that was converted: its bytes are like no blob."""
        last = changes[-1]
        if (
            after is not None
            or last.new is not None
            or last.kind is not HeadMoveKind.SWITCH
        ):
            return []
        if not self.witness.converted((path,)):
            return []
        return [_Part(last.at, HeadMoveKind.SWITCH, None)]

    def _brought_back(self, one: Seen, last: _Change) -> list[_Part]:
        """Return that Git wrote a file that somebody had removed without a commit."""
        # An uncommitted removal does not stop a switch. The index says that the file on the disk is
        # that of the new branch.
        entry, state = last.new, one.after
        if entry is None or state is None or last.kind is not HeadMoveKind.SWITCH:
            return []
        staged = self.witness.staged([one.path]).get(one.path)
        if staged is None or not self._is_staged(staged, entry, state):
            return []
        return [_Part(last.at, HeadMoveKind.SWITCH, entry)]

    @cached_property
    def _proven(self) -> set[RepoPath]:
        """Return the paths that are as committed by Git's index alone, whatever their bytes."""
        doubtful = {
            one.path: (last.new, one.after)
            for one in self.seen
            for last in self._changes[one.path][-1:]
            if one.after is not None
            and last.new is not None
            and not self._is(last.new, one.after.version)
        }
        if not doubtful:
            return set()
        staged = self.witness.staged(doubtful.keys())
        return {
            path
            for path, (entry, state) in doubtful.items()
            if path in staged and self._is_staged(staged[path], entry, state)
        }

    def _is_staged(self, staged: Staged, entry: Entry, state: FileState) -> bool:
        """Whether an index entry is a commit's, and a file is as Git wrote it then."""
        same = (
            (staged.mode, staged.oid)
            == entry
            == (git_mode(state.version.mode), entry[1])
        )
        return (
            same
            and staged.is_of(state.stat)
            and (self.witness.ordered or not staged.racy)
        )

    def _is_whole(self, path: RepoPath, trail: Sequence[_Part]) -> bool:
        """Return whether one step of Git explains all of a path."""
        # A file that is above or below another path is taken as a whole: between the parts of both,
        # a path would be a file and a directory at once.
        return (len(trail) == 1 and self._arrives(path, trail)) or path in self._nested

    @cached_property
    def _nested(self) -> set[RepoPath]:
        paths = {one.path for one in self.seen}
        above = {up for path in paths for up in parents(path)}
        under = {path for path in paths if not paths.isdisjoint(parents(path))}
        return (paths & above) | under

    @cached_property
    def _afters(self) -> dict[RepoPath, FileVersion | None]:
        return {one.path: _versions(one)[1] for one in self.seen}

    def _arrives(self, path: RepoPath, trail: Sequence[_Part]) -> bool:
        """Whether what Git wrote last is what is there."""
        if path in self._proven:
            return True
        return self._is(trail[-1].entry, self._afters[path])

    def _barred(
        self, trails: Collection[RepoPath], whole: Collection[RepoPath]
    ) -> set[RepoPath]:
        """Return which of Git's paths need room that one of the others makes."""
        # A move is recorded before what is left. If the tree still had a directory where the move
        # has a file, the commit of the move would remove files that are not among its changes.
        left = {
            path
            for path, after in self._afters.items()
            if after is None and path not in whole
        }
        above = {up for path in left for up in parents(path)}
        return {
            path
            for path in trails
            if left
            and self._afters[path] is not None
            and (path in above or not left.isdisjoint(parents(path)))
        }

    def _place(self, one: Seen, trail: Sequence[_Part], whole: bool) -> None:
        """Add a path's drafts to their moves, and what came after them to the rest."""
        arrives = bool(trail) and self._arrives(one.path, trail)
        if not trail or (whole and not arrives):
            self._rest.append(one)
            return
        if whole:
            at = len(self.steps) - 1 if one.path in self._nested else trail[-1].at
            draft = draft_of(one, self.moment)
            if draft is not None:
                self._switched.setdefault(at, []).append(draft)
            return
        try:
            states = [self._state(part, one) for part in trail]
        # What was committed may be gone by now (a rebase and `git gc`).
        except StoreError:
            self._rest.append(one)
            return
        if arrives:
            states[-1] = one.after
        was = one.before
        for part, state in zip(trail, states, strict=True):
            made = self._written if part.kind is HeadMoveKind.COMMIT else self._switched
            made.setdefault(part.at, []).extend(self._draft(one.path, was, state, part))
            was = state
        if not arrives:
            self._rest.append(Seen(one.path, was, one.after))

    def _draft(
        self,
        path: RepoPath,
        before: FileState | None,
        after: FileState | None,
        part: _Part,
    ) -> Iterator[Draft]:
        known_ns = max(self.moment.settled_ns, before.seen_ns if before else 0)
        at_ns = self._at_ns(part)
        if at_ns <= known_ns:
            # Git's log says when the committer's clock, or GIT_COMMITTER_DATE, had it. It cannot
            # be right, so all that is known is that it happened before it was noticed.
            at_ns = max(known_ns + 1, self.moment.noticed_ns)
        moment = self.moment._replace(noticed_ns=at_ns, ctime_of=lambda _: None)
        for draft in draft_changes([Seen(path, before, after)], moment):
            yield draft._replace(exact=False)

    def _at_ns(self, part: _Part) -> int:
        """Return by when Git was at a move, by the second that its log has for it."""
        at_s = self.steps[part.at].move.at_s
        if at_s is None:
            return self.moment.noticed_ns
        return min(self.moment.noticed_ns, (at_s + 1) * _SECOND_NS - 1)

    def _state(self, part: _Part, one: Seen) -> FileState | None:
        """Return the state that a commit contains, marked so that the next look reads the file."""
        if part.entry is None:
            return None
        mode, oid = part.entry
        version = FileVersion(oid, exact_mode(mode, self.witness.modes))
        return FileState(version, StatKey(0, 0, 0, 0), self._at_ns(part), racy=True)

    def _is(self, entry: Entry | None, version: FileVersion | None) -> bool:
        if entry is None or version is None or entry[1] == version.oid:
            return _equals(entry, version)
        if entry[0] != git_mode(version.mode):
            return False
        return self._same_text(entry[1], version.oid)

    def _same_text(self, committed: Oid, disk: Oid) -> bool:
        """Return whether two blobs differ in line ends only."""
        # A checkout may convert them: gitattributes(5), `eol`.
        try:
            text = self.witness.data_of(disk)
            return b"\r\n" in text and text.replace(
                b"\r\n", b"\n"
            ) == self.witness.data_of(committed)
        # A partial clone may not have the blob.
        except StoreError:
            return False


def _whole_trees(step: HeadStep, switched: Sequence[Draft]) -> tuple[Oid, Oid] | None:
    """Return the trees of both ends of a step if Git switched all that differs between them."""
    old, new = step.trees or (None, None)
    if old is None or new is None or len(switched) > len(step.changes):
        return None
    left = {
        path: leaf[1]
        for path, leaf in step.changes.items()
        if not (is_gitlink(leaf[0]) or is_gitlink(leaf[1]))
    }
    for draft in switched:
        after = draft.after.version if draft.after is not None else None
        entry = None if after is None else (git_mode(after.mode), after.oid)
        if left.pop(draft.path, _NOWHERE) != entry:
            return None
    return None if left else (old, new)


def _equals(entry: Entry | None, version: FileVersion | None) -> bool:
    if entry is None or version is None:
        return entry is None and version is None
    return entry[1] == version.oid and entry[0] == git_mode(version.mode)


def _go_on(trail: list[_Part], base: Sequence[Entry | None], change: _Change) -> None:
    """Go one step on; there and back again counts as nothing."""
    if change.new in base:
        trail.clear()
        return
    held = [part.entry for part in trail]
    if change.new in held:
        del trail[held.index(change.new) + 1 :]
        return
    kind = (
        HeadMoveKind.COMMIT
        if change.kind is HeadMoveKind.COMMIT
        else HeadMoveKind.SWITCH
    )
    trail.append(_Part(change.at, kind, change.new))


def _versions(one: Seen) -> tuple[FileVersion | None, FileVersion | None]:
    before = one.before.version if one.before else None
    return before, one.after.version if one.after else None
