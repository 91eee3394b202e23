"""Format patches as Git does from recorded blobs, and changes of files as rows with limits.

No filter, attribute or diff driver is run: they are programs that a repository can name.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gitshadow.errors import StoreError
from gitshadow.messages.codec import UNSET, Unset
from gitshadow.messages.states import FileDiff, StatRow
from gitshadow.model import (
    FileVersion,
    Oid,
    PathChange,
    RepoPath,
    format_mode,
    git_mode,
)
from gitshadow.store.content_diff import unified_diff
from gitshadow.store.refs import display_path, quote
from gitshadow.store.repo import Repo

if TYPE_CHECKING:
    from gitshadow.messages.report import FileChange

_ABBREV = 10
_ZERO = "0" * _ABBREV
_COUNTED_FILES = 100
# A larger file is not compared: a diff of two large files takes seconds in the daemon's one thread.
LARGEST_BYTES = 1024 * 1024
# Whatever these limits cut is named in the `note` of the row.
FILE_LINES = 400
LINE_CHARACTERS = 400
TOTAL_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Delta:
    """One path in two states; `old_path` differs if it was renamed."""

    path: RepoPath
    old_path: RepoPath
    before: FileVersion | None
    after: FileVersion | None


def net_deltas(rows: Sequence[PathChange]) -> list[Delta]:
    """Fold events, oldest first, into one delta per path."""
    found: dict[RepoPath, Delta] = {}
    for row in rows:
        source = row.path_before
        first = found.pop(source, None)
        old_path = first.old_path if first else source
        before = first.before if first else row.before
        if row.old_path is None and first is None:
            before = row.before
        found[row.path] = Delta(row.path, old_path, before, row.after)
    return [
        delta
        for _, delta in sorted(found.items())
        if delta.before != delta.after or delta.path != delta.old_path
    ]


class NetPatch(NamedTuple):
    """A patch in one of its two forms."""

    text: str | Unset
    file_diffs: tuple[FileDiff, ...] | Unset


def patch_of(repo: Repo, deltas: Sequence[Delta], *, as_data: bool) -> NetPatch:
    """Return the patch of some changes."""
    if as_data:
        return NetPatch(UNSET, tuple(file_diff(repo, delta) for delta in deltas))
    return NetPatch("".join(format_delta(repo, delta) for delta in deltas), UNSET)


def deltas_between(repo: Repo, old: Oid | None, new: Oid) -> list[Delta]:
    """Return what differs between two trees; None is an empty one."""
    deltas = []
    for change in repo.trees.diff(old, new):
        before = FileVersion(change.old[1], change.old[0]) if change.old else None
        after = FileVersion(change.new[1], change.new[0]) if change.new else None
        deltas.append(Delta(change.path, change.path, before, after))
    return deltas


def file_diff(repo: Repo, delta: Delta) -> FileDiff:
    """Return one file's part of a patch as data."""
    header = _header(delta)
    before, after = _data(repo, delta.before), _data(repo, delta.after)
    hunks: str | None = ""
    if before is None or after is None:
        header.append("content is missing from the object store")
    elif before != after:
        hunks = unified_diff(before, after)
    if hunks is None:
        header.append("Binary files {} and {} differ".format(*_names(delta)))
    lines = hunks.removesuffix("\n").split("\n") if hunks else []
    path, old_path = display_path(delta.path), display_path(delta.old_path)
    return FileDiff(path, old_path, tuple(header), tuple(lines))


def format_delta(repo: Repo, delta: Delta) -> str:
    """Return one file's patch, `git diff` style."""
    diff, (old_name, new_name) = file_diff(repo, delta), _names(delta)
    lines = [f"diff --git {old_name} {new_name}", *diff.header]
    if diff.hunks:
        lines.append(f"--- {os.devnull if delta.before is None else old_name}")
        lines.append(f"+++ {os.devnull if delta.after is None else new_name}")
    return "\n".join([*lines, *diff.hunks, ""])


def stat_rows(
    repo: Repo, deltas: Sequence[Delta], *, lines: bool = True
) -> tuple[StatRow, ...]:
    """Return the kind of change of each file, and how many lines come and go."""
    return tuple(_stat_row(repo, delta, lines=lines) for delta in deltas)


def _stat_row(repo: Repo, delta: Delta, *, lines: bool) -> StatRow:
    kind = _kind(delta)
    counts = line_counts(repo, delta) if lines else None
    added, removed = counts or (None, None)
    return StatRow(
        path=display_path(delta.path),
        kind="modify" if kind == "mode" else kind,
        old_path=display_path(delta.old_path) if kind == "rename" else None,
        added=added,
        removed=removed,
    )


def sum_of_lines(
    repo: Repo, rows: Sequence[PathChange]
) -> tuple[int | None, int | None]:
    """Return how many lines some events, oldest first, added and removed in the end.

    A list has a row for many of these: where they changed very many files, both are None.
    """
    deltas = net_deltas(rows)
    if len(deltas) > _COUNTED_FILES:
        return None, None
    known = [found for delta in deltas if (found := line_counts(repo, delta))]
    return sum(one[0] for one in known), sum(one[1] for one in known)


