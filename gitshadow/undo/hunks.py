"""Hunks of a plan: what each item falls into, and the plan when only some of it is taken.

The parts of an item are numbered: 0 is the file as a whole or, where lines can be chosen, its
mode; 1 and on are the edits of lines.
Invariant: pure; with all parts taken an item is as planned, with none it is left alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gitshadow.model import FileVersion, format_mode, git_mode
from gitshadow.undo import merge
from gitshadow.undo.hunk_selection import Choice, Hunk, HunkKind
from gitshadow.undo.lineage import LineageRecord
from gitshadow.undo.merge import MergeEdit
from gitshadow.undo.path_plans import Case
from gitshadow.undo.report import Reason
from gitshadow.undo.reverse import Blobs

_CONTEXT = 3
_NO_END = "\\ No newline at end of file"


def offer(case: Case, blobs: Blobs) -> tuple[Hunk, ...]:
    """Return what can be taken or left of a case, in the order of the file."""
    if not case.moves:
        return ()
    parts = _parts(case, blobs)
    if parts.whole:
        lines = (*_modes(case), *_all_lines(parts)) if parts.known else ("binary",)
        return (Hunk(HunkKind.FILE, (0,), lines),)
    found = [Hunk(HunkKind.MODE, (0,), _modes(case))] if parts.mode else []
    return (*found, *(_hunk(parts, group) for group in _groups(parts.edits)))


def choose(cases: Sequence[Case], choice: Choice, blobs: Blobs) -> None:
    """Leave what was not chosen of each case; `choice` counts them as they come."""
    for number, case in enumerate(cases):
        if case.moves:
            _take(case, choice.taken.get(number, frozenset()), blobs)


def _take(case: Case, wanted: frozenset[int], blobs: Blobs) -> None:
    parts = _parts(case, blobs)
    taken = wanted & parts.numbers
    if taken == parts.numbers:
        return
    if not taken:
        case.leave(Reason.DECLINED, "")
        return
    start, target = case.start.version, case.turned.target
    assert start is not None  # else it is one part
    assert target.version is not None
    oid = start.oid
    if taken - {0}:
        chosen = [edit for number, edit in enumerate(parts.edits, 1) if number in taken]
        oid = blobs.make(b"".join(merge.edited(parts.before, chosen)))
    mode = target.version.mode if 0 in taken else start.mode
    case.turned.target = LineageRecord(target.path, FileVersion(oid, mode))
    case.turned.reason = Reason.DECLINED
    case.turned.detail = f"{len(taken)} of {len(parts.numbers)} changes chosen"


# -- parts ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """Hold both sides of a case as lines; `known`: there are lines to show."""

    whole: bool
    mode: bool = False
    known: bool = True
    before: Sequence[bytes] = ()
    edits: tuple[MergeEdit, ...] = ()

    @property
    def numbers(self) -> frozenset[int]:
        """Return the numbers of all parts."""
        first = 0 if self.whole or self.mode else 1
        return frozenset(range(first, 1 if self.whole else len(self.edits) + 1))


def _parts(case: Case, blobs: Blobs) -> _Parts:
    start, target = case.start.version, case.turned.target.version
    old, new = (_text(version, blobs) for version in (start, target))
    if old is None or new is None:
        if start and target and start.oid == target.oid and not _is_whole(case):
            return _Parts(whole=False, mode=True)
        return _Parts(whole=True, known=False)
    before = merge.split_lines(old)
    return _Parts(
        whole=_is_whole(case),
        mode=start is not None and target is not None and start.mode != target.mode,
        before=before,
        edits=tuple(merge.edits(before, merge.split_lines(new))),
    )


def _is_whole(case: Case) -> bool:
    """Tell a case in which there are no lines to choose: it comes, goes, moves or is a link."""
    start, target = case.start, case.turned.target
    if start.version is None or target.version is None or start.path != target.path:
        return True
    return start.version.is_link or target.version.is_link


def _text(version: FileVersion | None, blobs: Blobs) -> bytes | None:
    data = b"" if version is None else blobs.get(version.oid)
    return None if data is None or merge.is_binary(data) else data


# -- showing -------------------------------------------------------------------------------


def _modes(case: Case) -> tuple[str, ...]:
    start, target = case.start.version, case.turned.target.version
    if start is None and target is not None:
        return (f"new file mode {format_mode(git_mode(target.mode))}",)
    if target is None and start is not None:
        return (f"deleted file mode {format_mode(git_mode(start.mode))}",)
    if start is None or target is None or start.mode == target.mode:
        return ()
    return (
        f"old mode {format_mode(start.mode)}",
        f"new mode {format_mode(target.mode)}",
    )


def _groups(edits: Sequence[MergeEdit]) -> Iterator[range]:
    """Yield the edits, by their index, that are so near that their context meets."""
    first = 0
    for at in range(1, len(edits) + 1):
        near = at < len(edits) and edits[at].start - edits[at - 1].end <= 2 * _CONTEXT
        if not near:
            yield range(first, at)
            first = at


def _hunk(parts: _Parts, group: range) -> Hunk:
    split: tuple[Hunk, ...] = ()
    if len(group) > 1:
        split = tuple(_hunk(parts, range(at, at + 1)) for at in group)
    numbers = tuple(at + 1 for at in group)
    return Hunk(HunkKind.LINES, numbers, tuple(_lines(parts, group)), split)


def _all_lines(parts: _Parts) -> tuple[str, ...]:
    groups = _groups(parts.edits) if parts.edits else ()
    return tuple(line for group in groups for line in _lines(parts, group))


def _lines(parts: _Parts, group: range) -> Iterator[str]:
    """Yield a hunk as git-diff(1) has it; its context ends where another edit begins."""
    edits, before = parts.edits, parts.before
    first, last = edits[group[0]], edits[group[-1]]
    floor = edits[group[0] - 1].end if group[0] else 0
    roof = edits[group[-1] + 1].start if group[-1] + 1 < len(edits) else len(before)
    begin, end = max(floor, first.start - _CONTEXT), min(roof, last.end + _CONTEXT)
    grown = sum(len(one.lines) - (one.end - one.start) for one in edits[: group[0]])
    more = sum(len(edits[at].lines) - (edits[at].end - edits[at].start) for at in group)
    old, new = end - begin, end - begin + more
    yield (f"@@ -{begin + bool(old)},{old} +{begin + grown + bool(new)},{new} @@")
    at = begin
    for edit in (edits[number] for number in group):
        yield from _signed(" ", before[at : edit.start])
        yield from _signed("-", before[edit.start : edit.end])
        yield from _signed("+", edit.lines)
        at = edit.end
    yield from _signed(" ", before[at:end])


def _signed(sign: str, lines: Sequence[bytes]) -> Iterator[str]:
    for line in lines:
        yield sign + line.removesuffix(b"\n").decode("utf-8", "surrogateescape")
        if not line.endswith(b"\n"):
            yield _NO_END
