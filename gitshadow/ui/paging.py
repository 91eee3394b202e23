"""The part of a long history that the view holds: pages around what is shown.

Invariant: the rows held are newest first, without a hole, and never more than `HELD`.
"""

from typing import NamedTuple

from gitshadow.ui.rows import EventRow

PAGE = 250
HELD = 3000


class Window(NamedTuple):
    """Hold rows that follow on each other, and whether the history goes on beyond them."""

    rows: tuple[EventRow, ...] = ()
    newer: bool = False
    older: bool = False

    @property
    def newest(self) -> int:
        """Return the number of the newest row, 0 where there is none."""
        return self.rows[0].seq if self.rows else 0

    @property
    def oldest(self) -> int:
        """Return the number of the oldest row, 0 where there is none."""
        return self.rows[-1].seq if self.rows else 0


def opened(page: tuple[EventRow, ...], *, newer: bool) -> Window:
    """Return a window on one page of at most `PAGE` rows, asked downwards."""
    return Window(page, newer, len(page) >= PAGE)


def opened_upwards(page: tuple[EventRow, ...]) -> Window:
    """Return a window on the oldest page."""
    return Window(page, len(page) >= PAGE, older=False)


def with_older(window: Window, page: tuple[EventRow, ...]) -> Window:
    """Add the page below a window; what is too much goes at the other end."""
    below = tuple(row for row in page if not window.rows or row.seq < window.oldest)
    rows = window.rows + below
    dropped = max(0, len(rows) - HELD)
    return Window(rows[dropped:], window.newer or dropped > 0, len(page) >= PAGE)


def with_newer(window: Window, page: tuple[EventRow, ...]) -> Window:
    """Add the page above a window; what is too much goes at the other end."""
    above = tuple(row for row in page if row.seq > window.newest)
    rows = above + window.rows
    return Window(rows[:HELD], len(page) >= PAGE, window.older or len(rows) > HELD)
