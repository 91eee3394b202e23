"""What a replay that begins at a snapshot may know of the events before it.

Of what stood before, only marks are kept: enough to say for certain that something was not there.
Invariant: no answer rests on a mark that is there, but for lines, of which nothing more is asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gitshadow.blame.fingerprints import NO_MARKS, FingerprintSet, mark_of, mark_of_oid
from gitshadow.blame.owners import BlamedContent
from gitshadow.model import Oid

Change = tuple[tuple[bytes, ...], tuple[bytes, ...]]
"""The lines that a hunk takes away, and those that it adds."""


class DoubtError(Exception):
    """Report that a snapshot cannot tell; the replay has to begin at the first event."""


def _no_tips() -> Sequence[BlamedContent]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """Hold marks of all that the events before a snapshot met; of none by default.

    `contents`: of every version of the files; `plain`: of those with CRLF, without it; `parted`:
    those that Git took away; `lost`: lines of these; `written`: lines that an event wrote;
    `changes`: between committed states. `tips` gives the last committed states.
    """

    contents: FingerprintSet = NO_MARKS
    plain: FingerprintSet = NO_MARKS
    parted: FingerprintSet = NO_MARKS
    lost: FingerprintSet = NO_MARKS
    written: FingerprintSet = NO_MARKS
    changes: FingerprintSet = NO_MARKS
    cells: int = 0
    empty: bool = True
    """Whether there was nothing: the replay begins at the first event."""
    tips: Callable[[], Sequence[BlamedContent]] = _no_tips

    def no_content(self, oid: Oid) -> None:
        """Raise DoubtError unless a content was never there."""
        if mark_of_oid(oid) in self.contents:
            raise DoubtError

    def no_plain(self, oid: Oid) -> None:
        """Raise DoubtError unless no content becomes this one without its carriage returns."""
        if mark_of_oid(oid) in self.plain:
            raise DoubtError

    def no_change(self, change: Change) -> None:
        """Raise DoubtError unless a change was never made between committed states."""
        if mark_of_change(change) in self.changes:
            raise DoubtError

    def has_parted(self, oid: Oid) -> bool:
        """Tell whether Git took a content away."""
        return mark_of_oid(oid) in self.parted

    def has_lost(self, line: bytes) -> bool:
        """Tell whether Git took a line away."""
        return mark_of(line) in self.lost

    def has_written(self, line: bytes) -> bool:
        """Tell whether an event wrote such a line."""
        return mark_of(line) in self.written

    def all_there(self) -> None:
        """Raise DoubtError unless nothing was before."""
        if not self.empty:
            raise DoubtError


def mark_of_change(change: Change) -> int:
    """Return the mark of a change."""
    sides = (b"".join(b"%d:%b" % (len(one), one) for one in side) for side in change)
    return mark_of(b"|".join(sides))
