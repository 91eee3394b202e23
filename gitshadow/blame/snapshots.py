"""Store the result of a replay as bytes, so that the next replay can begin there.

The vectors of the present and of the last committed states are stored whole. Of all other states
only marks are stored: eight bytes for a content, a line or a change, enough to prove that something
did not exist. A replay from a snapshot gives the same answer as one from the first event, or raises
a DoubtError.
Invariant: pure. Bytes in another form or version are a DoubtError. Two things with one mark count
as one, by chance once in 2^64. No answer relies on a mark that exists, except for lines, of which
nothing more is asked.
"""

import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from typing import Generic, TypeVar

from gitshadow.blame.owners import (
    BlamedContent,
    Origin,
    OriginSource,
    Owner,
    count_lines,
)
from gitshadow.errors import StoreError
from gitshadow.model import Oid, PathChange, RepoPath
from gitshadow.store.digests import digest

T = TypeVar("T")
BYTES = 8
Change = tuple[tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...]]
"""The lines that a hunk removes, those that it adds, and the line above or below these."""
VERSION = 5
"""Counted up whenever a replay comes to answer otherwise, or the form changes."""
Place = tuple[str, RepoPath]
Read = Callable[[Oid], bytes]
EventPlace = tuple[int, RepoPath]
Fetch = Callable[[Collection[EventPlace]], Mapping[EventPlace, PathChange]]
"""Return events by number and path, as a switch has one number; those that are gone are missing."""
_SOURCES = tuple(OriginSource)
_OwnerRow = tuple[OriginSource, bytes, int, bytes, bytes, bool, bytes]
_Runs = list[tuple[int, int, int]]


def mark_of(data: bytes) -> int:
    """Return the mark of some bytes."""
    return int(digest(data, BYTES), 16)


def mark_of_oid(oid: Oid) -> int:
    """Return the mark of an object: the front of its id."""
    return int(oid[: 2 * BYTES], 16)


class FingerprintSet:
    """A set of marks that needs no decoding: sorted, in bytes."""

    __slots__ = ("_cells", "data")

    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        self._cells = memoryview(data).cast("Q")

    @classmethod
    def of(cls, marks: Iterable[int]) -> "FingerprintSet":
        """Return the set of some marks."""
        # Sorted cells are searched in the bytes as they are stored: nothing is decoded.
        made = array("Q", dict.fromkeys(sorted(marks)))
        return cls(made.tobytes())

    def __contains__(self, mark: int) -> bool:
        at = bisect_left(self._cells, mark)
        return at < len(self._cells) and self._cells[at] == mark

    def __len__(self) -> int:
        return len(self._cells)

    def with_more(self, marks: Iterable[int]) -> "FingerprintSet":
        """Return this set and some more."""
        return FingerprintSet.of((*self._cells, *marks))


NO_MARKS = FingerprintSet()


class GrowingMarks(Generic[T]):
    """The marks of a set that only grows, in order; a mark is made and put in its place once.

    A first replay takes several snapshots, mostly of the same things.
    """

    def __init__(self, mark: Callable[[T], int]) -> None:
        self._mark = mark
        self._seen: set[T] = set()
        self._sorted: list[int] = []

    def of(self, things: Set[T]) -> Sequence[int]:
        """Return the marks of some things, among which are all of before."""
        fresh = things - self._seen
        self._seen |= fresh
        # Two runs in order are merged, not sorted: https://docs.python.org/3/howto/sorting.html
        self._sorted += sorted(map(self._mark, fresh))
        self._sorted.sort()
        return self._sorted


class DoubtError(Exception):
    """Report that a snapshot does not suffice; the replay has to begin at the first event."""


