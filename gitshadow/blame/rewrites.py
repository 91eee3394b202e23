"""What Git does to recorded content: owners survive it where the content proves that it is theirs.

Evidence, in order: the same blob was recorded before; the same change (removed and added lines) was
recorded before, in other surroundings. Nothing else carries an owner over.
Invariant: what is not proven stays with its last author, or is asked of Git, or is unknown.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from gitshadow.attribution.commits import is_by_hooks
from gitshadow.blame.git_history import GitPast
from gitshadow.blame.owners import (
    BlamedContent,
    Diff,
    Origin,
    OriginSource,
    Owner,
    Vector,
    added_numbers,
    removed,
    split_lines,
    whole,
)
from gitshadow.blame.rewritten_commits import CommitLine, RewrittenCommits
from gitshadow.blame.snapshots import (
    Before,
    Change,
    GrowingMarks,
    mark_of,
    mark_of_change,
    mark_of_oid,
)
from gitshadow.model import Actor, Confidence, Oid, PathChange, RepoPath
from gitshadow.store.line_diff import Hunk
from gitshadow.store.object_format import format_of

AGAIN = "Git had removed an identical line and may have restored it"

_PAIRED = 8
"""With how many earlier committed states each is compared: as many commits may become one."""
_SUBSTANCE = 20
"""So many letters and digits make a change telling; the number is that of git-blame(1), -M."""
_MOST_CELLS = 8_000_000
"""How many origins are kept for states that Git may restore (8 bytes each)."""


@dataclass(slots=True)
class Rewrites:
    """The states of a replay, and which of them Git may restore.

    `before` says what there was before the first event that the replay takes; what it cannot
    tell is a DoubtError, from any method.
    """

    past: GitPast
    diff: Diff
    before: Before = field(default_factory=Before)
    ignore_space: bool = False
    commits: RewrittenCommits | None = None
    _grounds: dict[tuple[Oid, RepoPath], Owner] = field(default_factory=dict)
    _stashed: list[tuple[BlamedContent, BlamedContent]] = field(default_factory=list)
    _known: dict[Oid, BlamedContent] = field(default_factory=dict)
    _converted: dict[Oid, BlamedContent] = field(default_factory=dict)
    _before: dict[tuple[Oid | None, RepoPath], Set[tuple[int, int]]] = field(
        default_factory=dict
    )
    _cells: int = 0
    _parted: dict[Oid, BlamedContent] = field(default_factory=dict)
    _lost: set[bytes] = field(default_factory=set)
    _written: set[bytes] = field(default_factory=set)
    _tips: list[BlamedContent] = field(default_factory=list)
    _pairs: list[tuple[BlamedContent, BlamedContent]] = field(default_factory=list)
    _changes: dict[Change, list[Origin] | None] = field(default_factory=dict)
    _content_marks: GrowingMarks[Oid] = field(
        default_factory=lambda: GrowingMarks(mark_of_oid)
    )
    _written_marks: GrowingMarks[bytes] = field(
        default_factory=lambda: GrowingMarks(mark_of)
    )

    def known(self, oid: Oid) -> BlamedContent | None:
        """Return the newest state that was recorded with a content, None for none."""
        found = self._known.get(oid)
        if found is None:
            self.before.no_content(oid)
        return found

    def resume(self, states: Iterable[BlamedContent]) -> None:
        """Add the newest states of their contents, which a snapshot has."""
        self._known.update((state.oid, state) for state in states)

    def is_newest(self, state: BlamedContent) -> bool:
        """Return whether no later state has the same content."""
        return self._known.get(state.oid) is state

    def ground(self, state: BlamedContent) -> None:
        """Add a content whose owners Git knows."""
        self._keep(state)
        self._commit(state, state.vector[0].owner.path if state.vector else None)

    def seen(self, event: PathChange, state: BlamedContent) -> None:
        """Add the state that an event left."""
        if self._known.get(state.oid) is not state:
            self._keep(state)
            self._commit(state, event.path)

    def leaves(self, event: PathChange, prior: BlamedContent) -> None:
        """Note whether Git removed the state that an event is about to replace.

        Git takes uncommitted content away for committed content (stash, checkout of a path,
        reset), and committed content for other committed content.
        """
        if event.op is not None:
            return
        after = event.after.oid if event.after is not None else None
        if after == prior.oid:
            return
        target = self.known(after) if after is not None else None
        # A checkout of a path or `git reset --hard` leaves committed content and no other trace. A
        # content that nobody has seen before was written, and committed later.
        to_commit = target is not None and after in self.past.committed(event.path)
        if not (event.switched or to_commit or after is None):
            return
        self._parted[prior.oid] = prior
        if target is not None:
            self._pairs.append((target, prior))
            self._stashed.append((target, prior))
        # Without the other side there is no diff, so each line may be one that Git removed.
        if target is None:
            self._lost.update(split_lines(whole(prior.data)))
            return
        lines = split_lines(whole(prior.data))
        hunks = self.diff(whole(prior.data), whole(target.data))
        self._lost.update(lines[at - 1] for at, _ in removed(prior.vector, hunks))

    def _keep(self, state: BlamedContent) -> None:
        self._known[state.oid] = state
        # With core.autocrlf a commit holds the same text without its carriage returns.
        if b"\r" in state.data:
            text = state.data.replace(b"\r\n", b"\n")
            self._converted[format_of(state.oid).blob(text)] = state
        self._cells += len(state.vector)
        # A replay from a snapshot cannot know what a whole replay would have dropped here.
        if self.before.cells + self._cells > _MOST_CELLS:
            self.before.all_there()
            self._forget()

    def _forget(self) -> None:
        """Drop the older half of the states, except those that Git may restore."""
        # Dictionaries keep the order of insertion, so this is the older half.
        old = list(self._known)[: len(self._known) // 2]
        tips = {state.oid for state in self._tips}
        for oid in old:
            # Git restores committed and stashed content, however old it is.
            if oid not in tips and oid not in self._parted:
                del self._known[oid]
        self._cells = sum(len(state.vector) for state in self._known.values())

    def _commit(self, state: BlamedContent, path: RepoPath | None) -> None:
        if path is None or state.oid not in self.past.committed(path):
            return
        self._pairs += [(older, state) for older in self._newest_tips()]
        self._tips.append(state)

    def _newest_tips(self) -> list[BlamedContent]:
        if len(self._tips) >= _PAIRED:
            # The tips of a snapshot are decoded only where they are needed.
            return self._tips[-_PAIRED:]
        return [*self.before.tips(), *self._tips][-_PAIRED:]

    def wrote(self, lines: Iterable[bytes]) -> None:
        """Add lines that an event wrote, without their newlines."""
        self._written.update(map(self._folded, lines) if self.ignore_space else lines)

    def _folded(self, line: bytes) -> bytes:
        return b"".join(line.split()) if self.ignore_space else line

    def recorded(self, oid: Oid) -> BlamedContent | None:
        """Return the state that a commit holds as this blob, but for line endings."""
        found = self.known(oid) or self._converted.get(oid)
        if found is None:
            self.before.no_plain(oid)
        return found

    def is_written(self, oid: Oid) -> bool:
        """Return whether recorded events, not Git alone, say whose the lines of a content are."""
        state = self.recorded(oid)
        return state is not None and all(
            one.owner.content != oid for one in state.vector
        )

    def returned(
        self, event: PathChange, prior: BlamedContent | None, data: bytes
    ) -> BlamedContent | None:
        """Return the state that Git restored by an ordinary write, None if it did not.

        It did if the content is committed, or if Git had removed it before and
        nothing, or committed content, was there since (stash pop). What the hooks of a
        commit remove they restore, whatever was there.
        """
        after = event.after
        known = self.known(after.oid) if after is not None else None
        # Commit hooks such as pre-commit stash unstaged changes and restore the same blobs.
        if known is None or is_by_hooks(event):
            return known
        committed = self.past.committed(event.path)
        if known.oid in committed:
            return known
        if known.oid not in self._parted and not self.before.has_parted(known.oid):
            return None
        # Short contents (an empty file, one line) are written again by chance.
        if prior is None:
            return known if is_telling(data) else None
        return known if prior.oid in committed else None

    def original(self, commit: Oid, line: int, *names: RepoPath) -> Origin | None:
        """Return the origin of a line that a commit took over from one that it repeats.

        Args:
            commit: The commit.
            line: The number of the line.
            names: The file's name in the commit, and other names.
        """
        if self.commits is None:
            return None
        found = self.commits.originals(commit, *names)
        return self._added_at(found[line], found) if line in found else None

    def _added_at(self, place: CommitLine, found: Mapping[int, CommitLine]) -> Origin:
        """Return the origin of a line that a commit took over from others, one of those found."""
        origin = self._origin_at(place)
        older = self._older(place)
        if (id(origin.owner), origin.line) not in older:
            return origin
        # Of equal lines, the diff of the write had this one for the older one, unlike the diff of
        # the commits. The other one, which they have not added, got the origin of this one.
        state = self._state_at(place)
        assert state is not None, "it has an origin"
        lines = split_lines(whole(state.data))
        for way in (1, -1):
            at = place.line + way
            while 0 < at <= len(lines):
                twin = state.vector[at - 1]
                if (id(twin.owner), twin.line) in older:
                    break
                is_equal = lines[at - 1] == lines[place.line - 1]
                if is_equal and place._replace(line=at) not in found.values():
                    return twin
                at += way
        return origin

    def _older(self, place: CommitLine) -> Set[tuple[int, int]]:
        """Return whose lines there were before the commits that added one."""
        key = place.base, place.path
        if key not in self._before:
            blob = place.base and self.past.blob(place.base, place.path)
            state = self.recorded(blob) if blob else None
            self._before[key] = set(_whose(state.vector)) if state else frozenset()
        return self._before[key]

    def _state_at(self, place: CommitLine) -> BlamedContent | None:
        """Return the content of a commit, where it was recorded."""
        blob = self.past.blob(place.commit, place.path)
        return None if blob is None else self.recorded(blob)

    def _origin_at(self, place: CommitLine) -> Origin:
        """Return the origin of a line of a commit: as it was recorded, else to be asked of Git."""
        state = self._state_at(place)
        if state is not None and place.line <= len(state.vector):
            return state.vector[place.line - 1]
        return self._asked_of_git(place, self.past.blob(place.commit, place.path))

    def _text_at(self, place: CommitLine) -> bytes | None:
        """Return a line of a commit whose content was recorded."""
        state = self._state_at(place)
        lines = [] if state is None else split_lines(whole(state.data))
        return lines[place.line - 1] if 0 < place.line <= len(lines) else None

    def _asked_of_git(self, place: CommitLine, blob: Oid | None) -> Origin:
        key = place.commit, place.path
        if key not in self._grounds:
            self._grounds[key] = Owner(
                source=OriginSource.GROUND,
                path=place.path,
                commit=place.commit,
                content=blob,
                switched=True,
            )
        return Origin(self._grounds[key], place.line)

    def take_over(self, event: PathChange, oid: Oid, vector: Vector) -> None:
        """Give lines that a commit took over their owners, where an ordinary write wrote them.

        `git merge --squash`, and a rebase or pick that stops, write files before they commit.

        Args:
            event: The write.
            oid: What it left.
            vector: The owners of its lines, changed in place.
        """
        commit = self.past.bringing(event.path, oid)
        if commit is None or self.commits is None:
            return
        found = self.commits.originals(commit, event.path, event.path_before)
        older = {one: at for at, one in enumerate(vector, 1) if at not in found}
        for number, place in found.items():
            origin = self._origin_at(place)
            if _may_be_gits(vector[number - 1].owner, event):
                vector[number - 1] = origin
            # Of equal lines beside each other, the diff of the commit can have the older one for
            # new. Then the other one is the one that the original added.
            twin = older.get(origin)
            if twin is not None and vector[number - 1] == origin:
                other = place._replace(line=place.line + twin - number)
                if self._text_at(other) == self._text_at(place):
                    vector[twin - 1] = self._origin_at(other)
        if event.attribution.actor is not Actor.UNKNOWN:
            return
        # What the commit has from commits before it, which nobody saw on the disk, Git knows.
        added = self.commits.added(commit, event.path, event.path_before)
        for number, origin in enumerate(vector, 1):
            if origin.owner.event is event and number not in added:
                place = CommitLine(commit, event.path, number)
                vector[number - 1] = self._asked_of_git(place, oid)

    def unstashed(
        self,
        prior: BlamedContent,
        data: bytes,
        change: tuple[Sequence[Hunk], Vector],
    ) -> bool:
        """Restore the owners of what Git had removed and merged into other content (stash pop).

        The content is exactly what the merge gives.

        Args:
            prior: The content before.
            data: The content after.
            change: The hunks between them, and the vector of the content after, which is
                changed in place.
        """
        hunks, vector = change
        added = list(added_numbers(hunks))
        lines = split_lines(whole(data))
        if self.commits is None or not added:
            return False
        # Most writes bring a line that Git never removed.
        if not all(self._is_lost(lines[at - 1]) for at in added):
            return False
        for target, parted in reversed(self._stashed):
            theirs = self.diff(whole(target.data), whole(parted.data))
            back = list(added_numbers(theirs))
            old = split_lines(whole(parted.data))
            if [old[at - 1] for at in back] != [lines[at - 1] for at in added]:
                continue
            if self.commits.merge(target.data, parted.data, prior.data) == data:
                for at, number in zip(added, back, strict=True):
                    vector[at - 1] = parted.vector[number - 1]
                return True
        # What was removed before a snapshot has owners that only a whole replay knows.
        if any(self.before.has_lost(lines[at - 1]) for at in added):
            self.before.all_there()
        return False

    def bring_back(
        self,
        path: RepoPath,
        prior: BlamedContent,
        data: bytes,
        change: tuple[Sequence[Hunk], Vector],
    ) -> None:
        """Restore the owners of lines that Git merged into committed content.

        A line that Git had removed and that was restored otherwise (merged with the lines
        around it) is not the writer's either: its author is unknown.

        Args:
            path: The file.
            prior: The content before.
            data: The content after.
            change: The hunks between them, and the vector of the content after, which is
                changed in place.
        """
        hunks, vector = change
        # Most files never lost a line to Git; this saves the lookup in the reflog.
        if not (self._lost or self.before.lost):
            return
        if prior.oid not in self.past.committed(path):
            return
        old, new = split_lines(whole(prior.data)), split_lines(whole(data))
        there = set(old)
        for hunk in hunks:
            keys, start = changes_of(old, new, hunk), hunk[2] - 1
            key = keys[0]
            # A copy of a line that is still there is no restored one.
            lost = [self._is_lost(one) and one not in there for one in key[1]]
            # A line that Git never removed is new, though the change looks the same.
            owners = self.same_change(keys) if all(lost) else None
            if owners is not None:
                vector[start : start + hunk[3]] = owners
                continue
            telling = all(lost) and _is_telling_change(key)
            nobody = None
            for at, line in enumerate(key[1], start):
                if telling or (lost[at - start] and is_telling(line)):
                    nobody = nobody or _nobody(vector[at].owner)
                    vector[at] = Origin(nobody, vector[at].line)

    def same_change(self, keys: Sequence[Change]) -> list[Origin] | None:
        """Return the owners of the lines that a recorded change added, if it is telling.

        Args:
            keys: The change, beside the line above and beside the one below: one has to agree.
        """
        if not _is_telling_change(keys[0]):
            return None
        # A change before the snapshot has owners that only a whole replay knows.
        for key in keys:
            self.before.no_change(key)
        self._index_all()
        found = [owners for key in keys if (owners := self._changes.get(key))]
        return found[0] if len({tuple(_whose(one)) for one in found}) == 1 else None

    def has_written(self, line: bytes) -> bool:
        """Return whether a recorded event is known to have written such a line."""
        line = self._folded(line)
        return line in self._written or self.before.has_written(line)

    def _is_lost(self, line: bytes) -> bool:
        return line in self._lost or self.before.has_lost(line)

    def marked(self, contents: Set[Oid]) -> Before:
        """Return marks of all there was: in these contents, and in what was taken."""
        self._index_all()
        was = self.before
        changes = (one for one in self._changes if _is_telling_change(one))
        return Before(
            contents=was.contents.with_more(self._content_marks.of(contents)),
            plain=was.plain.with_more(map(mark_of_oid, self._converted)),
            parted=was.parted.with_more(map(mark_of_oid, self._parted)),
            lost=was.lost.with_more(map(mark_of, self._lost)),
            written=was.written.with_more(self._written_marks.of(self._written)),
            changes=was.changes.with_more(map(mark_of_change, changes)),
            cells=was.cells + self._cells,
            empty=False,
            tips=self._newest_tips,
        )

    def _index_all(self) -> None:
        # The diffs are made when the first answer needs them: most replays never ask.
        pairs, self._pairs = self._pairs, []
        for old, new in pairs:
            self._index(old, new)
            self._index(new, old)

    def _index(self, old: BlamedContent, new: BlamedContent) -> None:
        """Enter the changes between two states; one that fits two owners counts for none."""
        olds, news = split_lines(whole(old.data)), split_lines(whole(new.data))
        for hunk in self.diff(whole(old.data), whole(new.data)):
            start, count = hunk[2] - 1, hunk[3]
            owners = new.vector[start : start + count]
            # These lines are Git's own, so they lead back to nobody.
            if any(origin.owner.switched for origin in owners):
                continue
            for key in changes_of(olds, news, hunk):
                known = self._changes.setdefault(key, owners)
                if known is not None and _whose(known) != _whose(owners):
                    # Two owners made the same change; naming one of them would be a guess.
                    self._changes[key] = None


def changes_of(
    old: Sequence[bytes], new: Sequence[bytes], hunk: Hunk
) -> tuple[Change, Change]:
    """Return the lines that a hunk removes and adds, beside the line above and the one below."""
    old_start, old_lines, new_start, new_lines = hunk
    gone = old[old_start - 1 : old_start - 1 + old_lines] if old_lines else ()
    come = new[new_start - 1 : new_start - 1 + new_lines] if new_lines else ()
    top, end = new_start - 1, new_start - 1 + new_lines
    above, below = (
        (b"above", *new[max(top - 1, 0) : top]),
        (b"below", *new[end : end + 1]),
    )
    return (tuple(gone), tuple(come), above), (tuple(gone), tuple(come), below)


def _may_be_gits(owner: Owner, event: PathChange) -> bool:
    """Return whether a line that is said to be written by somebody may be written by Git."""
    if owner.event is None or owner.source is not OriginSource.EVENT:
        return owner.source is OriginSource.UNKNOWN
    who = owner.event.attribution
    if who.actor is Actor.UNKNOWN:
        return True
    return (
        owner.event.seq == event.seq
        and who.actor is Actor.AGENT
        and who.confidence is not Confidence.CERTAIN
    )


def is_telling(data: bytes) -> bool:
    """Return whether a content is long enough not to be equal by chance."""
    # The start of a content is enough to reach the limit; large files are not counted whole.
    return sum(map(data[:4096].count, _ALNUM)) >= _SUBSTANCE


def _is_telling_change(change: Change) -> bool:
    return bool(change[1]) and is_telling(b"".join(change[1]))


def _nobody(owner: Owner) -> Owner:
    return Owner(
        source=OriginSource.UNKNOWN, path=owner.path, event=owner.event, note=AGAIN
    )


def _whose(owners: Sequence[Origin]) -> list[tuple[int, int]]:
    return [(id(origin.owner), origin.line) for origin in owners]


_ALNUM = [bytes([c]) for c in range(128) if chr(c).isalnum()]
