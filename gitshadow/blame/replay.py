"""Replay: the recorded events of a path and its other names, in global order, over owner vectors.

A write owns the lines it adds. A restore owns none: its lines keep their first author.
Neither do lines that Git restores, as far as that can be known (`rewrites`).
Invariant: reads objects and asks about Git's past through its ports alone, and stores nothing.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gitshadow.blame.owners import (
    BlamedContent,
    Diff,
    Origin,
    OriginSource,
    Owner,
    Vector,
    carried,
    count_lines,
    fill,
    fresh,
    new_lines,
    removed,
    split_lines,
    whole,
)
from gitshadow.blame.rewrites import Rewrites
from gitshadow.blame.snapshots import BlameSnapshot, Place, Read
from gitshadow.errors import StoreError
from gitshadow.model import (
    Confidence,
    EventKind,
    FileVersion,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.store.line_diff import Hunk

MISSED = "an earlier change of this file was not recorded"
LOST = "an earlier version of this file is missing from the object store"
UNCOVERED = "it changed while the file was not recorded"
CONFLICT = "it was inside a merge conflict"
BROUGHT = "an undo wrote it, and its earlier author is unknown"


@dataclass(frozen=True, slots=True)
class Removal:
    """A line that one event removed from the state before it."""

    event: PathChange
    origin: Origin
    text: bytes


@dataclass(slots=True)
class Replay:
    """Fold events, oldest first; `at` then says what each path holds.

    `read` returns a blob's bytes, or raises StoreError. `taken_back` names for each op the events
    that it undid; after a snapshot, an op without an entry undid some before it.
    `removals` is filled only where it is not None.
    """

    read: Read
    diff: Diff
    rewrites: Rewrites
    taken_back: Mapping[str, Collection[int]] = field(default_factory=dict)
    removals: list[Removal] | None = None
    _at: dict[Place, BlamedContent] = field(default_factory=dict)
    _left: dict[Place, BlamedContent] = field(default_factory=dict)
    _before: dict[int, list[tuple[Place, BlamedContent]]] = field(default_factory=dict)
    _saved: frozenset[int] | None = None
    _contents: set[Oid] = field(default_factory=set)

    def at(self, worktree: str, path: RepoPath) -> BlamedContent | None:
        """Return what a path holds after the events so far, None where it is absent."""
        return self._at.get((worktree, path))

    def resume(self, snapshot: BlameSnapshot) -> None:
        """Begin at a snapshot instead of the first event; `feed` may then raise DoubtError."""
        self._at.update(snapshot.at)
        self.rewrites.before = snapshot.before
        self.rewrites.resume(snapshot.newest)

    def snapshot(self) -> BlameSnapshot:
        """Return what the events so far came to."""
        known = self.rewrites.is_newest
        newest = [state for state in self._at.values() if known(state)]
        before = self.rewrites.marked(self._contents)
        return BlameSnapshot(at=dict(self._at), newest=newest, before=before)

    def feed(self, events: Sequence[PathChange]) -> None:
        """Apply events, in ascending order."""
        for event in events:
            self._take(event)

    def state_of(self, version: FileVersion, owner: Owner) -> BlamedContent | None:
        """Return a content whose lines one owner brought; None where it is missing."""
        try:
            data = self.read(version.oid)
        except StoreError:
            return None
        return BlamedContent(version.oid, data, fresh(owner, count_lines(data)))

    def _take(self, event: PathChange) -> None:
        source = (event.worktree, event.path_before)
        sides = (event.before, event.after)
        # A snapshot lists every content that was met, also those that can no longer be read.
        for side in sides:
            if side is not None:
                self._contents.add(side.oid)
        if event.kind is EventKind.COVERAGE:
            self.rewrites.before.all_there()
        prior = self._found(event, source)
        if prior is not None and event.seq in self._wanted():
            self._before.setdefault(event.seq, []).append((source, prior))
        if prior is not None and (event.switched or not _is_certain(event)):
            self.rewrites.leaves(event, prior)
        # A rename moves the content, so the old name holds nothing from here on.
        self._at.pop(source, None)
        if event.op is not None:
            self._give_back(event, event.op)
        if event.after is None:
            if prior is not None and event.kind is EventKind.COVERAGE:
                self._left[source] = prior
            self._note(event, prior, None, None)
            return
        made = self._made(event, event.after.oid, prior)
        if made is not None:
            self._at[(event.worktree, event.path)] = made
            self.rewrites.seen(event, made)

    def _give_back(self, event: PathChange, op: str) -> None:
        """Give places their owners back that held what an op gives back, so it wrote nothing."""
        first = dict(reversed(self._undone(op)))
        for place, was in first.items():
            now = self._at.get(place)
            if place == (event.worktree, event.path) or now is None:
                continue
            if now.oid == was.oid and now is not was:
                if event.seq in self._wanted():
                    self._before.setdefault(event.seq, []).append((place, now))
                self._at[place] = was

    def _undone(self, op: str) -> list[tuple[Place, BlamedContent]]:
        """Return the states before what an op undid, in order."""
        if op not in self.taken_back:
            self.rewrites.before.all_there()
        seqs = sorted(self.taken_back.get(op, ()))
        return [state for seq in seqs for state in self._before.get(seq, ())]

    def _wanted(self) -> frozenset[int]:
        if self._saved is None:
            self._saved = frozenset().union(*self.taken_back.values())
        return self._saved

    def _found(self, event: PathChange, source: Place) -> BlamedContent | None:
        """Return what the event found, with its owners."""
        state = self._at.get(source)
        if event.before is None:
            return None
        # The blob is compared because a write between two rows may have been missed.
        if state is not None and state.oid == event.before.oid:
            return state
        known = self.rewrites.known(event.before.oid)
        if known is not None:
            return known
        ground = Owner(
            source=OriginSource.GROUND,
            path=source[1],
            event=event,
            content=event.before.oid,
        )
        found = self.state_of(event.before, ground)
        if found is None or state is None:
            if found is not None:
                self.rewrites.ground(found)
            return found
        missed = Owner(
            source=OriginSource.UNKNOWN, path=source[1], event=event, note=MISSED
        )
        # Only the lines that differ from the last recorded state came unrecorded.
        hunks = self._hunks(state.data, found.data)
        return BlamedContent(
            found.oid, found.data, carried(state.vector, hunks, missed)
        )

    def _made(
        self, event: PathChange, oid: Oid, prior: BlamedContent | None
    ) -> BlamedContent | None:
        """Return the content that an event left, with its owners; None if it is missing."""
        # A change of mode or a plain rename has no lines, so every owner stays.
        if prior is not None and prior.oid == oid:
            return prior
        try:
            data = self.read(oid)
        except StoreError:
            return None
        if event.before is not None and prior is None:
            lost = Owner(
                source=OriginSource.UNKNOWN, path=event.path, event=event, note=LOST
            )
            return BlamedContent(oid, data, fresh(lost, count_lines(data)))
        if event.kind is EventKind.COVERAGE:
            return self._entered(event, oid, data)
        if event.kind is EventKind.RESTORE and event.op is not None:
            sources = self._sources(event, event.op)
            return self._restored(event, oid, prior, data, sources)
        if event.switched:
            return self._switched(event, oid, prior, data)
        return self._written(event, oid, prior, data)

    def _written(
        self,
        event: PathChange,
        oid: Oid,
        prior: BlamedContent | None,
        data: bytes,
    ) -> BlamedContent:
        # `git stash pop` or `git am` in a shell call look like writes of that call.
        may_be_git = not _is_certain(event)
        if may_be_git:
            known = self.rewrites.returned(event, prior, data)
            if known is not None:
                self._note(event, prior, known.data, None)
                return known
        old = prior.data if prior is not None else b""
        hunks = self._hunks(old, data)
        owner = Owner(source=OriginSource.EVENT, path=event.path, event=event)
        vector = carried(prior.vector if prior is not None else [], hunks, owner)
        if may_be_git and prior is not None:
            if not self.rewrites.unstashed(prior, data, (hunks, vector)):
                self.rewrites.bring_back(event.path, prior, data, (hunks, vector))
            _open_conflicts(event, data, vector)
            self.rewrites.take_over(event, oid, vector)
            self.rewrites.wrote(_added(owner, vector, data, hunks))
        else:
            self.rewrites.wrote(new_lines(data, hunks))
        self._note(event, prior, data, hunks)
        return BlamedContent(oid, data, vector)

    def _switched(
        self,
        event: PathChange,
        oid: Oid,
        prior: BlamedContent | None,
        data: bytes,
    ) -> BlamedContent:
        known = self.rewrites.known(oid)
        if known is not None:
            return known
        if prior is not None and whole(prior.data) == whole(data):
            return BlamedContent(oid, data, prior.vector)
        owner = Owner(
            source=OriginSource.GROUND,
            path=event.path,
            event=event,
            content=oid,
            switched=True,
        )
        made = BlamedContent(oid, data, fresh(owner, count_lines(data)))
        self.rewrites.ground(made)
        return made

    def _entered(self, event: PathChange, oid: Oid, data: bytes) -> BlamedContent:
        """Return the state of a path that enters the recording: its new lines were not observed."""
        left = self._left.pop((event.worktree, event.path), None)
        if left is None:
            owner = Owner(
                source=OriginSource.GROUND,
                path=event.path,
                event=event,
                content=oid,
            )
            made = BlamedContent(oid, data, fresh(owner, count_lines(data)))
            self.rewrites.ground(made)
            return made
        owner = Owner(
            source=OriginSource.UNKNOWN, path=event.path, event=event, note=UNCOVERED
        )
        hunks = self._hunks(left.data, data)
        return BlamedContent(oid, data, carried(left.vector, hunks, owner))

    def _restored(
        self,
        event: PathChange,
        oid: Oid,
        prior: BlamedContent | None,
        data: bytes,
        sources: Sequence[BlamedContent],
    ) -> BlamedContent:
        """Return the state that an op restored, each line with its earlier origin."""
        for source in sources:
            if source.oid == oid:
                return source
        known = self.rewrites.known(oid)
        if known is not None:
            return known
        nobody = Owner(
            source=OriginSource.UNKNOWN, path=event.path, event=event, note=BROUGHT
        )
        hunks = self._hunks(prior.data if prior is not None else b"", data)
        vector = carried(prior.vector if prior is not None else [], hunks, nobody)
        # A merge keeps the lines of the present; only what the restore added is searched for.
        missing = {at for at, origin in enumerate(vector) if origin.owner is nobody}
        for source in sources:
            if not missing:
                break
            fill(vector, missing, source, self._hunks(source.data, data))
        return BlamedContent(oid, data, vector)

    def _sources(self, event: PathChange, op: str) -> list[BlamedContent]:
        """Return the states before what an op undid: those of this path first."""
        found = self._undone(op)
        here = (event.worktree, event.path)
        # States of this path come first: another file of the same unit may have equal lines.
        ordered = [state for place, state in found if place == here]
        ordered += [state for place, state in found if place != here]
        return list({state.oid: state for state in reversed(ordered)}.values())[::-1]

    def _hunks(self, old: bytes, new: bytes) -> Sequence[Hunk]:
        return self.diff(whole(old), whole(new))

    def _note(
        self,
        event: PathChange,
        prior: BlamedContent | None,
        data: bytes | None,
        hunks: Sequence[Hunk] | None,
    ) -> None:
        """Remember which lines of others a write removed, if a caller asks."""
        # An undo removes lines by request, so it is not listed as a removal.
        if self.removals is None or prior is None or event.op is not None:
            return
        if hunks is None:
            hunks = self._hunks(prior.data, data or b"")
        lines = whole(prior.data).split(b"\n")
        for number, origin in removed(prior.vector, hunks):
            self.removals.append(Removal(event, origin, lines[number - 1]))


def _is_certain(event: PathChange) -> bool:
    """Return whether a tool named the write beforehand, so that it is not Git's."""
    return event.attribution.confidence is Confidence.CERTAIN


def _added(
    owner: Owner, vector: Vector, data: bytes, hunks: Sequence[Hunk]
) -> Iterator[bytes]:
    """Yield the lines of a content that an owner brought."""
    lines = split_lines(data) if hunks else []
    for _, _, start, count in hunks:
        for at in range(start - 1, start - 1 + count):
            if vector[at].owner is owner:
                yield lines[at]


def _open_conflicts(event: PathChange, data: bytes, vector: Vector) -> None:
    """Give lines inside new conflict markers no owner: who resolves them is not recorded."""
    if b"<<<<<<< " not in data:
        return
    lines = split_lines(data)
    nobody = Owner(
        source=OriginSource.UNKNOWN, path=event.path, event=event, note=CONFLICT
    )
    start: int | None = None
    for at, line in enumerate(lines):
        if line.startswith(b"<<<<<<< ") and vector[at].owner.event is event:
            start = at
        elif line.startswith(b">>>>>>> ") and start is not None:
            vector[start : at + 1] = [
                Origin(nobody, number) for number in range(start + 1, at + 2)
            ]
            start = None