def _no_tips() -> Sequence[BlamedContent]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """Store marks of all that the events before a snapshot met; of none by default.

    `contents`: of every version of the files; `plain`: of those with CRLF, without it; `parted`:
    those that Git removed; `lost`: lines of these; `written`: lines that an event wrote;
    `changes`: between committed states. `tips` gives the last committed states.
    """

    contents: FingerprintSet = NO_MARKS
    plain: FingerprintSet = NO_MARKS
    parted: FingerprintSet = NO_MARKS
    lost: FingerprintSet = NO_MARKS
    written: FingerprintSet = NO_MARKS
    changes: FingerprintSet = NO_MARKS
    cells: int = 0
    empty: bool = True
    """Whether there was nothing: the replay begins at the first event."""
    tips: Callable[[], Sequence[BlamedContent]] = _no_tips

    def no_content(self, oid: Oid) -> None:
        """Raise DoubtError unless a content was never there."""
        if mark_of_oid(oid) in self.contents:
            raise DoubtError

    def no_plain(self, oid: Oid) -> None:
        """Raise DoubtError unless no content becomes this one without its carriage returns."""
        if mark_of_oid(oid) in self.plain:
            raise DoubtError

    def no_change(self, change: Change) -> None:
        """Raise DoubtError unless a change was never made between committed states."""
        if mark_of_change(change) in self.changes:
            raise DoubtError

    def has_parted(self, oid: Oid) -> bool:
        """Return whether Git took a content away."""
        return mark_of_oid(oid) in self.parted

    def has_lost(self, line: bytes) -> bool:
        """Return whether Git took a line away."""
        return mark_of(line) in self.lost

    def has_written(self, line: bytes) -> bool:
        """Return whether an event wrote such a line."""
        return mark_of(line) in self.written

    def all_there(self) -> None:
        """Raise DoubtError unless nothing was before."""
        if not self.empty:
            raise DoubtError


def mark_of_change(change: Change) -> int:
    """Return the mark of a change."""
    # The lengths keep lines apart, so that no two changes give the same bytes.
    sides = (b"".join(b"%d:%b" % (len(one), one) for one in side) for side in change)
    return mark_of(b"|".join(sides))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameSnapshot:
    """Store the state at each path, and what is known of the rest.

    `newest` are those states that are the last ones with their content.
    """

    at: Mapping[Place, BlamedContent]
    newest: Collection[BlamedContent]
    before: Before


def pack(snapshot: BlameSnapshot) -> bytes:
    """Return a snapshot as bytes."""
    out, owners = _Out(), _Numbered()
    # Identity counts: two places may hold equal states of which one is the last.
    newest = {id(state) for state in snapshot.newest}
    before = snapshot.before
    out.number(before.cells)
    for marks in _sets(before):
        out.text(marks.data)
    out.number(len(snapshot.at))
    for (worktree, path), state in snapshot.at.items():
        out.text(worktree.encode())
        out.text(path)
        out.number(id(state) in newest)
        out.state(state, owners)
    tips = before.tips()
    out.number(len(tips))
    for tip in tips:
        out.state(tip, owners)
    # Owners come last, because they get their numbers while the states are written.
    out.number(len(owners.found))
    for owner in owners.found:
        out.owner(owner)
    return out.packed()


def unpack(data: bytes, read: Read, fetch: Fetch) -> BlameSnapshot:
    """Return a snapshot that was packed.

    Args:
        data: What `pack` made.
        read: Gives the contents of the states.
        fetch: Gives the events that own lines.

    Raises:
        DoubtError: it was not made by this version, or what it names is gone.
    """
    try:
        return _snapshot(_In.opened(data), read, fetch)
    except (IndexError, ValueError, zlib.error, StoreError) as error:
        raise DoubtError from error


def _sets(before: Before) -> tuple[FingerprintSet, ...]:
    return (
        before.contents,
        before.plain,
        before.parted,
        before.lost,
        before.written,
        before.changes,
    )


def _snapshot(of: "_In", read: Read, fetch: Fetch) -> BlameSnapshot:
    cells = of.number()
    contents, plain, parted, lost, written, changes = (
        FingerprintSet(of.text()) for _ in range(6)
    )
    places: list[tuple[Place, bool, Oid, _Runs]] = []
    for _ in range(of.number()):
        place = of.text().decode(), RepoPath(of.text())
        places.append((place, of.number() != 0, *of.state()))
    lasts = [of.state() for _ in range(of.number())]
    owners = _Owners([of.owner() for _ in range(of.number())], fetch)
    # The owners of the tips are left out: few replays ask for them.
    owners.need(run for _, _, _, runs in places for run in runs)
    at = {place: owners.state(oid, runs, read) for place, _, oid, runs in places}

    @cache
    def tips() -> Sequence[BlamedContent]:
        try:
            owners.need(run for _, runs in lasts for run in runs)
            return [owners.state(oid, runs, read) for oid, runs in lasts]
        except StoreError as error:
            raise DoubtError from error

    return BlameSnapshot(
        at=at,
        newest=[at[place] for place, is_newest, _, _ in places if is_newest],
        before=Before(
            contents=contents,
            plain=plain,
            parted=parted,
            lost=lost,
            written=written,
            changes=changes,
            cells=cells,
            empty=False,
            tips=tips,
        ),
    )


