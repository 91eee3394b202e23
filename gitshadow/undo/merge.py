"""Three-way merge of files as lists of bytes lines; the only importer of merge3.

merge3 finds the regions. Where it sees a conflict, edits that only touch (one ends where the other
begins) are still distinguished, because "the next line is somebody else's" is what undo is about.
Invariant: bytes in, bytes out; a line that only the present has is in every result.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

from merge3 import Merge3

NO_END = "\\ No newline at end of file"
"""What a diff has below a last line without a newline."""
_SLOW_CELLS = 4_000_000
_STAT_BYTES = 1 << 20

Block = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Labels:
    """The names of the two sides of a conflict, for markers."""

    before: str
    present: str


@dataclass(frozen=True, slots=True)
class MergeEdit:
    """One edit: base lines `[start, end)` become `lines`."""

    start: int
    end: int
    lines: tuple[bytes, ...]


def is_binary(data: bytes) -> bool:
    """Return whether data has no lines: it has a NUL byte."""
    return b"\0" in data


def split_lines(data: bytes) -> list[bytes]:
    r"""Split after each `\n` and nowhere else; the last line may have none."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def merge(base: bytes, before: bytes, present: bytes) -> bytes | None:
    """Undo the step from `before` to `base` in `present`.

    Args:
        base: What the undone unit left.
        before: What stood there before it.
        present: The present content.

    Returns:
        The merged bytes, or None where both changed the same lines.
    """
    merged: list[bytes] = []
    for agreed, _ in _regions(base, before, present):
        if agreed is None:
            return None
        merged += agreed
    return b"".join(merged) if _joinable(merged) else None


def mark(
    base: bytes, before: bytes, present: bytes, labels: Labels
) -> tuple[bytes, int]:
    """Merge with conflict markers where both changed the same lines.

    Returns:
        The merged bytes and the number of conflicts in them, 1 or more.
    """
    # Markers get the line ends of the file, or an editor shows it as one with mixed ends.
    newline = b"\r\n" if present.split(b"\n", 1)[0].endswith(b"\r") else b"\n"
    merged: list[bytes] = []
    conflicts = 0
    for agreed, sides in _regions(base, before, present):
        if agreed is not None:
            merged += agreed
            continue
        conflicts += 1
        merged += _marked(sides, labels, newline)
    # A last line without a newline in the middle of the result would run into the next line.
    if conflicts and _joinable(merged):
        return b"".join(merged), conflicts
    # Without line ends no place for markers inside is safe, so both versions are marked whole.
    whole = _marked((split_lines(before), split_lines(present)), labels, newline)
    return b"".join(whole), 1


def count_changes(old: bytes, new: bytes) -> tuple[int, int] | None:
    """Return the lines added and removed from one state to another, None for binary data."""
    if is_binary(old) or is_binary(new) or len(old) + len(new) > _STAT_BYTES:
        return None
    was, now = split_lines(old), split_lines(new)
    kept = sum(block[2] for block in matching_blocks(was, now))
    return len(now) - kept, len(was) - kept


def _regions(
    base: bytes, before: bytes, present: bytes
) -> Iterator[tuple[Sequence[bytes] | None, tuple[Sequence[bytes], Sequence[bytes]]]]:
    """Yield agreed lines, or None with the two sides of a conflict."""
    merger = Merge3(
        split_lines(base),
        split_lines(before),
        split_lines(present),
        sequence_matcher=_Matcher,
    )
    for group in merger.merge_groups():
        # merge3 makes one conflict of edits that only touch, and in an undo somebody else's line is
        # often next to the agent's.
        if group[0] == "conflict":
            sides = group[2], group[3]
            yield _untangle(group[1], *sides), sides
        else:
            yield group[1], ((), ())


