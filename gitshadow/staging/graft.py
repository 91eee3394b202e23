"""Add the surviving changes of a unit to another state: the index, a commit, another worktree.

Each file is merged three-way: the base is the file without the unit's change, one side the file
with it, the other side what the target has. Content and mode are merged apart.
Invariant: pure. A file is added whole or skipped with one reason; what the target has of others is
in every result.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gitshadow.model import GITLINK_MODE, LINK_MODE, FileVersion, Oid, RepoPath
from gitshadow.staging.survivors import ChangeStep, Survivor
from gitshadow.store.paths import parents
from gitshadow.store.trees import Entry
from gitshadow.undo import merge
from gitshadow.undo.lineage import LineageRecord
from gitshadow.undo.report import Reason
from gitshadow.undo.reverse import Blobs

Writes = Mapping[RepoPath, Entry | None]
"""What paths of a target get; None removes one."""

_AS_LEFT = "as it was then; edited later"


class GraftTarget(Protocol):
    """A state to which changes are added."""

    @property
    def where(self) -> str:
        """Return where it is, for messages: `in the index`."""
        ...

    def entry(self, path: RepoPath) -> Entry | None:
        """Return the mode and the blob of a path, None if it is absent."""
        ...

    def barred(self, path: RepoPath) -> str | None:
        """Return why a path must not be changed, None if it may be."""
        ...

    def is_replaceable(self, path: RepoPath) -> bool:
        """Return whether the target's version is no work of its own, so that it may go."""
        ...

    def is_file(self, path: RepoPath) -> bool:
        """Return whether there is something at exactly this path."""
        ...

    def under(self, path: RepoPath) -> Iterable[RepoPath]:
        """Return the paths below one."""
        ...


class Cleaner(Protocol):
    """How versions on the disk become entries of a target."""

    def __call__(
        self, path: RepoPath, version: FileVersion, standing: Entry | None
    ) -> Entry:
        """Return the entry that a version is at a path.

        Args:
            path: Where it is.
            version: What the disk has, or had.
            standing: What the target has there: line ends may depend on it.

        Raises:
            ClashError: it cannot be converted.
        """
        ...


def as_stored(path: RepoPath, version: FileVersion, standing: Entry | None) -> Entry:
    """Return the entry of a version that is taken as it is; a `Cleaner`."""
    del path, standing
    return version.mode, version.oid


