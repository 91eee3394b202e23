"""Lineages: one file followed through its renames, and the runs of a unit in it.

A *record* is a path with what it holds. A *run* is a stretch of the unit's events with nobody
else's between them: a switch by Git, a coverage row, another writer or a restore ends it. A
*detour* is a stretch that ended where it began, by Git (a branch trip) or by a restore; runs go on
as if it had never been.
Invariant: pure; events come in ascending order and every event is in exactly one lineage.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.model import EventKind, FileVersion, Oid, PathChange, RepoPath, git_mode
from gitshadow.undo.targets import Undoings, Unit

_NEEDS_BEFORE = frozenset(
    {
        EventKind.MODIFY,
        EventKind.DELETE,
        EventKind.RENAME,
        EventKind.MODE,
        EventKind.TYPE,
    }
)


class LineageRecord(NamedTuple):
    """Where a file is and what it holds; `version` is None if it is absent."""

    path: RepoPath
    version: FileVersion | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRun:
    """One stretch of the unit's events on one lineage.

    `switched_to` is where Git's last later switch left the lineage, None where there was none
    that counts. `away` means that it was written on a detour of Git's. `baseless` means that what
    stood there before was never recorded. `moved_in` means that the unit did not create the file,
    but brought it from where nothing is recorded; `before` is then what it brought. `replaced`
    means that such a file took the place of what was recorded; `before` is then what was there.
    """

    before: LineageRecord
    after: LineageRecord
    switched_to: LineageRecord | None = None
    away: bool = False
    baseless: bool = False
    moved_in: bool = False
    replaced: bool = False


class Course(NamedTuple):
    """What became of the events of one lineage.

    `undone` are the events that are undone at present, by the op that did it; `away` those of
    Git's detours, `detours` those of all detours, with the events that end them.
    """

    undone: Mapping[int, str]
    away: frozenset[int]
    detours: frozenset[int]


@dataclass(slots=True)
class Lineage:
    """One file's events; `path` is where it is after the last one.

    `displaced` means that another lineage was moved onto its path, so the disk's content there
    is not its own.
    An undo that moves another file back to this path writes nothing if this one holds the same. Its
    rows are then all on the other lineage: `ops` are those that count here too, and `alike` are the
    lineages for which rows of this one do.
    """

    path: RepoPath
    events: list[PathChange] = field(default_factory=list)
    displaced: bool = False
    ops: list[PathChange] = field(default_factory=list)
    alike: list["Lineage"] = field(default_factory=list)

    @property
    def paths(self) -> frozenset[RepoPath]:
        """Return every path that the file ever had here."""
        olds = {event.old_path for event in self.events if event.old_path is not None}
        return frozenset(olds | {event.path for event in self.events})


def trace(
    events: Sequence[PathChange], undoings: Undoings | None = None
) -> list[Lineage]:
    """Follow every file through its renames, in order of their first events.

    Args:
        events: Ascending.
        undoings: What each op undid; None where it does not matter which events are undone.
    """
    found: list[Lineage] = []
    at: dict[RepoPath, Lineage] = {}
    for event in events:
        lineage = at.pop(event.path_before, None)
        if lineage is None:
            lineage = Lineage(event.path)
            found.append(lineage)
        # A rename replaced this file: the disk has the other one, so this one counts as gone.
        if event.path in at:
            at[event.path].displaced = True
        lineage.events.append(event)
        lineage.path = event.path
        at[event.path] = lineage
        unit = undoings.get(event.op) if undoings and event.op is not None else None
        if unit is not None:
            other = _alike(lineage, event, unit, at)
            if other is not None:
                lineage.alike.append(other)
            for one in lineage.alike:
                one.ops.append(event)
    return found


def _alike(
    lineage: Lineage, event: PathChange, unit: Unit, at: Mapping[RepoPath, Lineage]
) -> Lineage | None:
    """Return the lineage at the path to which an undo of a unit moves a file back, if alike."""
    first = next(one for one in lineage.events if one is event or unit.holds(one))
    other = at.get(first.path_before)
    if other is None or other is lineage or first.before is None:
        return None
    return other if after_of(other.events[-1]) == before_of(first) else None


def before_of(event: PathChange) -> LineageRecord:
    """Return what stood before an event, at the old path where it is a rename."""
    return LineageRecord(event.path_before, event.before)


def after_of(event: PathChange) -> LineageRecord:
    """Return what an event left."""
    return LineageRecord(event.path, event.after)


def course_of(
    lineage: Lineage, undoings: Undoings, seqs: frozenset[int] = frozenset()
) -> Course:
    """Return which events of one lineage are undone at present, and which are on detours.

    Args:
        lineage: One that was traced with the same `undoings`.
        undoings: What each op undid.
        seqs: The unit: a restore that is part of it makes no detour, it is to be undone.
    """
    undone = _undone_by([*lineage.events, *lineage.ops], undoings)
    kept: list[PathChange] = []
    away: set[int] = set()
    detours: set[int] = set()
    for event in lineage.events:
        by_op = _is_moment(event, undoings) and not (
            event.seq in undone or event.seq in seqs
        )
        start = _began(kept, event) if event.switched or by_op else None
        if start is None:
            kept.append(event)
            continue
        passed = {one.seq for one in kept[start:]}
        del kept[start:]
        # A checkout and the way back leave the file as it was, so runs continue across them.
        detours |= passed | {event.seq}
        if event.op is None:
            away |= passed
        else:
            undone = {**dict.fromkeys(passed, event.op), **undone}
    return Course(undone, frozenset(away), frozenset(detours))


def _began(kept: Sequence[PathChange], event: PathChange) -> int | None:
    """Return where a detour began that an event ends: before it, the file was the same.

    Only Git's own switch begins a detour that Git ends: what it did not remove it did not
    restore. Git keeps no permissions but whether a file can be executed.
    """
    goal = after_of(event)
    for at in range(len(kept) - 1, -1, -1):
        was = before_of(kept[at])
        if event.switched:
            if kept[at].switched and _committed(was) == _committed(goal):
                return at
        elif was == goal:
            return at
    return None


def _committed(record: LineageRecord) -> tuple[RepoPath, tuple[Oid, int] | None]:
    path, version = record
    return path, None if version is None else (version.oid, git_mode(version.mode))


def _is_moment(event: PathChange, undoings: Undoings) -> bool:
    """Whether an op restored a moment, which undoes everything since, and no unit."""
    return event.op is not None and undoings.get(event.op, Unit()) == Unit()


def _undone_by(events: Sequence[PathChange], undoings: Undoings) -> dict[int, str]:
    """Return which events of one lineage, and of its `ops`, ops undid that count at present.

    An op counts unless an op that counts undid it; only what it did on this lineage matters,
    so that the rest of a partial undo can still be undone later.
    """
    rows: dict[str, list[int]] = {}
    for event in events:
        if event.op is not None and event.op in undoings:
            rows.setdefault(event.op, []).append(event.seq)
    undone: dict[int, str] = {}
    # Newest first: whether an op counts depends on whether a newer op that counts undid it.
    for op in sorted(rows, key=lambda one: rows[one][0], reverse=True):
        if all(seq in undone for seq in rows[op]):
            continue
        for event in events:
            if event.seq < rows[op][0] and undoings[op].holds(event):
                undone.setdefault(event.seq, op)
    return undone


def runs_of(
    lineage: Lineage,
    course: Course,
    belongs: Callable[[PathChange], bool],
    between: Collection[int] = (),
) -> list[EventRun]:
    """Return the unit's runs on a lineage, oldest first, those of Git's detours last.

    What is left out between an event of `between` and the next one continues its run.

    A gap in the recording (what an event found is not what the one before it left) ends a run
    too: what happened in it was not the unit's. So does a file that was moved in to a free name: it
    is another.
    """
    ahead = [one for one in lineage.events if one.seq not in course.detours]
    aside = [one for one in lineage.events if one.seq in course.away]
    switches = [one for one in ahead if one.switched]
    runs = [
        _run(events, _switch_after(switches, events[-1].seq))
        for events in _stretches(ahead, belongs, between)
    ]
    # What the fold takes first is last: what is on another branch changes nothing.
    return runs + [
        replace(_run(events, None), away=True)
        for events in _stretches(aside, belongs, between)
    ]


def _stretches(
    events: Sequence[PathChange],
    belongs: Callable[[PathChange], bool],
    between: Collection[int],
) -> list[list[PathChange]]:
    found: list[list[PathChange]] = []
    last: PathChange | None = None
    for event in events:
        if belongs(event):
            # What an event found is not what the one before it left: a write was missed.
            follows = last is not None and (
                last.seq in between or after_of(last) == before_of(event)
            )
            another = event.moved_in and event.before is None
            if follows and not another:
                found[-1].append(event)
            else:
                found.append([event])
        last = event if belongs(event) else None
    return found


def _run(events: Sequence[PathChange], switched_to: LineageRecord | None) -> EventRun:
    first, after = events[0], after_of(events[-1])
    before, moved_in, replaced = before_of(first), False, False
    came = next((one for one in reversed(events) if one.moved_in), None)
    # The unit may have moved away what it had moved in: then nothing of it is here.
    if came is not None and after.version is not None:
        moved_in = before.version is None
        replaced = not moved_in
        before = after_of(came) if moved_in else before
    return EventRun(
        before=before,
        after=after,
        switched_to=switched_to,
        baseless=first.before is None and first.kind in _NEEDS_BEFORE,
        moved_in=moved_in,
        replaced=replaced,
    )


def _switch_after(switches: Sequence[PathChange], seq: int) -> LineageRecord | None:
    later = [one for one in switches if one.seq > seq]
    return after_of(later[-1]) if later else None
