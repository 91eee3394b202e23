"""Owners of lines: one origin for each line of a content, carried through line diffs.

Invariant: pure; a vector has exactly as many origins as its content has lines, and is never changed
once it was made.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import repeat
from typing import NamedTuple

from gitshadow.model import Oid, PathChange, RepoPath
from gitshadow.store.line_diff import Hunk

Diff = Callable[[bytes, bytes], Sequence[Hunk]]
"""Where two contents differ: old start, old lines, new start, new lines, as unified diffs count."""


class OriginSource(StrEnum):
    """Store what a line's origin rests on."""

    EVENT = "event"
    """A recorded write made it."""
    GROUND = "ground"
    """It is in a content that Git made, or that was there first: ask Git."""
    COMMIT = "commit"
    """Git names the commit that brought it."""
    BEFORE = "before"
    """It stood there, uncommitted, when recording began."""
    UNKNOWN = "unknown"
    """It is unknown; the note says why."""
    UNRECORDED = "unrecorded"
    """It is on disk but in no recorded state."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Owner:
    """Store what some lines have in common; two owners are the same only if they are one.

    `path` is the file's name in the state that the lines came with. `content` is that state's
    blob where the source is GROUND; `switched` tells a content that Git brought when HEAD
    moved from one that was there before everything recorded.
    """

    source: OriginSource
    path: RepoPath
    event: PathChange | None = None
    commit: Oid | None = None
    content: Oid | None = None
    switched: bool = False
    note: str | None = None


class Origin(NamedTuple):
    """Store the owner of a line and its number, from 1, in the state that it came with."""

    owner: Owner
    line: int


_new_origin = partial(tuple.__new__, Origin)
Vector = list[Origin]


@dataclass(frozen=True, slots=True)
class BlamedContent:
    """Store a recorded content with the origins of its lines."""

    oid: Oid
    data: bytes
    vector: Vector


def whole(data: bytes) -> bytes:
    r"""Return a content whose last line ends with `\n`, so that gaining one changes no line."""
    return data if not data or data.endswith(b"\n") else data + b"\n"


def count_lines(data: bytes) -> int:
    r"""Return how many lines a content has; only `\n` ends one, as for Git."""
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)


def split_lines(data: bytes) -> list[bytes]:
    r"""Return the lines of a content without their `\n`."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def new_lines(data: bytes, hunks: Sequence[Hunk]) -> list[bytes]:
    r"""Return the lines of a content, without their `\n`, that a change brought."""
    if not hunks:
        return []
    _, _, start, count = hunks[-1]
    # What follows the last change need not be split.
    lines = data.split(b"\n", start - 1 + count)
    return [
        line
        for _, _, start, count in hunks
        for line in lines[start - 1 : start - 1 + count]
    ]


def fresh(owner: Owner, count: int) -> Vector:
    """Return the vector of a content that one owner brought whole."""
    return list(_origins(owner, 1, count))


def carried(vector: Vector, hunks: Sequence[Hunk], owner: Owner) -> Vector:
    """Return the vector after a change: kept lines keep their origin, new ones get an owner."""
    made: Vector = []
    at = 0
    for old_start, old_lines, new_start, new_lines in hunks:
        # In unified diffs a side without lines is numbered by the line before it; GNU diff,
        # "Hunks".
        begin = old_start - 1 if old_lines else old_start
        made += vector[at:begin]
        made += _origins(owner, new_start, new_lines)
        at = begin + old_lines
    made += vector[at:]
    return made


def _origins(owner: Owner, start: int, count: int) -> Iterator[Origin]:
    # A replay makes millions: the call of a class takes twice as long.
    return map(_new_origin, zip(repeat(owner), range(start, start + count)))


def removed(vector: Vector, hunks: Sequence[Hunk]) -> Iterator[tuple[int, Origin]]:
    """Yield the lines, by number from 1, that a change removed, with their origins."""
    for old_start, old_lines, _, _ in hunks:
        for line in range(old_start, old_start + old_lines):
            yield line, vector[line - 1]


def added_numbers(hunks: Sequence[Hunk]) -> Iterator[int]:
    """Yield the numbers, from 1, of the lines that a change adds."""
    for _, _, start, count in hunks:
        yield from range(start, start + count)


def kept_lines(hunks: Sequence[Hunk], count: int) -> Iterator[tuple[int, int]]:
    """Yield (old index, new index), from 0, of the lines that a change keeps.

    Args:
        hunks: The change.
        count: The number of lines of the new content.
    """
    old = new = 0
    for old_start, old_lines, new_start, new_lines in (*hunks, (0, 0, count + 1, 1)):
        # The last, artificial hunk yields the lines after the last change.
        begin = new_start - 1 if new_lines else new_start
        for _ in range(begin - new):
            yield old, new
            old, new = old + 1, new + 1
        old += old_lines
        new = begin + new_lines
        del old_start


def fill(
    vector: Vector, missing: set[int], source: BlamedContent, hunks: Sequence[Hunk]
) -> None:
    """Set missing origins of a vector under construction to those that a state has.

    Args:
        vector: The vector; changed in place, so nobody else may hold it yet.
        missing: Indexes from 0 that have no origin yet; those that were found are removed.
        source: The state that may have them.
        hunks: From the source's content to the vector's.
    """
    for old, new in kept_lines(hunks, len(vector)):
        if new in missing:
            vector[new] = source.vector[old]
            missing.discard(new)
