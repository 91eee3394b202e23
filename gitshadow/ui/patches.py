"""Patches as values to draw: files, hunks, lines, and lines side by side.

Invariant: pure; every text can be read, an unknown line becomes a note. Each text to show (titles,
notes, heads, lines) is free of control characters, and bounded: what was left out is counted.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from gitshadow.errors import ShadowError
from gitshadow.messages.states import FileDiff
from gitshadow.render.style import View, printable, printable_line

LINES = 50_000
"""So many lines of a patch are shown, of all its files together."""
CHARACTERS = 2_000
"""So many characters of a line are shown."""
_TAB = 4
_HEAD = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_NO_END = "\\ No newline"
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
    """The lines of a hunk, and the line above them."""

    head: str
    lines: tuple[PatchLine, ...] = ()


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
        notes, hunks = _Reader(lines[:limit]).read()
        left_out += max(0, len(lines) - limit)
        limit = max(0, limit - len(lines))
        title, old_path = _shown(diff.path), None
        if diff.old_path != diff.path:
            title, old_path = f"{_shown(diff.old_path)} → {title}", diff.old_path
        files.append(FilePatch(diff.path, title, old_path, tuple(notes), tuple(hunks)))
    return Patch(tuple(files), left_out)


def of_hunk(title: str, lines: Sequence[str]) -> Patch:
    """Return a patch of one file from the bare lines that a plan offers."""
    notes, hunks = _Reader(lines[:LINES]).read()
    found = FilePatch(title, printable(title), notes=tuple(notes), hunks=tuple(hunks))
    return Patch((found,), max(0, len(lines) - LINES))


class _Reader:
    """Read the lines of a file; the counts of a hunk's head say where it ends."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def _peek(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def read(self) -> tuple[list[str], list[PatchHunk]]:
        """Return notes and hunks."""
        notes: list[str] = []
        hunks: list[PatchHunk] = []
        while (line := self._peek()) is not None:
            self._at += 1
            head = _HEAD.match(line)
            if head is not None:
                hunks.append(self._hunk(head))
            # The title has the new name, and blob ids mean nothing to a reader.
            elif not line.startswith(("index ", "rename to ")):
                notes += _note(line)
        return notes, hunks

    def _hunk(self, head: re.Match[str]) -> PatchHunk:
        old, new = int(head[1]), int(head[3])
        old_end = old + (1 if head[2] is None else int(head[2]))
        new_end = new + (1 if head[4] is None else int(head[4]))
        lines: list[PatchLine] = []
        while (line := self._peek()) is not None:
            if line.startswith(_NO_END) and lines:
                lines[-1] = lines[-1]._replace(ended=False)
                self._at += 1
                continue
            sign = line[:1] or " "
            less, more = sign in " -", sign in " +"
            if (
                sign not in _SIGNS
                or (less and old == old_end)
                or (more and new == new_end)
            ):
                break
            text, left_out = bounded(line[1:])
            at = (old if less else None, new if more else None)
            lines.append(PatchLine(sign, text, *at, left_out=left_out))
            old, new = old + less, new + more
            self._at += 1
        return PatchHunk(bounded(head[0])[0], tuple(lines))


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