class ClashError(Exception):
    """The reason for which a file is skipped."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Grafted(NamedTuple):
    """One file with what the target gets for it; without `writes` and `reason` it has it all."""

    survivor: Survivor
    writes: Writes
    reason: Reason | None = None
    detail: str | None = None


class Overlay:
    """A target with changes on top of it."""

    def __init__(self, base: GraftTarget) -> None:
        self._base = base
        self.changes: dict[RepoPath, Entry | None] = {}

    @property
    def where(self) -> str:
        """Return where it is."""
        return self._base.where

    def entry(self, path: RepoPath) -> Entry | None:
        """Return the mode and the blob of a path."""
        return self.changes[path] if path in self.changes else self._base.entry(path)

    def barred(self, path: RepoPath) -> str | None:
        """Return why a path must not be changed."""
        return self._base.barred(path)

    def is_replaceable(self, path: RepoPath) -> bool:
        """Return whether a version may go: also what an earlier change put there."""
        return path in self.changes or self._base.is_replaceable(path)

    def is_file(self, path: RepoPath) -> bool:
        """Return whether there is something at exactly this path."""
        if path in self.changes:
            return self.changes[path] is not None
        return self._base.is_file(path)

    def under(self, path: RepoPath) -> Iterator[RepoPath]:
        """Yield the paths below one."""
        for one in self._base.under(path):
            if one not in self.changes:
                yield one
        inside = path + b"/"
        for one, entry in self.changes.items():
            if entry is not None and one.startswith(inside):
                yield one


@dataclass(frozen=True, slots=True, kw_only=True)
class Grafter:
    """Add changes to targets.

    `keeps_modes` ignores the modes of the disk (core.fileMode); `strict` takes only what undo would
    revert, never a file as the unit left it.
    """

    blobs: Blobs
    clean: Cleaner
    keeps_modes: bool = False
    strict: bool = False

    def graft(self, found: Sequence[Survivor], target: GraftTarget) -> list[Grafted]:
        """Return what a target gets for some files, in their order.

        What one file leaves, another may take; a file that relies on that is skipped if the other
        one is.
        """
        free = {
            step.before.path for one in found for step in _steps(one) if _goes(step)
        }
        while True:
            done = [self._one(each, target, free) for each in found]
            left = {path for one in done for path in _removed(one)}
            if not free - left:
                break
            free &= left
        return _settled(done, target)

    def _one(
        self, found: Survivor, target: GraftTarget, free: set[RepoPath]
    ) -> Grafted:
        if found.reason is not None:
            return Grafted(found, {}, found.reason, found.detail)
        first: ClashError | None = None
        for steps, start, detail in self._attempts(found, target):
            view = _View(target, self, free)
            try:
                view.begin(start)
                for step in steps:
                    view.take(step)
                return Grafted(found, view.changed(), None, detail)
            except ClashError as clash:
                first = first or clash
        if first is None:
            return Grafted(found, {}, Reason.CONFLICT, _AS_LEFT)
        return Grafted(found, {}, first.reason, first.detail)

    def _attempts(
        self, found: Survivor, target: GraftTarget
    ) -> Iterator[tuple[Sequence[ChangeStep], Writes, str | None]]:
        """Yield steps, what the target counts as, and what to say, the best first."""
        live = [found.live] if found.live is not None else []
        ways = [(live, found.detail)] if live else []
        if found.left and not self.strict:
            ways.append((list(found.left), _AS_LEFT))
        starts: list[Writes] = [{}]
        # The target may have an earlier state of the unit's own work, staged half-way.
        for path in (found.present.path, *sorted(found.paths)):
            entry = target.entry(path)
            was = found.unwind(entry[1]) if entry is not None else None
            if entry is not None and was is not None:
                back: dict[RepoPath, Entry | None] = {path: None}
                if was.version is not None:
                    back[was.path] = self.clean(was.path, was.version, entry)
                starts.append(back)
                break
        for start in starts:
            for steps, said in ways:
                yield steps, start, said


@dataclass(slots=True)
class _View:
    """A target while the steps of one file are taken."""

    target: GraftTarget
    how: Grafter
    free: set[RepoPath]
    local: dict[RepoPath, Entry | None] = field(default_factory=dict)

    def begin(self, start: Writes) -> None:
        """Let the target count as something else."""
        self.local.update(start)

    def entry(self, path: RepoPath) -> Entry | None:
        """Return what is at a path after the steps so far."""
        return self.local[path] if path in self.local else self.target.entry(path)

    def changed(self) -> Writes:
        """Return what the target gets that it has not."""
        return {
            path: entry
            for path, entry in self.local.items()
            if entry != self.target.entry(path)
        }

    def take(self, step: ChangeStep) -> None:
        """Take one step.

        Raises:
            ClashError: it cannot be taken.
        """
        old, new = step.before, step.after
        if old == new:
            return
        if new.version is None:
            if old.version is not None:
                self._delete(old.path, self._clean(old))
        elif old.version is None:
            self._create(new.path, self._clean(new))
        elif old.path == new.path:
            self._modify(new.path, self._clean(old), self._clean(new))
        else:
            self._rename(old, new)

    def _clean(self, record: LineageRecord) -> Entry:
        assert record.version is not None
        standing = self.target.entry(record.path)
        mode, oid = self.how.clean(record.path, record.version, standing)
        if self.how.keeps_modes and mode != LINK_MODE:
            mode = 0o100644
        return mode, oid

    def _create(self, path: RepoPath, new: Entry) -> None:
        there = self._standing(path)
        if there is None:
            self._put(path, new)
        elif there[1] != new[1]:
            raise self._conflict("another version of it is")

    def _delete(self, path: RepoPath, old: Entry) -> None:
        there = self._standing(path)
        if there is None:
            return
        if there[1] != old[1] and not self._may_go(path):
            raise self._conflict("other changes to it are")
        self._put(path, None)

    def _modify(self, path: RepoPath, old: Entry, new: Entry) -> None:
        there = self._standing(path)
        if there is None:
            raise self._conflict("it is not")
        self._put(path, self._merged(old, new, there))

    def _rename(self, old: LineageRecord, new: LineageRecord) -> None:
        was, now = self._clean(old), self._clean(new)
        source, there = self._standing(old.path), self._standing(new.path)
        if source is None:
            if there is None:
                raise self._conflict("it is not")
            self._put(new.path, self._merged(was, now, there))
            return
        is_other = there is not None and there[1] != now[1]
        if is_other and new.path not in self.free and not self._may_go(new.path):
            raise self._conflict("another file of this name is")
        self._put(new.path, self._merged(was, now, source))
        self._put(old.path, None)

    def _standing(self, path: RepoPath) -> Entry | None:
        found = self.entry(path)
        if found is not None and found[0] == GITLINK_MODE:
            raise ClashError(Reason.OTHER_REPOSITORY, "a submodule is there")
        return found

    def _may_go(self, path: RepoPath) -> bool:
        return path in self.local or self.target.is_replaceable(path)

    def _put(self, path: RepoPath, entry: Entry | None) -> None:
        why = self.target.barred(path)
        if why is not None and entry != self.target.entry(path):
            raise ClashError(Reason.EXCLUDED, why)
        self.local[path] = entry

    def _merged(self, old: Entry, new: Entry, there: Entry) -> Entry:
        links = {one[0] == LINK_MODE for one in (old, new, there)}
        if len(links) > 1 or LINK_MODE in (old[0], new[0]):
            return self._replaced(old, new, there)
        mode = there[0] if self.how.keeps_modes or there[0] != old[0] else new[0]
        return mode, self._content(old[1], new[1], there[1])

    def _replaced(self, old: Entry, new: Entry, there: Entry) -> Entry:
        """Return one side whole: links and changes of type have no lines."""
        if new in (old, there):
            return there
        if there == old:
            return new
        raise ClashError(
            Reason.TYPE_CLASH, f"a file or link of another kind is {self.target.where}"
        )

    def _content(self, old: Oid, new: Oid, there: Oid) -> Oid:
        if new in (old, there):
            return there
        if there == old:
            return new
        texts = [self._bytes(oid) for oid in (old, new, there)]
        if any(map(merge.is_binary, texts)):
            raise ClashError(
                Reason.BINARY,
                f"another version of it is {self.target.where} and cannot be merged",
            )
        merged = merge.merge(*texts)
        if merged is None:
            raise self._conflict("other changes to the same lines are")
        return self.how.blobs.make(merged, there)

    def _bytes(self, oid: Oid) -> bytes:
        data = self.how.blobs.get(oid)
        if data is None:
            raise ClashError(*self.how.blobs.gone(oid))
        return data

    def _conflict(self, what: str) -> ClashError:
        return ClashError(Reason.CONFLICT, f"{what} {self.target.where}")


def combined(done: Iterable[Grafted]) -> dict[RepoPath, Entry | None]:
    """Return what a target gets for all files together; what is written is not removed."""
    writes: dict[RepoPath, Entry | None] = {}
    for one in done:
        for path, entry in one.writes.items():
            if entry is not None or path not in writes:
                writes[path] = entry
    return writes


def _steps(found: Survivor) -> Iterator[ChangeStep]:
    if found.live is not None:
        yield found.live
    yield from found.left


def _goes(step: ChangeStep) -> bool:
    """Return whether a step takes a file away from its path."""
    old, new = step
    if old.version is None:
        return False
    return new.version is None or new.path != old.path


def _removed(one: Grafted) -> Iterator[RepoPath]:
    return (path for path, entry in one.writes.items() if entry is None)


def _settled(done: Sequence[Grafted], target: GraftTarget) -> list[Grafted]:
    """Return the files, without those that would be written where they cannot be."""
    kept = list(done)
    while True:
        final = Overlay(target)
        final.changes.update(combined(kept))
        bad = [_clash(one, kept, final) for one in kept]
        if not any(bad):
            return kept
        kept = [
            one
            if clash is None
            else one._replace(writes={}, reason=clash.reason, detail=clash.detail)
            for one, clash in zip(kept, bad, strict=True)
        ]


def _clash(one: Grafted, kept: Sequence[Grafted], final: Overlay) -> ClashError | None:
    for path, entry in one.writes.items():
        if entry is None:
            continue
        if any(
            path in other.writes and other.writes[path] is not None
            for other in kept
            if other is not one
        ):
            return ClashError(Reason.CONFLICT, "another file takes its path")
        blocked = any(final.is_file(up) for up in parents(path))
        if blocked or any(True for _ in final.under(path)):
            return ClashError(
                Reason.TYPE_CLASH,
                f"a file of another type blocks its path {final.where}",
            )
    return None
