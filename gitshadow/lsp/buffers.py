"""The text of an editor beside its file: which line is which, and edits of one in the other.

Lines are counted from 0, and keep their ends. Authors are known of the file alone; a line that the
editor has changed is the person's who types there.
Invariant: pure; an edit is carried over only where the editor has changed nothing near it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gitshadow.undo.merge import MergeEdit, edits


class LineMap(NamedTuple):
    """Which line of the file each line of a buffer is, None where it is none of them."""

    in_file: tuple[int | None, ...]
    changes: tuple[MergeEdit, ...]

    @property
    def is_changed(self) -> bool:
        """Return whether the buffer holds something else than the file."""
        return bool(self.changes)

    def carried(self, edit: MergeEdit) -> MergeEdit | None:
        """Return an edit of the file as one of the buffer.

        None: the buffer was changed there, or right beside it.
        """
        grown = 0
        for change in self.changes:
            if change.start <= edit.end and change.end >= edit.start:
                return None
            if change.end < edit.start:
                grown += len(change.lines) - (change.end - change.start)
        return MergeEdit(edit.start + grown, edit.end + grown, edit.lines)


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
