"""Lanes: which column and which letter a session has, so that nobody has to tell colours apart.

Invariant: pure; a session keeps its letter for as long as the view runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase
from typing import NamedTuple

from gitshadow.ui.timeline import NOBODY, UNKNOWN, YOU

_LETTERS = "".join(letter for letter in ascii_uppercase if letter != "Y")
_FIXED: Mapping[str, str] = {YOU: "Y", UNKNOWN: "?", NOBODY: "-"}
FIRST_AGENT = 2
"""The column of the first session of an agent: a person's and nobody's come before."""


class LanePosition(NamedTuple):
    """Say where a block lies: its column, and those of the lanes that go on beside it."""

    column: int
    beside: tuple[int, ...]


def lettered(known: Mapping[str, str], lanes: Iterable[str]) -> dict[str, str]:
    """Return the letters of lanes: those that are known, and new ones in order of appearance.

    After all letters were given they come again in lower case, and after these for ever `*`.
    """
    letters = {**_FIXED, **known}
    for lane in lanes:
        if lane not in letters:
            number = len(letters) - len(_FIXED)
            letters[lane] = (_LETTERS + _LETTERS.lower())[number : number + 1] or "*"
    return letters


def placed(lanes: Sequence[str], columns: int) -> list[LanePosition]:
    """Lay blocks out in columns, as `git log --graph` does.

    Args:
        lanes: The lane of each block, newest first.
        columns: How many columns there are, the two fixed ones counted; those that find none
            free lie in the last.

    Returns:
        A place for each block. The lane of a block without one is column -1.
    """
    last = {lane: number for number, lane in enumerate(lanes)}
    at: dict[str, int] = {YOU: 0, UNKNOWN: 1}
    alive: dict[str, int] = {}
    found: list[LanePosition] = []
    for number, lane in enumerate(lanes):
        if lane == NOBODY:
            found.append(LanePosition(-1, tuple(sorted(set(alive.values())))))
            continue
        if lane not in alive:
            alive[lane] = at.get(lane, -1)
            if alive[lane] < 0:
                alive[lane] = _free(alive, columns)
        column = alive[lane]
        found.append(LanePosition(column, tuple(sorted({*alive.values()} - {column}))))
        if last[lane] == number:
            del alive[lane]
    return found


def _free(alive: Mapping[str, int], columns: int) -> int:
    taken = set(alive.values())
    for column in range(FIRST_AGENT, columns):
        if column not in taken:
            return column
    return max(FIRST_AGENT, columns - 1)