@dataclass(slots=True)
class _Numbered:
    found: list[Owner] = field(default_factory=list)
    _at: dict[int, int] = field(default_factory=dict)

    def number(self, owner: Owner) -> int:
        """Return the number of an owner, given where it is new."""
        if id(owner) not in self._at:
            self._at[id(owner)] = len(self.found)
            self.found.append(owner)
        return self._at[id(owner)]


@dataclass(slots=True)
class _Owners:
    """Make owners from their rows, each once, with their events in few questions."""

    rows: Sequence[_OwnerRow]
    fetch: Fetch
    _made: dict[int, Owner] = field(default_factory=dict)

    def need(self, runs: Iterable[tuple[int, int, int]]) -> None:
        """Make the owners that some runs name."""
        wanted = {number for number, _, _ in runs} - self._made.keys()
        named = {(self.rows[at][2], RepoPath(self.rows[at][1])) for at in wanted}
        places = {place for place in named if place[0]}
        known = self.fetch(places)
        # A pruned or rebuilt row leaves nothing to name as the author.
        if len(known) != len(places):
            raise DoubtError
        for number in wanted:
            source, path, seq, commit, content, switched, note = self.rows[number]
            self._made[number] = Owner(
                source=source,
                path=RepoPath(path),
                event=known[seq, RepoPath(path)] if seq else None,
                commit=Oid(commit.decode()) if commit else None,
                content=Oid(content.decode()) if content else None,
                switched=switched,
                note=note.decode() if note else None,
            )

    def state(self, oid: Oid, runs: _Runs, read: Read) -> BlamedContent:
        """Return a state whose owners were made."""
        data = read(oid)
        vector = [
            Origin(self._made[number], line)
            for number, start, count in runs
            for line in range(start, start + count)
        ]
        # A damaged row must not move owners to other lines.
        if len(vector) != count_lines(data):
            raise DoubtError
        return BlamedContent(oid, data, vector)


class _Out:
    def __init__(self) -> None:
        self._numbers = array("q")
        self._texts: list[bytes] = []

    def number(self, number: int) -> None:
        self._numbers.append(number)

    def text(self, text: bytes) -> None:
        self._numbers.append(len(text))
        self._texts.append(text)

    def state(self, state: BlamedContent, owners: _Numbered) -> None:
        self.text(state.oid.encode())
        runs: list[list[int]] = []
        last: Owner | None = None
        for owner, line in state.vector:
            # Neighbouring lines of one owner are one run, so a file is as long as its edits.
            if owner is last and line == runs[-1][1] + runs[-1][2]:
                runs[-1][2] += 1
            else:
                runs.append([owners.number(owner), line, 1])
                last = owner
        self.number(len(runs))
        for run in runs:
            self._numbers.extend(run)

    def owner(self, owner: Owner) -> None:
        self.number(_SOURCES.index(owner.source))
        self.text(owner.path)
        self.number(0 if owner.event is None else owner.event.seq)
        self.text((owner.commit or "").encode())
        self.text((owner.content or "").encode())
        self.number(owner.switched)
        self.text((owner.note or "").encode())

    def packed(self) -> bytes:
        head = array("q", [VERSION, len(self._numbers)]).tobytes()
        data = zlib.compress(
            head + self._numbers.tobytes() + b"".join(self._texts), level=1
        )
        return data + zlib.crc32(data).to_bytes(4, "big")


@dataclass(slots=True)
class _In:
    _numbers: "array[int]"
    _texts: bytes
    _at: int = 0
    _text_at: int = 0

    @classmethod
    def opened(cls, data: bytes) -> "_In":
        # The checksum is of the compressed bytes, so that nothing broken is unpacked.
        if zlib.crc32(data[:-4]).to_bytes(4, "big") != data[-4:]:
            raise DoubtError
        plain = zlib.decompress(data[:-4])
        version, count = array("q", plain[:16])
        if version != VERSION:
            raise DoubtError
        end = 16 + 8 * count
        return cls(array("q", plain[16:end]), plain[end:])

    def number(self) -> int:
        self._at += 1
        return self._numbers[self._at - 1]

    def text(self) -> bytes:
        start = self._text_at
        self._text_at += self.number()
        return self._texts[start : self._text_at]

    def state(self) -> tuple[Oid, _Runs]:
        oid, start = Oid(self.text().decode()), self._at + 1
        end = start + 3 * self.number()
        self._at = end
        flat = self._numbers[start:end]
        return oid, list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))

    def owner(self) -> _OwnerRow:
        source, path, seq = _SOURCES[self.number()], self.text(), self.number()
        commit, content = self.text(), self.text()
        return source, path, seq, commit, content, self.number() != 0, self.text()
