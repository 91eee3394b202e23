"""Lineages: one file followed through its renames, and the runs of a unit in it.

A *record* is a path with what it holds. A *run* is a stretch of the unit's events with nobody
else's between them: a switch by Git, a coverage row, another writer or a restore ends it.
Invariant: pure; events come in ascending order and every event is in exactly one lineage.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.model import Event, EventKind, FileVersion, RepoPath
from gitshadow.undo.units import Undoings

_NEEDS_BEFORE = frozenset(
    {
        EventKind.MODIFY,
        EventKind.DELETE,
        EventKind.RENAME,
        EventKind.MODE,
        EventKind.TYPE,
    }
)


class Record(NamedTuple):
    """Hold where a file is and what it holds; `version` is None where it is absent."""

    path: RepoPath
    version: FileVersion | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Hold one stretch of the unit's events on one lineage.

    `switched_to` is where Git's last later switch left the lineage, None where there was none.
    `baseless` means that what stood there before was never recorded. `moved_in` means that the
    unit did not create the file, but brought it from where nothing is recorded; `before` is then
    what it brought.
    """

    before: Record
    after: Record
    seqs: tuple[int, ...]
    switched_to: Record | None = None
    baseless: bool = False
    moved_in: bool = False


@dataclass(slots=True)
class Lineage:
    """Hold one file's events; `path` is where it stands after the last one.

    `displaced` means that another lineage was moved onto its path, so the disk's content there
    is not its own.
    """

    path: RepoPath
    events: list[Event] = field(default_factory=list)
    displaced: bool = False

    @property
    def paths(self) -> frozenset[RepoPath]:
        """Return every path that the file ever had here."""
        olds = {event.old_path for event in self.events if event.old_path is not None}
        return frozenset(olds | {event.path for event in self.events if event.path})


def trace(events: Sequence[Event]) -> list[Lineage]:
    """Follow every file through its renames, in order of their first events."""
    found: list[Lineage] = []
    at: dict[RepoPath, Lineage] = {}
    for event in events:
        if event.path is None:
            continue
        lineage = at.pop(event.old_path or event.path, None)
        if lineage is None:
            lineage = Lineage(event.path)
            found.append(lineage)
        if event.path in at:
            at[event.path].displaced = True
        lineage.events.append(event)
        lineage.path = event.path
        at[event.path] = lineage
    return found


def before_of(event: Event) -> Record:
    """Return what stood before an event, at the old path where it is a rename."""
    assert event.path is not None
    return Record(event.old_path or event.path, event.before)


def after_of(event: Event) -> Record:
    """Return what an event left."""
    assert event.path is not None
    return Record(event.path, event.after)


def undone_by(events: Sequence[Event], undoings: Undoings) -> dict[int, str]:
    """Return which events of one lineage are taken back at present, and by which op.

    An op counts unless an op that counts took it back; only what it did on this lineage
    matters, so that the rest of a partial undo can still be taken back later.
    """
    rows: dict[str, list[int]] = {}
    for event in events:
        if event.op is not None and event.op in undoings:
            rows.setdefault(event.op, []).append(event.seq)
    undone: dict[int, str] = {}
    for op in sorted(rows, key=lambda one: rows[one][0], reverse=True):
        if all(seq in undone for seq in rows[op]):
            continue
        for event in events:
            if event.seq < rows[op][0] and undoings[op].holds(event):
                undone.setdefault(event.seq, op)
    return undone


def runs_of(lineage: Lineage, belongs: Callable[[Event], bool]) -> list[Run]:
    """Return the unit's runs on a lineage, oldest first.

    A gap in the recording (what an event found is not what the one before it left) ends a run
    too: what happened in it was not the unit's. So does a file that was moved in: it is another.
    """
    runs: list[list[Event]] = []
    last: Event | None = None
    for event in lineage.events:
        if belongs(event):
            follows = last is not None and after_of(last) == before_of(event)
            if follows and not event.moved_in:
                runs[-1].append(event)
            else:
                runs.append([event])
        last = event if belongs(event) else None
    return [_run(events, _switch_after(lineage, events[-1].seq)) for events in runs]


def _run(events: Sequence[Event], switched_to: Record | None) -> Run:
    first, after = events[0], after_of(events[-1])
    # What was brought and taken away again, the unit put back where it had been.
    moved_in = first.moved_in and after.version is not None
    return Run(
        before=after_of(first) if moved_in else before_of(first),
        after=after,
        seqs=tuple(event.seq for event in events),
        switched_to=switched_to,
        baseless=first.before is None and first.kind in _NEEDS_BEFORE,
        moved_in=moved_in,
    )


def _switch_after(lineage: Lineage, seq: int) -> Record | None:
    later = [one for one in lineage.events if one.switched and one.seq > seq]
    return after_of(later[-1]) if later else None
