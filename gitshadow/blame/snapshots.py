"""Snapshots: what a replay came to, as bytes, so that the next one can begin there.

Whole are the vectors of what stands and of the last committed states; of everything else there
are marks (`before`). A replay that begins at a snapshot gives what one from the first event gives,
or a DoubtError.
Invariant: pure; bytes that are not of this form, or of another version, are a DoubtError.
"""

import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from gitshadow.blame.fingerprints import FingerprintSet
from gitshadow.blame.owners import (
    BlamedContent,
    Origin,
    OriginSource,
    Owner,
    count_lines,
)
from gitshadow.blame.replay_bounds import Before, DoubtError
from gitshadow.errors import StoreError
from gitshadow.model import Event, Oid, RepoPath

VERSION = 2
"""Counted up whenever a replay comes to answer otherwise, or the form changes."""

Place = tuple[str, RepoPath]
Read = Callable[[Oid], bytes]
Fetch = Callable[[Collection[int]], Mapping[int, Event]]
"""Return events by their numbers; those that are gone are missing."""

_SOURCES = tuple(OriginSource)
_OwnerRow = tuple[OriginSource, bytes, int, bytes, bytes, bool, bytes]
_Runs = list[tuple[int, int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameSnapshot:
    """Hold what stands at each place, and what is known of the rest.

    `newest` are those states that are the last ones with their content.
    """

    at: Mapping[Place, BlamedContent]
    newest: Collection[BlamedContent]
    before: Before


def pack(snapshot: BlameSnapshot) -> bytes:
    """Return a snapshot as bytes."""
    out, owners = _Out(), _Numbered()
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


# -- owners by their numbers -----------------------------------------------------------------


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
        seqs = {self.rows[number][2] for number in wanted} - {0}
        known = self.fetch(seqs)
        if len(known) != len(seqs):
            raise DoubtError
        for number in wanted:
            source, path, seq, commit, content, switched, note = self.rows[number]
            self._made[number] = Owner(
                source=source,
                path=RepoPath(path),
                event=known[seq] if seq else None,
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
        if len(vector) != count_lines(data):
            raise DoubtError
        return BlamedContent(oid, data, vector)


# -- numbers and texts as bytes --------------------------------------------------------------


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