def _untangle(
    base: Sequence[bytes], before: Sequence[bytes], present: Sequence[bytes]
) -> list[bytes] | None:
    """Apply the edits of both sides where none of them overlap; None where some do.

    Two insertions at one place have no order that anybody meant: they overlap.
    """
    both = sorted(
        {*edits(base, before), *edits(base, present)},
        key=lambda edit: (edit.start, edit.end),
    )
    # An edit that both sides made is in the set once, so it does not overlap with itself.
    for one, two in pairwise(both):
        if two.start < one.end or (one.start, one.end) == (two.start, two.end):
            return None
    return edited(base, both)


def edited(base: Sequence[bytes], chosen: Sequence[MergeEdit]) -> list[bytes]:
    """Return lines after edits that are in order and do not overlap."""
    merged: list[bytes] = []
    at = 0
    for edit in chosen:
        merged += [*base[at : edit.start], *edit.lines]
        at = edit.end
    return [*merged, *base[at:]]


def edits(base: Sequence[bytes], side: Sequence[bytes]) -> Iterator[MergeEdit]:
    """Yield the edits that make one list of lines of another, in order."""
    at_base = at_side = 0
    for base_start, side_start, length in matching_blocks(base, side):
        if base_start > at_base or side_start > at_side:
            yield MergeEdit(at_base, base_start, tuple(side[at_side:side_start]))
        at_base, at_side = base_start + length, side_start + length


def _marked(
    sides: tuple[Sequence[bytes], Sequence[bytes]], labels: Labels, newline: bytes
) -> list[bytes]:
    return [
        b"<<<<<<< " + labels.before.encode() + newline,
        *_ended(sides[0], newline),
        b"=======" + newline,
        *_ended(sides[1], newline),
        b">>>>>>> " + labels.present.encode() + newline,
    ]


def _ended(lines: Sequence[bytes], newline: bytes) -> list[bytes]:
    """Return lines of which the last one ends, so that a marker is on a line of its own."""
    if lines and not lines[-1].endswith(b"\n"):
        return [*lines[:-1], lines[-1] + newline]
    return list(lines)


def _joinable(lines: Sequence[bytes]) -> bool:
    """Return whether only the last line lacks its end: else two lines would become one."""
    return all(line.endswith(b"\n") for line in lines[:-1])


class _Matcher:
    """Our matching blocks in the shape of `difflib.SequenceMatcher`, for merge3."""

    def __init__(
        self,
        isjunk: object = None,
        a: Sequence[bytes] = (),
        b: Sequence[bytes] = (),
        autojunk: bool = True,
    ) -> None:
        del isjunk, autojunk
        self._a, self._b = a, b

    def get_matching_blocks(self) -> list[Block]:
        """Return the blocks, with the empty one at the end that merge3 expects."""
        return matching_blocks(self._a, self._b)


def matching_blocks(a: Sequence[bytes], b: Sequence[bytes]) -> list[Block]:
    """Return (start in a, start in b, length) of equal lines, ascending, ends included.

    Equal heads and tails first, then lines that are unique on both sides (patience), then
    difflib for what is left; the last block is empty and is at both ends.
    """
    pairs = _pairs(a, b)
    blocks: list[Block] = []
    for at_a, at_b in pairs:
        if blocks and (at_a, at_b) == (
            blocks[-1][0] + blocks[-1][2],
            blocks[-1][1] + blocks[-1][2],
        ):
            blocks[-1] = (blocks[-1][0], blocks[-1][1], blocks[-1][2] + 1)
        else:
            blocks.append((at_a, at_b, 1))
    return [*blocks, (len(a), len(b), 0)]


class _Part(NamedTuple):
    """A range of each side; `equal`: they are the same, line by line."""

    in_a: tuple[int, int]
    in_b: tuple[int, int]
    equal: bool = False


