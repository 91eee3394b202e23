"""Changes of files as rows for a reader: lines counted, patches within limits, and why not more.

Invariant: what is not shown is said in the row, `note`; a patch is never cut without a word.
"""

from collections.abc import Sequence

from gitshadow.errors import StoreError
from gitshadow.model import Event, FileVersion, RepoPath, format_mode
from gitshadow.query.rows import Row
from gitshadow.reporting.patches import Delta, net_deltas
from gitshadow.store.refs import display_path
from gitshadow.store.repo import Repo

LARGEST_BYTES = 1024 * 1024
"""A file larger than this is not compared."""
FILE_LINES = 400
LINE_CHARACTERS = 400
TOTAL_LINES = 20_000


class Patchwork:
    """Make rows of changes; the lines of all their patches together are bounded."""

    def __init__(self, repo: Repo, lines: int = TOTAL_LINES) -> None:
        self._repo = repo
        self._left = lines
        self.cut = 0

    def rows(self, events: Sequence[Event]) -> list[tuple[RepoPath, Row]]:
        """Return the net changes of some events, oldest first, by path."""
        return [(delta.path, self._row(delta)) for delta in net_deltas(events)]

    def _row(self, delta: Delta) -> Row:
        row: Row = {"path": display_path(delta.path), "kind": _kind(delta)}
        if delta.old_path != delta.path:
            row["old_path"] = display_path(delta.old_path)
        row |= _modes(delta)
        lines, note = self._lines(delta)
        if lines is not None:
            row["added"] = sum(line.startswith("+") for line in lines)
            row["removed"] = sum(line.startswith("-") for line in lines)
            lines, more = self._within(lines)
            note = note or more
        row |= {"patch": "\n".join(lines or ()), "note": note or None}
        return row

    def _lines(self, delta: Delta) -> tuple[list[str] | None, str]:
        """Return the lines of a patch, None where there is none, and why."""
        before, after = self._data(delta.before), self._data(delta.after)
        if before is None or after is None:
            return None, "the content is missing from the object store"
        largest = max(len(before), len(after))
        if largest > LARGEST_BYTES:
            return None, f"too large to compare here: {largest} bytes"
        if before == after:
            return [], ""
        hunks = self._repo.unified_diff(before, after)
        if hunks is None:
            return None, f"binary, {len(before)} bytes before and {len(after)} after"
        return hunks.removesuffix("\n").split("\n"), ""

    def _within(self, lines: list[str]) -> tuple[list[str], str]:
        """Return as much of a patch as fits, and what does not."""
        room = min(FILE_LINES, self._left)
        shown = [_short(line) for line in lines[:room]]
        self._left -= len(shown)
        if len(shown) < len(lines):
            self.cut += 1
            return shown, f"{len(lines) - len(shown)} more lines are not shown"
        if any(len(line) > LINE_CHARACTERS for line in lines):
            return shown, "long lines are cut"
        return shown, ""

    def _data(self, version: FileVersion | None) -> bytes | None:
        if version is None:
            return b""
        try:
            return self._repo.read_blob(version.oid)
        except StoreError:
            return None


def _short(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS else line[:LINE_CHARACTERS] + "…"


def _kind(delta: Delta) -> str:
    if delta.before is None:
        return "create"
    if delta.after is None:
        return "delete"
    if delta.path != delta.old_path:
        return "rename"
    return "mode" if delta.before.oid == delta.after.oid else "modify"


def _modes(delta: Delta) -> Row:
    before, after = delta.before, delta.after
    if before is None or after is None or before.mode == after.mode:
        return {}
    return {"modes": [format_mode(before.mode), format_mode(after.mode)]}
