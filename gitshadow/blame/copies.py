"""Lines that were moved or copied, `-C` of git-blame(1): they keep the owner that they had.

Looked for are the lines that one event added, in what the files of its burst held before it: in its
own file at least 20 letters and digits, in another 40, as many as Git asks for.
Invariant: only runs of whole, equal lines count.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gitshadow.blame.owners import Source, State, Vector, split_lines
from gitshadow.model import Event

_OWN, _OTHER = 20, 40


@dataclass(slots=True)
class Copies:
    """Trace the lines of a settled vector; `before` gives the states to look in, own file first."""

    before: Callable[[Event], Sequence[State]]
    _states: dict[int, Sequence[State]] = field(default_factory=dict)

    def traced(self, data: bytes, vector: Vector) -> Vector:
        """Return the vector with the origins of what was moved or copied."""
        lines, made = split_lines(data), list(vector)
        for start, end in _runs(vector):
            event = vector[start].owner.event
            if event is not None:
                self._trace(event, (start, end), lines, made)
        return made

    def _trace(
        self, event: Event, run: tuple[int, int], lines: list[bytes], made: Vector
    ) -> None:
        if event.seq not in self._states:
            self._states[event.seq] = self.before(event)
        for number, state in enumerate(self._states[event.seq]):
            wanted = _OTHER if number else _OWN
            theirs = split_lines(state.data)
            where: dict[bytes, list[int]] = {}
            for at, text in enumerate(theirs):
                where.setdefault(text, []).append(at)
            at = run[0]
            while at < run[1]:
                length, source = _longest(lines, at, run[1], theirs, where)
                if length and _substance(lines[at : at + length]) >= wanted:
                    made[at : at + length] = state.vector[source : source + length]
                    at += length
                else:
                    at += 1


def _runs(vector: Vector) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of neighbouring lines that one event wrote."""
    start = 0
    for at in range(1, len(vector) + 1):
        if at == len(vector) or vector[at].owner is not vector[start].owner:
            if vector[start].owner.source is Source.EVENT:
                yield start, at
            start = at


def _longest(
    lines: list[bytes],
    at: int,
    end: int,
    theirs: list[bytes],
    where: dict[bytes, list[int]],
) -> tuple[int, int]:
    """Return length and place of the longest run from `at` that the other content has too."""
    best = (0, 0)
    for source in where.get(lines[at], ())[:_MOST_PLACES]:
        length = 0
        while (
            at + length < end
            and source + length < len(theirs)
            and lines[at + length] == theirs[source + length]
        ):
            length += 1
        best = max(best, (length, source))
    return best


_MOST_PLACES = 100


def _substance(lines: Sequence[bytes]) -> int:
    return sum(chr(byte).isalnum() for line in lines for byte in line if byte < 128)
