"""The part of a long history that the view holds: pages around what is shown.

Invariant: the rows held are newest first, without a hole; more than `HELD` only where a screen
shows so many, and never more than `MOST` before somebody asks to go on.
"""

from typing import NamedTuple

from gitshadow.ui.rows import EventRow

PAGE = 250
HELD = 3000
MOST = 40_000
_STORM = 2000
"""So many rows are asked for at once where thousands are a single line of the screen."""


class PageWindow(NamedTuple):
    """Hold rows that follow on each other, and whether the history goes on beyond them."""

    rows: tuple[EventRow, ...] = ()
    newer: bool = False
    older: bool = False

    @property
    def newest(self) -> int:
        """Return the number of the newest row, 0 where there is none."""
        return self.rows[0].seq if self.rows else 0

    @property
    def is_full(self) -> bool:
        """Tell whether no more is to be fetched than a person asks for."""
        return len(self.rows) >= MOST

    @property
    def is_heavy(self) -> bool:
        """Tell whether what the screen shows is more than is held otherwise."""
        return len(self.rows) > HELD

    @property
    def page(self) -> int:
        """Return how many rows to ask for next."""
        return _STORM if self.is_heavy else PAGE

    @property
    def oldest(self) -> int:
        """Return the number of the oldest row, 0 where there is none."""
        return self.rows[-1].seq if self.rows else 0


def opened(page: tuple[EventRow, ...], *, newer: bool) -> PageWindow:
    """Return a window on one page of at most `PAGE` rows, asked downwards."""
    return PageWindow(page, newer, len(page) >= PAGE)


def opened_upwards(page: tuple[EventRow, ...]) -> PageWindow:
    """Return a window on the oldest page."""
    return PageWindow(page, len(page) >= PAGE, older=False)


def with_older(
    window: PageWindow, page: tuple[EventRow, ...], keep: int = 0
) -> PageWindow:
    """Add the page below a window; what is too much goes at the other end.

    Args:
        window: What is held.
        page: What was asked for, `window.page` rows at most.
        keep: The newest row that has to stay, whatever is too much; 0 for none.
    """
    below = tuple(row for row in page if not window.rows or row.seq < window.oldest)
    rows = window.rows + below
    spare = sum(row.seq > keep for row in window.rows) if keep else len(rows)
    dropped = min(max(0, len(rows) - HELD), spare)
    dropped = max(dropped, len(rows) - MOST)
    more = len(page) >= window.page
    return PageWindow(rows[dropped:], window.newer or dropped > 0, more)


def with_newer(
    window: PageWindow, page: tuple[EventRow, ...], keep: int = 0
) -> PageWindow:
    """Add the page above a window; what is too much goes at the other end.

    Args:
        window: What is held.
        page: What was asked for, `window.page` rows at most.
        keep: The oldest row that has to stay, whatever is too much; 0 for none.
    """
    above = tuple(row for row in page if row.seq > window.newest)
    rows = above + window.rows
    spare = sum(row.seq < keep for row in window.rows) if keep else len(rows)
    dropped = min(max(0, len(rows) - HELD), spare)
    left = min(len(rows) - dropped, MOST)
    more = len(page) >= window.page
    return PageWindow(rows[:left], more, window.older or left < len(rows))
