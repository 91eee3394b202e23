"""Lines that were moved or copied, `-C` of git-blame(1): they keep the owner that they had.

Looked for are the lines that one event added, in what the files of its burst held before it: in its
own file at least 20 letters and digits, in another 40, as many as Git asks for.
Invariant: only runs of whole, equal lines count.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from gitshadow.blame.owners import BlamedContent, OriginSource, Vector, split_lines
from gitshadow.model import Event

_OWN, _OTHER = 20, 40


class CopySource(NamedTuple):
    """Hold a state to look in for lines that an event added; `is_own`: of the file itself."""

    event: Event
    state: BlamedContent
    is_own: bool


Places = Callable[[Sequence[Event]], Iterable[CopySource]]
"""Give the states to look in for what some events added; of one event its own file's first."""


def traced(data: bytes, vector: Vector, places: Places) -> Vector:
    """Return a settled vector with the origins of what was moved or copied."""
    lines, made = split_lines(data), list(vector)
    weights = (len(line.translate(None, _NOT_ALNUM)) for line in lines)
    sums, left = list(accumulate(weights, initial=0)), _MOST_STEPS
    runs: dict[int, list[tuple[int, int]]] = {}
    asked: dict[int, Event] = {}
    for start, end in _runs(vector):
        event = vector[start].owner.event
        if event is not None and sums[end] - sums[start] >= _OWN:
            runs.setdefault(event.seq, []).append((start, end))
            asked[event.seq] = event
    for event, state, is_own in places([asked[seq] for seq in sorted(asked)]):
        search = _Search(lines, sums, split_lines(state.data), left)
        rest: list[tuple[int, int]] = []
        for start, end in runs[event.seq]:
            for at, length, there in search.found(
                start, end, _OWN if is_own else _OTHER
            ):
                made[at : at + length] = state.vector[there : there + length]
                rest.append((start, at))
                start = at + length
            rest.append((start, end))
        runs[event.seq] = rest
        left = search.left
    return made


@dataclass(slots=True)
class _Search:
    """Look for runs of lines in another content; `sums` are of letters and digits before each.

    Where no steps are `left` it gives up: ten thousand equal lines have a hundred million pairs,
    and each of them has an owner as it is, the event that wrote it here.
    """

    lines: Sequence[bytes]
    sums: Sequence[int]
    theirs: Sequence[bytes]
    left: int
    _where: dict[bytes, list[int]] = field(default_factory=dict)

    def found(self, start: int, end: int, least: int) -> Iterator[tuple[int, int, int]]:
        """Yield start, length and place there of runs that hold enough, within some lines."""
        if not self._where:
            for place, text in enumerate(self.theirs):
                self._where.setdefault(text, []).append(place)
        at = start
        while at < end and self.sums[end] - self.sums[at] >= least:
            length, source = self._longest(at, end, self._where.get(self.lines[at], ()))
            if length and self.sums[at + length] - self.sums[at] >= least:
                yield at, length, source
                at += length
            else:
                at += 1

    def _longest(self, at: int, end: int, places: Sequence[int]) -> tuple[int, int]:
        """Return length and place of the longest run from a line on."""
        best = (0, 0)
        for source in places:
            if self.left <= 0:
                break
            length, most = 0, min(end - at, len(self.theirs) - source)
            while (
                length < most
                and self.lines[at + length] == self.theirs[source + length]
            ):
                length += 1
            self.left -= length + 1
            best = max(best, (length, source))
        return best


def _runs(vector: Vector) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of neighbouring lines that one event wrote."""
    start = 0
    for at in range(1, len(vector) + 1):
        if at == len(vector) or vector[at].owner is not vector[start].owner:
            if vector[start].owner.source is OriginSource.EVENT:
                yield start, at
            start = at


_MOST_STEPS = 2_000_000
"""So many lines are compared for one answer: about a second."""
_NOT_ALNUM = bytes(byte for byte in range(256) if byte > 127 or not chr(byte).isalnum())
