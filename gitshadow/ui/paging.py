"""The loaded part of a long history: pages of rows around what is shown.

Invariant: the loaded rows are newest first, each once, without a hole, and at most `HELD`.
"""

from typing import NamedTuple

from gitshadow.messages.history import HistoryRow

PAGE = 80
HELD = 1000


class PageWindow(NamedTuple):
    """Consecutive rows, and whether the history has newer and older ones."""

    rows: tuple[HistoryRow, ...] = ()
    newer: bool = False
    older: bool = False

    @property
    def newest(self) -> int:
        """Return the number of the newest event, 0 without rows."""
        return self.rows[0].seq if self.rows else 0

    @property
    def oldest(self) -> int:
        """Return the number of the newest event of the oldest row, 0 without rows."""
        return self.rows[-1].seq if self.rows else 0


def with_older(window: PageWindow, page: tuple[HistoryRow, ...]) -> PageWindow:
    """Add a whole page, or the last one, below a window; rows above are dropped."""
    known = set(map(name_of, window.rows))
    rows = window.rows + tuple(row for row in page if name_of(row) not in known)
    dropped = max(0, len(rows) - HELD)
    return PageWindow(rows[dropped:], window.newer or dropped > 0, len(page) >= PAGE)


def with_newer(window: PageWindow, page: tuple[HistoryRow, ...]) -> PageWindow:
    """Add a whole page, or the last one, above a window; rows below are dropped.

    A row that has grown since is in the page, and replaces the loaded one.
    """
    grown = set(map(name_of, page))
    rows = page + tuple(row for row in window.rows if name_of(row) not in grown)
    older = window.older or len(rows) > HELD
    return PageWindow(rows[:HELD], len(page) >= PAGE, older)


def name_of(row: HistoryRow) -> tuple[str, str]:
    """Return what identifies a row."""
    return row.worktree, row.id
