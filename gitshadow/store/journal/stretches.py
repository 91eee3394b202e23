"""Stretches: changes of one path that follow each other, of which only the ends are read whole.

A turn can write one file a hundred thousand times. An undo needs what was there before the first of
these writes, what the last one left, and the numbers of those between.
Invariant: what is left out is between two changes of the same path that an undo treats alike; it
found what the one before it left, and is no rename, no restore, no switch and not moved in.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter, itemgetter
from typing import NamedTuple

from gitshadow.model import Confidence, EventKind, PathChange, RepoPath
from gitshadow.store.journal import events
from gitshadow.store.journal.db import Db, Row
from gitshadow.store.journal.events import EventFilter

# The columns of a stored row, in the order of `events`. A named tuple for each of a hundred
# thousand rows would take as long as to read them.
_SEQ, _TS, _KIND, _PATH, _OLD_PATH, _BEFORE, _AFTER = 0, 1, 3, 4, 5, 6, 8
_SESSION, _CALL, _CONFIDENCE, _REASON = 11, 14, 16, 17
_OP, _SWITCHED, _MOVED_IN = 21, 23, 25
_GROUP, _AUTHOR = itemgetter(19, 11, 13), itemgetter(19, 11, 13, 10, 16)
_UNSURE = frozenset({Confidence.LOW.value, Confidence.AMBIGUOUS.value})
_NOT_WRITTEN = frozenset(
    kind.value
    for kind in (EventKind.GAP, EventKind.HEAD, EventKind.BASELINE, EventKind.COVERAGE)
)


class Singles(NamedTuple):
    """Changes that an op may have undone one by one: by number, or by (session, call)."""

    seqs: frozenset[int] = frozenset()
    calls: frozenset[tuple[str, str]] = frozenset()


class Stretches(NamedTuple):
    """Changes, ascending, without those inside stretches.

    `between` are the numbers of what is left out, by the number of the change that precedes it.
    """

    rows: tuple[PathChange, ...] = ()
    between: Mapping[int, tuple[int, ...]] = {}

    def seqs(self) -> frozenset[int]:
        """Return the numbers of all changes, also of those that are left out."""
        inner = (seq for left_out in self.between.values() for seq in left_out)
        return frozenset({row.seq for row in self.rows}.union(inner))

    def only(self, takes: Callable[[PathChange], bool]) -> "Stretches":
        """Return a part; both ends of a stretch must be taken or neither."""
        rows = tuple(filter(takes, self.rows))
        kept = self.between.keys() & {row.seq for row in rows}
        return Stretches(rows, {seq: self.between[seq] for seq in kept})

    def __add__(self, other: object) -> "Stretches":
        """Return the changes of both."""
        if not isinstance(other, Stretches):
            return NotImplemented
        # A change may be left out of one and an end of the other: then it is read as an end.
        rows = {row.seq: row for row in (*self.rows, *other.rows)}
        between = dict(self.between)
        for seq, left_out in other.between.items():
            between[seq] = tuple(sorted({*between.get(seq, ()), *left_out}))
        return Stretches(tuple(rows[seq] for seq in sorted(rows)), between)


NOTHING = Stretches()


def of_unit(db: Db, parts: Collection[EventFilter], singles: Singles) -> Stretches:
    """Return the writes that fit a filter, with equal author, turn and burst in each stretch.

    Restores fit only by their burst or op. What may not be the author's is never left out.
    """
    streams = [_written(db, part) for part in parts]
    rows = streams[0] if len(streams) == 1 else _distinct(streams)

    def mark(row: Row) -> Hashable:
        return None if row[_CONFIDENCE] in _UNSURE else _AUTHOR(row)

    return _folded(rows, mark, singles)


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """The changes of some paths and of all that they were renamed to or from, as stored.

    `heads` are the numbers of the moves of HEAD by which Git switched anything, `switched` is what
    it switched.
    """

    rows: list[Row]
    heads: list[int] = field(default_factory=list)
    switched: list[PathChange] = field(default_factory=list)

    def ops(self) -> frozenset[str]:
        """Return the ops that made some of the changes."""
        return frozenset(row[_OP] for row in self.rows if row[_OP] is not None)

    def folded(
        self,
        unit: frozenset[int],
        singles: Singles,
        is_alike: Callable[[str], Hashable],
    ) -> Stretches:
        """Return the changes with those in a stretch alike for the undo of a unit.

        Args:
            unit: The numbers of its events.
            singles: What the ops of this history may have undone one by one.
            is_alike: Maps the reasons of attributions to what must be equal in a stretch.
        """
        reasons: dict[str, Hashable] = {}

        def mark(row: Row) -> Hashable:
            reason = row[_REASON]
            if reason not in reasons:
                reasons[reason] = is_alike(reason)
            return row[_SEQ] in unit, reasons[reason], _GROUP(row)

        # A restore undoes what came since the file was as it restored it: such a moment is an end.
        ends = {
            (row[_PATH], *row[_AFTER : _AFTER + 2]) for row in self.rows if row[_OP]
        }
        found = _folded(self.rows, mark, singles, ends, self.heads)
        rows = sorted((*found.rows, *self.switched), key=attrgetter("seq", "path"))
        return Stretches(tuple(rows), found.between)


def history(
    db: Db, worktree: str, paths: Collection[RepoPath], since_seq: int
) -> StoredHistory:
    """Return what `events.history` returns, as it is stored."""
    rows, heads, switched = events.stored_history(db, worktree, paths, since_seq)
    # A move of HEAD by which Git switched nothing ends no stretch.
    return StoredHistory(rows, [head.seq for head in heads], switched)


def _written(db: Db, part: EventFilter) -> Iterator[Row]:
    any_op = part.burst is not None or part.op is not None
    for row in events.stored(db, part):
        if (any_op or row[_OP] is None) and not (
            row[_SWITCHED] or row[_KIND] in _NOT_WRITTEN
        ):
            yield row


def _distinct(streams: Iterable[Iterator[Row]]) -> Iterator[Row]:
    last = None
    for row in merge(*streams, key=itemgetter(_SEQ)):
        if row[_SEQ] != last:
            last = row[_SEQ]
            yield row


@dataclass(slots=True)
class _Stretch:
    first: Row
    last: Row
    mark: Hashable
    between: list[int] = field(default_factory=list)


def _folded(
    rows: Iterable[Row],
    mark: Callable[[Row], Hashable],
    singles: Singles,
    ends: Collection[tuple[object, ...]] = (),
    heads: Iterable[int] = (),
) -> Stretches:
    """Leave out what is inside stretches; a mark None stands alone, and so does a single."""
    kept: list[Row] = []
    between: dict[int, tuple[int, ...]] = {}
    open_at: dict[RepoPath, _Stretch] = {}

    def close(path: RepoPath) -> None:
        stretch = open_at.pop(path, None)
        if stretch is not None and stretch.last is not stretch.first:
            kept.append(stretch.last)
            if stretch.between:
                between[stretch.first[_SEQ]] = tuple(stretch.between)

    moves = iter((*heads, None))
    move = next(moves)
    for row in rows:
        # Git may have switched any path.
        while move is not None and move <= row[_SEQ]:
            move = next(moves)
            for path in tuple(open_at):
                close(path)
        path = row[_PATH]
        stretch = open_at.get(path)
        mine = None if _is_alone(row, singles) else mark(row)
        if stretch is not None and mine is not None and mine == stretch.mark:
            last = stretch.last
            if (
                row[_BEFORE] == last[_AFTER]
                and row[_BEFORE + 1] == last[_AFTER + 1]
                and row[_TS] >= last[_TS]
                and not (ends and (path, row[_BEFORE], row[_BEFORE + 1]) in ends)
            ):
                if last is not stretch.first:
                    stretch.between.append(last[_SEQ])
                stretch.last = row
                continue
        for end in (path, row[_OLD_PATH]):
            close(end)
        kept.append(row)
        open_at[path] = _Stretch(row, row, mine)
    for path in tuple(open_at):
        close(path)
    kept.sort(key=itemgetter(_SEQ))
    return Stretches(tuple(events.changes_of(kept)), between)


def _is_alone(row: Row, singles: Singles) -> bool:
    if row[_OLD_PATH] or row[_OP] or row[_SWITCHED] or row[_MOVED_IN]:
        return True
    if row[_KIND] in _NOT_WRITTEN or row[_SEQ] in singles.seqs:
        return True
    return bool(singles.calls) and (row[_SESSION], row[_CALL]) in singles.calls
