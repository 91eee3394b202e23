"""Reverse the runs of one lineage, newest first, each against the result so far.

Path, content and mode are each three-way: what the run left → what was before it, and what is
there now. If the present equals what the run left, the earlier state is restored whole.
Invariant: pure; a lineage is restored whole or skipped with one reason; nothing is ever
deleted unless the unit created it and it still is exactly what the unit left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gitshadow.messages.undo import CREATED_SINCE
from gitshadow.model import LINK_MODE, FileVersion, Oid, git_mode
from gitshadow.store.object_format import format_of
from gitshadow.undo import merge
from gitshadow.undo.lineage import EventRun, LineageRecord
from gitshadow.undo.report import Reason

_BROUGHT = "it was moved in from a place that is not recorded"
_REPLACED = (
    "replaced a file that was moved in; its content stays in the history: git"
    " agent-undo redo"
)
_EDITED, _MOVED, _MOVED_AND_EDITED = CREATED_SINCE


class OnConflict(StrEnum):
    """What to do if later changes conflict."""

    SKIP = "skip"
    OVERWRITE = "overwrite"
    MARKERS = "markers"


Read = Callable[[Oid], bytes | None]
"""Return a blob's bytes; None if it is gone from the object store."""


@dataclass(slots=True)
class Blobs:
    """Read blobs from the store, and from what merging has made."""

    read: Read
    is_missing: Callable[[Oid], bool] = lambda _: False
    made: dict[Oid, bytes] = field(default_factory=dict)

    def get(self, oid: Oid) -> bytes | None:
        """Return a blob's bytes, None where it is gone."""
        made = self.made.get(oid)
        return made if made is not None else self.read(oid)

    def gone(self, oid: Oid) -> tuple[Reason, str]:
        """Return why a content that cannot be read is not there: purged, or lost."""
        if self.is_missing(oid):
            why = f"object {oid} is missing; run: git agent-undo doctor"
            return Reason.IO_ERROR, why
        return Reason.PURGED, "an earlier version is missing from the repository"

    def make(self, data: bytes, beside: Oid) -> Oid:
        """Keep new content; return its oid, of the format of another one."""
        oid = format_of(beside).blob(data)
        self.made[oid] = data
        return oid


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictPolicy:
    """How conflicts are dealt with; `label` names the unit in markers."""

    on_conflict: OnConflict = OnConflict.SKIP
    label: str = "the undone unit"