def _pairs(a: Sequence[bytes], b: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the matched lines, ascending."""
    # Ranges between unique lines have unique lines of their own, as deep as there are lines: a
    # call within a call for each would end with a RecursionError.
    todo = [_Part((0, len(a)), (0, len(b)))]
    while todo:
        part = todo.pop()
        if part.equal:
            yield from zip(range(*part.in_a), range(*part.in_b), strict=True)
            continue
        head, inner, tail = _trimmed(a, b, part)
        yield from zip(range(*head.in_a), range(*head.in_b), strict=True)
        todo.append(tail)
        if not (inner.in_a[0] < inner.in_a[1] and inner.in_b[0] < inner.in_b[1]):
            continue
        anchors = _anchors(a, b, inner.in_a, inner.in_b)
        if anchors:
            todo += _between(anchors, inner)[::-1]
        else:
            yield from _plain_pairs(a, b, inner.in_a, inner.in_b)


def _trimmed(
    a: Sequence[bytes], b: Sequence[bytes], part: _Part
) -> tuple[_Part, _Part, _Part]:
    """Return the equal lines at the start, what is left to match, and those at the end."""
    (start_a, end_a), (start_b, end_b) = part.in_a, part.in_b
    # Most files differ in few lines, so what is equal at both ends is cut off before the slow part.
    most = min(end_a - start_a, end_b - start_b)
    head = 0
    while head < most and a[start_a + head] == b[start_b + head]:
        head += 1
    tail = 0
    while tail < most - head and a[end_a - tail - 1] == b[end_b - tail - 1]:
        tail += 1
    return (
        _Part((start_a, start_a + head), (start_b, start_b + head), True),
        _Part((start_a + head, end_a - tail), (start_b + head, end_b - tail)),
        _Part((end_a - tail, end_a), (end_b - tail, end_b), True),
    )


def _between(anchors: Sequence[tuple[int, int]], inner: _Part) -> list[_Part]:
    """Return the ranges between matched lines, and these, in order."""
    found: list[_Part] = []
    at_a, at_b = inner.in_a[0], inner.in_b[0]
    for anchor_a, anchor_b in anchors:
        found.append(_Part((at_a, anchor_a), (at_b, anchor_b)))
        at_a, at_b = anchor_a + 1, anchor_b + 1
        found.append(_Part((anchor_a, at_a), (anchor_b, at_b), True))
    return [*found, _Part((at_a, inner.in_a[1]), (at_b, inner.in_b[1]))]


def _anchors(
    a: Sequence[bytes], b: Sequence[bytes], in_a: tuple[int, int], in_b: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return the longest rising sequence of lines that are unique in both ranges."""
    once_a, once_b = _unique(a, in_a), _unique(b, in_b)
    pairs = sorted((at, once_b[line]) for line, at in once_a.items() if line in once_b)
    # Patience sorting: the longest rising subsequence in O(n log n).
    tails: list[int] = []
    chosen: list[int] = []
    back: list[int] = []
    for index, (_, at_b) in enumerate(pairs):
        place = bisect_left(tails, at_b)
        back.append(chosen[place - 1] if place else -1)
        if place == len(tails):
            tails.append(at_b)
            chosen.append(index)
        else:
            tails[place], chosen[place] = at_b, index
    found: list[tuple[int, int]] = []
    at = chosen[-1] if chosen else -1
    while at >= 0:
        found.append(pairs[at])
        at = back[at]
    return found[::-1]


def _unique(lines: Sequence[bytes], inside: tuple[int, int]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for at in range(*inside):
        found[lines[at]] = -1 if lines[at] in found else at
    return {line: at for line, at in found.items() if at >= 0}


def _plain_pairs(
    a: Sequence[bytes], b: Sequence[bytes], in_a: tuple[int, int], in_b: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """Match by difflib; its shortcut for frequent lines only where it would take long."""
    # difflib takes quadratic time; autojunk ignores frequent lines, which is fast but coarse.
    cells = (in_a[1] - in_a[0]) * (in_b[1] - in_b[0])
    matcher = SequenceMatcher(
        None, a[slice(*in_a)], b[slice(*in_b)], autojunk=cells > _SLOW_CELLS
    )
    for at_a, at_b, length in matcher.get_matching_blocks():
        for step in range(length):
            yield in_a[0] + at_a + step, in_b[0] + at_b + step
