"""The loaded part of a long history: pages around what is shown.

Invariant: the loaded rows are newest first, without a hole; more than `HELD` only if a screen
shows so many, and never more than `MOST` unless a person asks to go on.
"""

from typing import NamedTuple

from gitshadow.messages.rows import EventRow

PAGE = 250
HELD = 3000
MOST = 40_000
_STORM = 2000
"""So many rows are asked for at once if thousands are a single line of the screen."""


class PageWindow(NamedTuple):
    """Consecutive rows, and whether the history has newer and older ones."""

    rows: tuple[EventRow, ...] = ()
    newer: bool = False
    older: bool = False

    @property
    def newest(self) -> int:
        """Return the number of the newest row, 0 without rows."""
        return self.rows[0].seq if self.rows else 0

    @property
    def is_full(self) -> bool:
        """Return whether more rows are fetched only when a person asks for them."""
        return len(self.rows) >= MOST

    @property
    def is_heavy(self) -> bool:
        """Return whether the screen shows more rows than are kept otherwise."""
        return len(self.rows) > HELD

    @property
    def page(self) -> int:
        """Return how many rows to ask for next."""
        return _STORM if self.is_heavy else PAGE

    @property
    def oldest(self) -> int:
        """Return the number of the oldest row, 0 without rows."""
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
    """Add the page below a window; excess rows are dropped at the other end.

    Args:
        window: The loaded rows.
        page: What was asked for, `window.page` rows at most.
        keep: The newest row that is not dropped; 0 for none.
    """
    below = tuple(row for row in page if not window.rows or row.seq < window.oldest)
    rows = window.rows + below
    spare = sum(row.seq > keep for row in window.rows) if keep else len(rows)
    dropped = min(max(0, len(rows) - HELD), spare)
    # Rows on the screen are kept beyond HELD, up to this many: then a line says that more exist.
    dropped = max(dropped, len(rows) - MOST)
    more = len(page) >= window.page
    return PageWindow(rows[dropped:], window.newer or dropped > 0, more)


def with_newer(
    window: PageWindow, page: tuple[EventRow, ...], keep: int = 0
) -> PageWindow:
    """Add the page above a window; excess rows are dropped at the other end.

    Args:
        window: The loaded rows.
        page: What was asked for, `window.page` rows at most.
        keep: The oldest row that is not dropped; 0 for none.
    """
    above = tuple(row for row in page if row.seq > window.newest)
    rows = above + window.rows
    spare = sum(row.seq < keep for row in window.rows) if keep else len(rows)
    dropped = min(max(0, len(rows) - HELD), spare)
    left = min(len(rows) - dropped, MOST)
    more = len(page) >= window.page
    return PageWindow(rows[:left], more, window.older or left < len(rows))