class _LeftError(Exception):
    """The reason for which a lineage is skipped."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(slots=True, kw_only=True)
class Turned:
    """The result of reversing runs.

    `target` is the wanted state; `reason` is set where the lineage is left alone, where
    conflict markers are written, or where the file itself stays that the unit brought.
    """

    target: LineageRecord
    reason: Reason | None = None
    detail: str | None = None
    merged: bool = False
    overwrites: bool = False
    marked: int = 0


def take_back(
    runs: Sequence[EventRun],
    present: LineageRecord,
    blobs: Blobs,
    manner: ConflictPolicy,
) -> Turned:
    """Reverse runs, newest first, starting from the present."""
    fold = _Fold(present, blobs, manner)
    try:
        for run in reversed(runs):
            fold.take(run)
        fold.check_readable(present)
    except _LeftError as left:
        reason, detail = left.reason, left.detail
        if fold.brought:
            reason, detail = Reason.NOT_CREATED_BY_UNIT, _BROUGHT
        return Turned(target=present, reason=reason, detail=detail)
    return fold.finish(present)


@dataclass(slots=True)
class _Fold:
    at: LineageRecord
    blobs: Blobs
    manner: ConflictPolicy
    merged: bool = False
    overwrites: bool = False
    marked: int = 0
    elsewhere: bool = False
    brought: bool = False
    replaced: bool = False

    def take(self, run: EventRun) -> None:
        """Reverse one run."""
        if run.away:
            self.elsewhere = True
            return
        self.brought |= run.moved_in and self.at.version is not None
        self.replaced |= run.replaced and self.at.version is not None
        if run.baseless and self.at.version != run.before.version:
            raise _LeftError(
                Reason.NO_BASELINE, "its earlier content was never recorded"
            )
        # The run changed nothing in the end, or somebody already restored what was before it.
        if run.before == run.after or self.at == run.before:
            return
        absent = self.at.version is None and run.after.version is None
        # A file that is absent is the same under every name.
        if self.at == run.after or absent:
            self.at = run.before
        elif self._is_rewritten(run):
            self.at = self._before_rewriting(run)
        # Git has not touched the file since, or it left the run's own result: what differs now was
        # written by people or programs after the run.
        elif run.switched_to in (None, run.after):
            self.at = self._three_way(run)
        elif (taken := self._taken_along(run)) is not None:
            self.merged = True
            self.at = taken
        else:
            self.elsewhere = True

    def _is_rewritten(self, run: EventRun) -> bool:
        """Return whether Git wrote the run's result again: it keeps no mode but executable."""
        then, now = run.after.version, self.at.version
        if self.at != run.switched_to or then is None or now is None:
            return False
        same = (then.oid, git_mode(then.mode)) == (now.oid, git_mode(now.mode))
        return same and run.after.path == self.at.path

    def _before_rewriting(self, run: EventRun) -> LineageRecord:
        """Return what was before a run, with the mode that Git gave if the run set none."""
        before, after, now = run.before.version, run.after.version, self.at.version
        if before is None or after is None or now is None or before.mode != after.mode:
            return run.before
        return LineageRecord(run.before.path, FileVersion(before.oid, now.mode))

    def check_readable(self, present: LineageRecord) -> None:
        """Make sure that what is to be written still exists."""
        version = self.at.version
        if version is None or version.oid == (present.version and present.version.oid):
            return
        if self.blobs.get(version.oid) is None:
            raise _LeftError(*self.blobs.gone(version.oid))

    def finish(self, present: LineageRecord) -> Turned:
        """Return the verdict."""
        detail: str | None = None
        reason: Reason | None = None
        if self.elsewhere:
            detail = "changes made on another branch stay there"
            if self.at == present:
                reason, detail = Reason.HEAD_MOVED, None
        if self.replaced and self.at.version != present.version:
            detail = _REPLACED
        # The file itself stays, because the unit did not create it; only its lines are reverted.
        if self.brought and self.at.version is not None:
            reason, detail = Reason.NOT_CREATED_BY_UNIT, _BROUGHT
        if self.marked:
            reason = Reason.CONFLICT
            detail = (
                f"{self.marked} conflict{'s' if self.marked > 1 else ''} marked in it"
            )
        return Turned(
            target=self.at,
            reason=reason,
            detail=detail,
            merged=self.merged,
            overwrites=self.overwrites,
            marked=self.marked,
        )

    def _taken_along(self, run: EventRun) -> LineageRecord | None:
        """Undo a run in what Git made of it; None if Git did not carry it over.

        A merge or a rebase carries the lines of the run over into what it writes, a checkout of
        another branch does not. They were carried over where the run added lines and redoing it
        gives exactly what is there: only then nothing else is changed by undoing it.
        """
        before, after, now = run.before.version, run.after.version, self.at.version
        if before is None or after is None or now is None:
            return None
        # A link has no lines to merge.
        if before.is_link or after.is_link or now.is_link:
            return None
        old, left, here = (self._bytes(one) for one in (before, after, now))
        if any(merge.is_binary(data) for data in (old, left, here)):
            return None
        # A run that only deleted lines looks the same if Git carried it over and if the other
        # branch never had these lines, so nothing proves that they were deleted here.
        added, _ = merge.count_changes(old, left) or (0, 0)
        data = merge.merge(left, old, here) if added else None
        if data is None or data == here or merge.merge(old, left, data) != here:
            return None
        path = run.before.path if self.at.path == run.after.path else self.at.path
        oid = self.blobs.make(data, now.oid)
        return LineageRecord(path, FileVersion(oid, _mode(before, after, now)))

    def _three_way(self, run: EventRun) -> LineageRecord:
        before, after, now = run.before.version, run.after.version, self.at.version
        if before is None:
            if now is None:
                return self.at
            raise _LeftError(Reason.CONFLICT, _since(run.after, self.at))
        path = run.before.path if self.at.path == run.after.path else self.at.path
        if before == now:
            return LineageRecord(path, now)
        if now is None:
            return LineageRecord(
                path, self._clash(before, Reason.CONFLICT, "it was deleted later")
            )
        if after is None:
            return LineageRecord(path, self._recreated(before, now))
        return LineageRecord(path, self._versions(before, after, now))

    def _recreated(self, before: FileVersion, now: FileVersion) -> FileVersion:
        """Return what becomes of a file that the run deleted and somebody created again."""
        if self.manner.on_conflict is OnConflict.MARKERS:
            return self._mark(None, before, now)
        return self._clash(before, Reason.CONFLICT, "it was created again later")

    def _versions(
        self, before: FileVersion, after: FileVersion, now: FileVersion
    ) -> FileVersion:
        # Content and mode are merged apart: a later chmod does not prevent a merge of the content.
        if _content(now) == _content(after):
            oid, link = _content(before)
        elif _content(before) in (_content(after), _content(now)):
            oid, link = _content(now)
        elif before.is_link and after.is_link and now.is_link:
            return self._clash(before, Reason.CONFLICT, "the link was changed later")
        elif before.is_link or after.is_link or now.is_link:
            return self._clash(
                before, Reason.TYPE_CLASH, "one is a file, the other a link"
            )
        else:
            return self._merge(before, after, now)
        return FileVersion(oid, LINK_MODE if link else _mode(before, after, now))

    def _merge(
        self, before: FileVersion, after: FileVersion, now: FileVersion
    ) -> FileVersion:
        base, old, new = (self._bytes(one) for one in (after, before, now))
        if any(merge.is_binary(data) for data in (base, old, new)):
            return self._clash(before, Reason.BINARY, "it cannot be merged")
        data = merge.merge(base, old, new)
        if data is not None:
            self.merged = True
            oid = self.blobs.make(data, now.oid)
            return FileVersion(oid, _mode(before, after, now))
        if self.manner.on_conflict is OnConflict.MARKERS:
            return self._mark(after, before, now)
        return self._clash(before, Reason.CONFLICT, "the same lines were edited later")

    def _mark(
        self, after: FileVersion | None, before: FileVersion, now: FileVersion
    ) -> FileVersion:
        if before.is_link or now.is_link:
            raise _LeftError(
                Reason.TYPE_CLASH, "a link has no lines for conflict markers"
            )
        old, new = self._bytes(before), self._bytes(now)
        base = self._bytes(after) if after is not None else b""
        if any(merge.is_binary(data) for data in (base, old, new)):
            raise _LeftError(
                Reason.BINARY, "a binary file has no lines for conflict markers"
            )
        labels = merge.Labels(f"before {self.manner.label}", "now")
        data, conflicts = merge.mark(base, old, new, labels)
        self.marked += conflicts
        mode = _mode(before, after, now) if after is not None else now.mode
        return FileVersion(self.blobs.make(data, now.oid), mode)

    def _clash(self, before: FileVersion, reason: Reason, detail: str) -> FileVersion:
        """Return the earlier state if the request says so, else skip the lineage."""
        # If the earlier content is gone, that is the reason to report: no option can restore it.
        self._bytes(before)
        if self.manner.on_conflict is not OnConflict.OVERWRITE:
            raise _LeftError(reason, detail)
        self.overwrites = True
        return before

    def _bytes(self, version: FileVersion) -> bytes:
        data = self.blobs.get(version.oid)
        if data is None:
            raise _LeftError(*self.blobs.gone(version.oid))
        return data


def _since(left: LineageRecord, now: LineageRecord) -> str:
    """Return what became of a file that the unit created."""
    if left.path == now.path:
        return _EDITED
    same = left.version == now.version
    return _MOVED if same else _MOVED_AND_EDITED


def _content(version: FileVersion) -> tuple[Oid, bool]:
    return version.oid, version.is_link


def _mode(before: FileVersion, after: FileVersion, now: FileVersion) -> int:
    """Return the mode of a regular file: the earlier one where nobody changed it since."""
    if now.is_link:
        return before.mode
    if after.is_link:
        return now.mode
    return before.mode if now.mode == after.mode else now.mode
