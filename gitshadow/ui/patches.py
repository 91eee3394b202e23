"""Patches as values to draw: files, hunks, lines, and lines side by side.

Invariant: pure; every text can be read, an unknown line becomes a note. Each text to show (titles,
notes, heads, lines) is free of control characters, and bounded: what was left out is counted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

from gitshadow.errors import ShadowError
from gitshadow.messages.states import FileDiff
from gitshadow.render.hunks import PatchHunk, PatchLine, read_hunks
from gitshadow.render.style import View, printable, printable_line

LINES = 50_000
"""So many lines of a patch are shown, of all its files together."""
CHARACTERS = 2_000
"""So many characters of a line are shown."""
_TAB = 4


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What happens to one file.

    `path` and `old_path` are as documents spell them, `title` can be shown; `notes` have what lines
    cannot show: a mode, a rename, binary content.
    """

    path: str
    title: str
    old_path: str | None = None
    notes: tuple[str, ...] = ()
    hunks: tuple[PatchHunk, ...] = ()


@dataclass(frozen=True, slots=True)
class Patch:
    """The files of a patch in its order; `left_out` counts lines that are not shown."""

    files: tuple[FilePatch, ...] = ()
    left_out: int = 0


def patch_of(diffs: Iterable[FileDiff], *, limit: int = LINES) -> Patch:
    """Return a patch of some files, at most so many lines of all of them."""
    files: list[FilePatch] = []
    left_out = 0
    for diff in diffs:
        lines = (*diff.header, *diff.hunks)
        notes, hunks = _read(lines[:limit])
        left_out += max(0, len(lines) - limit)
        limit = max(0, limit - len(lines))
        title, old_path = _shown(diff.path), None
        if diff.old_path != diff.path:
            title, old_path = f"{_shown(diff.old_path)} → {title}", diff.old_path
        files.append(FilePatch(diff.path, title, old_path, notes, hunks))
    return Patch(tuple(files), left_out)


def of_hunk(title: str, lines: Sequence[str]) -> Patch:
    """Return a patch of one file from the bare lines that a plan offers."""
    notes, hunks = _read(lines[:LINES])
    found = FilePatch(title, printable(title), notes=notes, hunks=hunks)
    return Patch((found,), max(0, len(lines) - LINES))


def _read(lines: Sequence[str]) -> tuple[tuple[str, ...], tuple[PatchHunk, ...]]:
    """Return the notes and the hunks of a file."""
    found = list(read_hunks(lines))
    # The title has the new name, and blob ids mean nothing to a reader.
    notes = (
        note
        for line in found
        if isinstance(line, str) and not line.startswith(("index ", "rename to "))
        for note in _note(line)
    )
    return tuple(notes), tuple(
        _drawn(one) for one in found if isinstance(one, PatchHunk)
    )


def _drawn(hunk: PatchHunk) -> PatchHunk:
    cut = ((line, *bounded(line.text)) for line in hunk.lines)
    lines = tuple(line._replace(text=text, left_out=rest) for line, text, rest in cut)
    return replace(hunk, head=bounded(hunk.head)[0], lines=lines)


def bounded(line: str) -> tuple[str, int]:
    """Return a line as it may be shown, and how many characters were cut off."""
    shown = printable_line(line[:CHARACTERS]).expandtabs(_TAB)
    return shown, max(0, len(line) - CHARACTERS)


def _note(line: str) -> list[str]:
    """Return the meaning of a line above the hunks, in words."""
    for begin, words in (
        ("new file mode ", "new file, mode "),
        ("deleted file mode ", "deleted, mode was "),
        ("old mode ", "mode was "),
        ("new mode ", "mode is now "),
        ("rename from ", "renamed from "),
        ("similarity index ", "similarity "),
    ):
        if line.startswith(begin):
            return [words + printable(line.removeprefix(begin))[:CHARACTERS]]
    if line.startswith("Binary files "):
        return ["binary content"]
    said = printable(line)[:CHARACTERS].strip()
    return [said] if said else []


def _shown(path: str) -> str:
    try:
        return View().path(path)[:CHARACTERS]
    except ShadowError:
        return printable(path)[:CHARACTERS]


class Pair(NamedTuple):
    """Two lines side by side; None if one side has no line."""

    left: PatchLine | None
    right: PatchLine | None


def paired(lines: Sequence[PatchLine]) -> Iterator[Pair]:
    """Yield a hunk side by side; every line once, context on both sides."""
    less: list[PatchLine] = []
    more: list[PatchLine] = []
    for line in lines:
        # Removed lines face the added lines that follow; context or a new removal ends that.
        if line.sign == "-" and not more:
            less.append(line)
        elif line.sign == "+":
            more.append(line)
        else:
            yield from _facing(less, more)
            less, more = [], []
            if line.sign == "-":
                less.append(line)
            else:
                yield Pair(line, line)
    yield from _facing(less, more)


def _facing(less: Sequence[PatchLine], more: Sequence[PatchLine]) -> Iterator[Pair]:
    for left, right in zip_longest(less, more):
        yield Pair(left, right)
