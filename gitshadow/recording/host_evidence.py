"""Compare recorded changes with what an agent's host reports about the files of a call.

A host's list of changed files shows only which files a tool left as they were: it contains what
anybody wrote while the tool ran. The texts before and after an edit show which change was the
tool's.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from gitshadow.adapters.base import FileEdit, Replacement
from gitshadow.errors import StoreError
from gitshadow.model import (
    PATHLESS_WRITERS,
    Attribution,
    Call,
    Confidence,
    Event,
    EventKind,
    FileVersion,
    Gap,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import events, turns
from gitshadow.store.journal.events import EventFilter, path_changes
from gitshadow.store.object_format import format_of

_WRITES = (EventKind.CREATE, EventKind.MODIFY, EventKind.DELETE, EventKind.RENAME)
# Claude Code leaves out names with control characters (2.1.330), and a name that is not UTF-8
# cannot be in JSON.
_LEFT_OUT = re.compile(r"[\0-\x1f\x7f-\x9f\u2028\u2029]")
_LATER = (
    "the hook of its tool call names the path, but its tool wrote other content before"
)
_IGNORE_FILE = b".gitignore"


class _Window(NamedTuple):
    """The rows of a call's window: how many each path has, and whether some may be missing."""

    seqs: frozenset[int]
    paths: Mapping[RepoPath, int]
    is_blind: bool