def line_counts(repo: Repo, delta: Delta) -> tuple[int, int] | None:
    """Return how many lines come and go, None for binary content and what is gone."""
    before, after = _data(repo, delta.before), _data(repo, delta.after)
    hunks = None
    if before is not None and after is not None:
        hunks = "" if before == after else unified_diff(before, after)
    if hunks is None:
        return None
    return _counts(hunks.split("\n"))


def _counts(lines: Sequence[str]) -> tuple[int, int]:
    """Return how many lines of hunks come, and how many go."""
    signs = [line[:1] for line in lines]
    return signs.count("+"), signs.count("-")


def _header(delta: Delta) -> list[str]:
    before, after = delta.before, delta.after
    lines: list[str] = []
    if before is None and after is not None:
        lines.append(f"new file mode {format_mode(git_mode(after.mode))}")
    elif after is None and before is not None:
        lines.append(f"deleted file mode {format_mode(git_mode(before.mode))}")
    elif before is not None and after is not None and before.mode != after.mode:
        lines.append(f"old mode {format_mode(before.mode)}")
        lines.append(f"new mode {format_mode(after.mode)}")
    if delta.path != delta.old_path:
        lines.append(f"rename from {quote(delta.old_path)}")
        lines.append(f"rename to {quote(delta.path)}")
    old = before.oid[:_ABBREV] if before else _ZERO
    new = after.oid[:_ABBREV] if after else _ZERO
    if old != new:
        lines.append(f"index {old}..{new}")
    return lines


def _names(delta: Delta) -> tuple[str, str]:
    return quote(b"a/" + delta.old_path), quote(b"b/" + delta.path)


def _data(repo: Repo, version: FileVersion | None) -> bytes | None:
    if version is None:
        return b""
    try:
        return repo.read_blob(version.oid)
    except StoreError:
        return None


class Patchwork:
    """Makes rows of changes; the lines of all their patches together have a limit."""

    def __init__(self, repo: Repo, lines: int = TOTAL_LINES) -> None:
        self._repo = repo
        self._left = lines
        self.cut = 0

    def rows(self, events: Sequence[PathChange]) -> list[tuple[RepoPath, "FileChange"]]:
        """Return the net changes of some events, oldest first, by path."""
        return [(delta.path, self._row(delta)) for delta in net_deltas(events)]

    def _row(self, delta: Delta) -> "FileChange":
        # Only a report has these, and `log` loads this module.
        from gitshadow.messages.report import FileChange

        lines, note = self._lines(delta)
        row = FileChange(
            path=display_path(delta.path),
            kind=_kind(delta),
            old_path=UNSET
            if delta.old_path == delta.path
            else display_path(delta.old_path),
            modes=_modes(delta),
            added=UNSET,
            removed=UNSET,
            patch="",
            note=note or None,
        )
        if lines is None:
            return row
        shown, more = self._within(lines)
        added, removed = _counts(lines)
        return row._replace(
            added=added,
            removed=removed,
            patch="\n".join(shown),
            note=note or more or None,
        )

    def _lines(self, delta: Delta) -> tuple[list[str] | None, str]:
        """Return the lines of a patch, None where there is none, and why."""
        before, after = _data(self._repo, delta.before), _data(self._repo, delta.after)
        if before is None or after is None:
            return None, "the content is missing from the object store"
        largest = max(len(before), len(after))
        if largest > LARGEST_BYTES:
            return None, f"too large to compare here: {largest} bytes"
        if before == after:
            return [], ""
        hunks = unified_diff(before, after)
        if hunks is None:
            return None, f"binary, {len(before)} bytes before and {len(after)} after"
        return hunks.removesuffix("\n").split("\n"), ""

    def _within(self, lines: list[str]) -> tuple[list[str], str]:
        """Return as much of a patch as fits, and what does not."""
        room = min(FILE_LINES, self._left)
        shown = [
            line if len(line) <= LINE_CHARACTERS else f"{line[:LINE_CHARACTERS]}…"
            for line in lines[:room]
        ]
        self._left -= len(shown)
        if len(shown) < len(lines):
            self.cut += 1
            return shown, f"{len(lines) - len(shown)} more lines are not shown"
        if any(len(line) > LINE_CHARACTERS for line in lines):
            return shown, "long lines are cut"
        return shown, ""


def _kind(delta: Delta) -> str:
    if delta.before is None:
        return "create"
    if delta.after is None:
        return "delete"
    if delta.path != delta.old_path:
        return "rename"
    return "mode" if delta.before.oid == delta.after.oid else "modify"


def _modes(delta: Delta) -> tuple[str, ...] | Unset:
    before, after = delta.before, delta.after
    if before is None or after is None or before.mode == after.mode:
        return UNSET
    return format_mode(before.mode), format_mode(after.mode)
