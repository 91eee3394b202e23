"""The text of an editor beside its file: which line is which, and edits of one in the other.

Lines are counted from 0, and keep their ends. Authors are known of the file alone; a line that the
editor has changed is the person's who types there.
Invariant: pure; an edit is carried over only where the editor has changed nothing near it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gitshadow.messages.undo import Hunk
from gitshadow.undo.merge import MergeEdit, edits

_NO_END = "\\"


class LineMap(NamedTuple):
    """Which line of the file each line of a buffer is, None where it is none of them."""

    in_file: tuple[int | None, ...]
    changes: tuple[MergeEdit, ...]

    @property
    def is_changed(self) -> bool:
        """Return whether the buffer holds something else than the file."""
        return bool(self.changes)

    def carried(self, edit: MergeEdit) -> tuple[int, int] | None:
        """Return the lines of the buffer, from and before, that an edit of the file replaces.

        None: the buffer was changed there, or right beside it.
        """
        grown = 0
        for change in self.changes:
            if change.start <= edit.end and change.end >= edit.start:
                return None
            if change.end < edit.start:
                grown += len(change.lines) - (change.end - change.start)
        return edit.start + grown, edit.end + grown


def mapped(buffer: Sequence[bytes], file: Sequence[bytes]) -> LineMap:
    """Compare the lines of a buffer with those of its file."""
    changes = tuple(edits(file, buffer)) if list(buffer) != list(file) else ()
    return LineMap(tuple(_numbers(changes, len(file))), changes)


def _numbers(changes: Sequence[MergeEdit], count: int) -> Iterator[int | None]:
    at = 0
    for change in changes:
        yield from range(at, change.start)
        yield from [None] * len(change.lines)
        at = change.end
    yield from range(at, count)


def edits_of(hunks: Sequence[Hunk]) -> list[MergeEdit]:
    """Return the edits of a file that hunks of a plan make, in its lines of now.

    Hunks about the mode, or the whole file, make none.
    """
    found: list[MergeEdit] = []
    for hunk in hunks:
        if hunk.kind != "lines":
            continue
        start, _, count = hunk.lines[0].split()[1].removeprefix("-").partition(",")
        # A hunk without old lines stands behind the line that it names, as in git-diff(1).
        found += _edits_in(hunk.lines[1:], int(start) - (count != "0"))
    return found


def _edits_in(lines: Sequence[str], at: int) -> Iterator[MergeEdit]:
    start, added = at, list[bytes]()
    is_open = False
    for number, line in enumerate(lines):
        sign, text = line[:1], line[1:]
        if sign == _NO_END:
            continue
        if sign == " ":
            if is_open:
                yield MergeEdit(start, at, tuple(added))
            at, is_open = at + 1, False
            continue
        if not is_open:
            start, added, is_open = at, [], True
        if sign == "-":
            at += 1
        else:
            ends = not "".join(lines[number + 1 : number + 2]).startswith(_NO_END)
            data = text.encode("utf-8", "surrogateescape")
            added.append(data + b"\n" if ends else data)
    if is_open:
        yield MergeEdit(start, at, tuple(added))