class HostEvidence:
    """Compare the recorded changes of one worktree with what hosts reported."""

    def __init__(self, workspace: Workspace) -> None:
        self._ws = workspace
        self._windows: dict[tuple[str, str, int], _Window] = {}
        self._seen_seq = 0

    def left_out(self, call: Call, changed: Collection[RepoPath]) -> bool:
        """Return whether a list of all that was different after a call rules it out for a row.

        Call it when everything is recorded that was written up to the end of the call: a write
        that was undone in time is not in the list either.
        """
        rows = path_changes(self._rows(call))
        return any(self._is_left_out(row, call, changed) for row in rows)

    def unlisted(
        self, row: PathChange, calls: Collection[Call]
    ) -> frozenset[tuple[str, str]]:
        """Return the calls, by session and id, whose tools cannot have made a change."""
        found: set[tuple[str, str]] = set()
        for call in calls:
            if call.closed_ns is None or call.tool_class not in PATHLESS_WRITERS:
                continue
            changed = turns.changed_paths(self._ws.db, call)
            if changed and self._is_left_out(row, call, changed):
                found.add((call.session, call.id))
        return frozenset(found)

    def begun_at(self, call: Call, edit: FileEdit | Replacement) -> Call | None:
        """Return the call of an edit, begun as its own write shows; None if that is known.

        The tool found what an earlier write to the file had left, so it had not written yet. And it
        had begun when it wrote, even if its hook started so late that its duration, counted back
        from there, does not reach the write.
        """
        earlier, own, _ = self._around(call, edit)
        if own is None:
            return None
        if own.ts_ns < call.runs_from_ns:
            return replace(call, began_ns=max(own.ts_ns, call.opened_ns))
        if not earlier:
            return None
        began_ns = earlier[-1].ts_ns + 1
        fits = call.runs_from_ns < began_ns <= own.ts_ns
        return replace(call, began_ns=began_ns) if fits else None

    def later_writes(
        self, call: Call, edit: FileEdit | Replacement
    ) -> dict[PathChange, Attribution]:
        """Return what was written to the file of an edit after its own write, less certain."""
        _, _, later = self._around(call, edit)
        return {
            row: replace(row.attribution, confidence=Confidence.MEDIUM, reason=_LATER)
            for row in later
            if (row.attribution.session, row.attribution.call)
            == (call.session, call.id)
            and row.attribution.confidence in (Confidence.CERTAIN, Confidence.HIGH)
        }

    def _around(
        self, call: Call, edit: FileEdit | Replacement
    ) -> tuple[list[PathChange], PathChange | None, list[PathChange]]:
        """Return the write of an edit, with those to its file before and after it.

        It is None if it is not recorded exactly once.
        """
        rows = path_changes(self._rows(call))
        here = [row for row in rows if call.paths == (row.path,) and row.op is None]
        own = [row for row in here if self._is_edit(row, edit)]
        if len(own) != 1:
            return [], None, []
        at = here.index(own[0])
        return here[:at], own[0], here[at + 1 :]

    def _is_edit(self, row: PathChange, edit: FileEdit | Replacement) -> bool:
        before, after = row.before, row.after
        if after is None or _oid(before) == after.oid:
            return False
        blob_oid = format_of(after.oid).blob
        if isinstance(edit, FileEdit) and edit.found is not None:
            found = None if before is None and not edit.found else blob_oid(edit.found)
            return _oid(before) == found and after.oid == blob_oid(edit.left)
        try:
            old = None if before is None else self._ws.repo.read_blob(before.oid)
            if isinstance(edit, FileEdit):
                # A tool that empties the file first may be seen while it writes.
                is_whole = old is None or not edit.left.startswith(old)
                return is_whole and after.oid == blob_oid(edit.left)
            if old is None or edit.old not in old:
                return False
        except StoreError:
            return False
        new = (old.replace(edit.old, edit.new, times) for times in (1, -1))
        return after.oid in map(blob_oid, new)

    def _rows(self, call: Call) -> list[Event]:
        """Return the rows from the window of a call that has ended, oldest first."""
        slack_ns = self._ws.clock.tolerance_ns
        wanted = EventFilter(
            worktree=call.worktree,
            since_ns=call.opened_ns - slack_ns,
            until_ns=(call.closed_ns or call.opened_ns) + slack_ns,
        )
        found = events.rows(self._ws.db, wanted)[::-1]
        return list(events.unfolded(self._ws.db, found))

    def _is_left_out(
        self, row: PathChange, call: Call, changed: Collection[RepoPath]
    ) -> bool:
        """Return whether a change was not made between a host's two looks at the tree.

        If it is the only one of its path while the call was open, the path had the old content
        before the first look and has the new one after the second. As the host saw no difference,
        the change came before both or after both.
        """
        paths, window = {row.path, row.path_before}, self._window(call)
        if row.kind not in _WRITES or row.inexact or row.offline or row.moved_in:
            return False
        if window.is_blind or row.seq not in window.seqs:
            return False
        is_only = all(window.paths[path] == 1 for path in paths)
        return (
            is_only
            and paths.isdisjoint(changed)
            and all(map(self._is_compared, paths))
            and self._has_new_text(row)
        )

    def _window(self, call: Call) -> _Window:
        newest = events.last_seq(self._ws.db)
        if newest != self._seen_seq:
            self._windows.clear()
            self._seen_seq = newest
        key = (call.session, call.id, call.closed_ns or 0)
        if key not in self._windows:
            rows = self._rows(call)
            found = path_changes(rows)
            paths = Counter(end for row in found for end in {row.path, row.path_before})
            # What rules of Git ignored at a look of the host is not in its list.
            has_rules = any(
                row.path.rpartition(b"/")[2] == _IGNORE_FILE for row in found
            )
            is_blind = has_rules or any(isinstance(row, Gap) for row in rows)
            seqs = frozenset(row.seq for row in found)
            self._windows[key] = _Window(seqs, paths, is_blind)
        return self._windows[key]

    def _is_compared(self, path: RepoPath) -> bool:
        """Return whether a host compares what is at a path: Git's ignored files are left out."""
        try:
            name = path.decode()
        except UnicodeDecodeError:
            return False
        return not _LEFT_OUT.search(name) and not self._ws.coverage.ignores(path)

    def _has_new_text(self, row: PathChange) -> bool:
        """Return whether a change is more than one of the mode or of line ends."""
        before, after = row.before, row.after
        if row.kind is EventKind.RENAME or before is None or after is None:
            return before is not None or after is not None
        if before.oid == after.oid:
            return False
        try:
            return self._text(before) != self._text(after)
        except StoreError:
            return False

    def _text(self, version: FileVersion) -> bytes:
        return self._ws.repo.read_blob(version.oid).replace(b"\r", b"")


def _oid(version: FileVersion | None) -> Oid | None:
    return None if version is None else version.oid
