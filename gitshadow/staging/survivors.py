"""Find what of a unit's changes is still in effect, file by file.

What survives is what an undo of the unit would revert: the step from the file without the unit to
the file as it is. Where later edits of the same lines keep undo from separating them, the file is
given as the unit left it, run by run, without what was reverted since.
Invariant: pure; nothing is ever part of a step that the unit did not write.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.model import Oid, PathChange, RepoPath
from gitshadow.store.paths import safe_path
from gitshadow.undo import merge
from gitshadow.undo.lineage import (
    Course,
    EventRun,
    Lineage,
    LineageRecord,
    course_of,
    runs_of,
    trace,
)
from gitshadow.undo.path_plans import World
from gitshadow.undo.plan import PathFilter
from gitshadow.undo.report import Reason
from gitshadow.undo.reverse import Blobs, ConflictPolicy, take_back
from gitshadow.undo.targets import Undoings

# Undo cannot separate the unit from what came later, but what the unit left is known.
_INSEPARABLE = frozenset(
    {
        Reason.CONFLICT,
        Reason.BINARY,
        Reason.TYPE_CLASH,
        Reason.NOT_CREATED_BY_UNIT,
    }
)
_WHY_NOT = {
    Reason.OTHER_REPOSITORY: "it is in another repository now",
    Reason.IO_ERROR: "it cannot be read",
    Reason.EXCLUDED: "a rule or limit excludes it now",
}


class ChangeStep(NamedTuple):
    """One step of a file, from where the unit's part is missing to where it is there."""

    before: LineageRecord
    after: LineageRecord


class Survivor(NamedTuple):
    """What is left of a unit's changes to one file.

    `live` is the step that undo would revert, None where undo cannot separate it; `left` are the
    steps as the unit left the file, oldest first. `reason` is set where neither can be had.
    `unwind` returns, by its oid, a state that the unit left without the unit's part; None where the
    unit never left it.
    """

    path: RepoPath
    paths: frozenset[RepoPath]
    session: str | None
    present: LineageRecord
    live: ChangeStep | None = None
    left: tuple[ChangeStep, ...] = ()
    reason: Reason | None = None
    detail: str | None = None
    unwind: Callable[[Oid], LineageRecord | None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitQuery:
    """A unit: the numbers of its events, the chosen paths, and what each op undid."""

    seqs: frozenset[int]
    paths: PathFilter = field(default_factory=PathFilter)
    undoings: Undoings = field(default_factory=dict)


def survivors(
    events: Sequence[PathChange], asked: UnitQuery, world: World, blobs: Blobs
) -> list[Survivor]:
    """Return what is left of a unit, by path; files of which nothing can be left are missing.

    Args:
        events: Ascending; from the unit's first event on, every event of every path that the
            unit's files ever had.
        asked: The unit.
        world: The disk now.
        blobs: Gives recorded content, and keeps what merging makes.
    """
    traced = trace(events, asked.undoings)
    found = (_survivor(lineage, asked, world, blobs) for lineage in traced)
    return sorted(
        (one for one in found if one is not None), key=lambda one: (one.path, one.paths)
    )


def _survivor(
    lineage: Lineage, asked: UnitQuery, world: World, blobs: Blobs
) -> Survivor | None:
    mine = [event for event in lineage.events if event.seq in asked.seqs]
    if not mine or not asked.paths.takes(lineage.paths):
        return None
    course = course_of(lineage, asked.undoings, asked.seqs)
    runs = _runs(lineage, course, asked)
    there = None if lineage.displaced else world.present.get(lineage.path)
    present = LineageRecord(lineage.path, there)
    if there is None and all(run.before.version is None for run in runs):
        return None
    found = Survivor(lineage.path, lineage.paths, mine[-1].attribution.session, present)
    if not all(map(safe_path, lineage.paths)):
        detail = "its name is not safe to write to"
        return found._replace(reason=Reason.UNSAFE_PATH, detail=detail)
    barred = world.excluded.get(lineage.path) if there is not None else None
    if barred is not None:
        detail = _WHY_NOT[barred]
        return found._replace(reason=barred, detail=detail)
    return _separated(found, runs, blobs)._replace(
        unwind=lambda oid: _unwound(lineage, oid, asked, blobs)
    )


def _runs(lineage: Lineage, course: Course, asked: UnitQuery) -> list[EventRun]:
    return runs_of(
        lineage,
        course,
        lambda event: event.seq in asked.seqs and event.seq not in course.undone,
    )


def _separated(found: Survivor, runs: Sequence[EventRun], blobs: Blobs) -> Survivor:
    present = found.present
    turned = take_back(runs, present, blobs, ConflictPolicy())
    if turned.reason is None:
        return found._replace(
            live=ChangeStep(turned.target, present),
            left=tuple(_steps(runs, present, blobs)),
            detail=turned.detail,
        )
    if turned.reason in _INSEPARABLE and present.version is None:
        return found._replace(live=_deletion(runs, present))
    if turned.reason in _INSEPARABLE:
        left = tuple(_steps(runs, present, blobs))
        if left:
            return found._replace(left=left)
    return found._replace(reason=turned.reason, detail=turned.detail)


def _deletion(runs: Sequence[EventRun], present: LineageRecord) -> ChangeStep:
    """Return the newest deletion by a unit of a file that is gone, else no change.

    Nothing is left of what was written to the file before.
    """
    for run in reversed(runs):
        if run.before.version is not None and run.after.version is None:
            return ChangeStep(run.before, run.after)
    return ChangeStep(present, present)


def _steps(
    runs: Sequence[EventRun], present: LineageRecord, blobs: Blobs
) -> Iterator[ChangeStep]:
    """Yield the runs as they left the file, without what was reverted since."""
    for run in runs:
        if run.away or run.baseless:
            continue
        # Undo keeps a file that was moved in, because it may be the only copy; for Git it is new.
        before = run.before._replace(version=None) if run.moved_in else run.before
        after = _kept(before, run.after, present, blobs)
        if before != after and (before.version or after.version):
            yield ChangeStep(before, after)


def _kept(
    before: LineageRecord, after: LineageRecord, present: LineageRecord, blobs: Blobs
) -> LineageRecord:
    """Return what a run left, with those of its edits reverted that the present has reverted."""
    versions = before.version, after.version, present.version
    if any(one is None or one.is_link for one in versions):
        return after
    texts = [blobs.get(one.oid) for one in versions if one is not None]
    if any(text is None or merge.is_binary(text) for text in texts):
        return after
    was, left, now = (merge.split_lines(text or b"") for text in texts)
    later = {*merge.edits(left, now)}
    reverted = [edit for edit in merge.edits(left, was) if edit in later]
    if not reverted or after.version is None:
        return after
    version = after.version
    oid = blobs.make(b"".join(merge.edited(left, reverted)), version.oid)
    return after._replace(version=replace(version, oid=oid))


def _unwound(
    lineage: Lineage, oid: Oid, asked: UnitQuery, blobs: Blobs
) -> LineageRecord | None:
    """Return a state that one of the unit's events left, without what the unit did up to it."""
    for at in range(len(lineage.events) - 1, -1, -1):
        event = lineage.events[at]
        if event.seq not in asked.seqs or event.after is None:
            continue
        if event.after.oid != oid:
            continue
        part = Lineage(event.path, lineage.events[: at + 1])
        course = course_of(part, asked.undoings, asked.seqs)
        here = LineageRecord(event.path, event.after)
        turned = take_back(_runs(part, course, asked), here, blobs, ConflictPolicy())
        return turned.target if turned.reason is None else None
    return None
