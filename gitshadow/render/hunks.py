"""The hunks of a diff as values: lines with their numbers, and the edits that they make.

Invariant: pure; every text can be read, and a line that is in no hunk is given as it is.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from gitshadow.undo.merge import NO_END, MergeEdit

_HEAD = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_SIGNS = frozenset(" +-")


class PatchLine(NamedTuple):
    """One line of a hunk: its sign, its text, its number before and after.

    `left_out` counts the characters that were cut off; `ended` is False for a last line without
    a newline.
    """

    sign: str
    text: str
    old: int | None
    new: int | None
    left_out: int = 0
    ended: bool = True


@dataclass(frozen=True, slots=True)
class PatchHunk:
    """The lines of a hunk, the line above them, and how many old lines of the file are before."""

    head: str
    lines: tuple[PatchLine, ...] = ()
    before: int = 0

    def edits(self) -> Iterator[tuple[MergeEdit, list[PatchLine]]]:
        """Yield each edit of the old lines, counted from 0, and the lines that show it."""
        at = self.before
        for is_same, group in groupby(self.lines, lambda line: line.sign == " "):
            lines = list(group)
            end = at + sum(line.sign != "+" for line in lines)
            if not is_same:
                added = tuple(_bytes(line) for line in lines if line.sign == "+")
                yield MergeEdit(at, end, added), lines
            at = end


def _bytes(line: PatchLine) -> bytes:
    data = line.text.encode("utf-8", "surrogateescape")
    return data + b"\n" if line.ended else data


def read_hunks(lines: Sequence[str]) -> Iterator[PatchHunk | str]:
    """Yield the hunks of one file, and the lines that are in none.

    The counts of a hunk's head say where it ends.
    """
    at = 0
    while at < len(lines):
        head = _HEAD.match(lines[at])
        if head is None:
            yield lines[at]
            at += 1
            continue
        found = tuple(_lines(head, lines, at + 1))
        # A hunk without old lines is behind the line that it names, as in git-diff(1).
        before = int(head[1]) - (head[2] is None or int(head[2]) > 0)
        yield PatchHunk(lines[at], found, before)
        at += 1 + len(found) + sum(not line.ended for line in found)


def _lines(head: re.Match[str], lines: Sequence[str], at: int) -> Iterator[PatchLine]:
    old, new = int(head[1]), int(head[3])
    old_end = old + (1 if head[2] is None else int(head[2]))
    new_end = new + (1 if head[4] is None else int(head[4]))
    for number in range(at, len(lines)):
        line = lines[number]
        sign = line[:1] or " "
        less, more = sign in " -", sign in " +"
        if number > at and line.startswith(NO_END):
            continue
        if sign not in _SIGNS or (less and old == old_end) or (more and new == new_end):
            return
        ended = not "".join(lines[number + 1 : number + 2]).startswith(NO_END)
        numbers = (old if less else None, new if more else None)
        yield PatchLine(sign, line[1:], *numbers, ended=ended)
        old, new = old + less, new + more
