"""A patch as rows of a screen, unified or side by side. Pure.

Invariant: every line of a patch is in one row, or, as context side by side, on both sides of one.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

from gitshadow.ui.patch_parser import FilePatch, Patch, PatchHunk, PatchLine, paired


class RowKind(Enum):
    """Say what a row shows."""

    FILE = auto()
    NOTE = auto()
    HUNK = auto()
    LINE = auto()


class Row(NamedTuple):
    """Hold one row: what it says, or which lines of which hunk stand in it."""

    kind: RowKind
    text: str = ""
    file: int = 0
    hunk: int = -1
    left: int | None = None
    right: int | None = None


def unified(patch: Patch) -> list[Row]:
    """Return the rows of a patch, a line after the other."""
    return list(_rows(patch, side=False))


def side_by_side(patch: Patch) -> list[Row]:
    """Return the rows of a patch, what was there on the left, what is there on the right."""
    return list(_rows(patch, side=True))


def _rows(patch: Patch, *, side: bool) -> Iterator[Row]:
    for number, file in enumerate(patch.files):
        yield from _file_rows(number, file, side=side)
    if patch.left_out:
        yield Row(RowKind.NOTE, f"{patch.left_out} more lines are not shown")
    elif not patch.files:
        yield Row(RowKind.NOTE, "no content to show")


def _file_rows(number: int, file: FilePatch, *, side: bool) -> Iterator[Row]:
    yield Row(RowKind.FILE, file.title, number)
    for note in file.notes:
        yield Row(RowKind.NOTE, note, number)
    for at, hunk in enumerate(file.hunks):
        yield Row(RowKind.HUNK, hunk.head, number, at)
        lines = _beside(hunk) if side else _after_each_other(hunk.lines)
        for left, right in lines:
            yield Row(RowKind.LINE, "", number, at, left, right)


def _after_each_other(
    lines: Sequence[PatchLine],
) -> Iterator[tuple[int | None, int | None]]:
    for at, line in enumerate(lines):
        yield (None if line.sign == "+" else at), (None if line.sign == "-" else at)


def _beside(hunk: PatchHunk) -> Iterator[tuple[int | None, int | None]]:
    numbered = [line._replace(text=str(at)) for at, line in enumerate(hunk.lines)]
    for left, right in paired(numbered):
        yield _number(left), _number(right)


def _number(line: PatchLine | None) -> int | None:
    return None if line is None else int(line.text)
