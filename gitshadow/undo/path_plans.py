"""Plan what becomes of each file and of the hunks in it, until no two plans conflict.

The parts of an item are numbered: 0 is the file as a whole or, if lines can be chosen, its mode;
1 and higher are the edits of lines.
Invariant: pure. A case that cannot be carried out whole is skipped, which only leaves fewer paths
for others, so settling ends. With all parts chosen an item is as planned, with none it is
skipped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.messages.undo import Hunk, HunkChoice
from gitshadow.model import FileVersion, Oid, RepoPath, format_mode, git_mode
from gitshadow.store.paths import display_path, parents, safe_path
from gitshadow.store.sqlite_files import database_of
from gitshadow.undo import merge
from gitshadow.undo.lineage import LineageRecord
from gitshadow.undo.merge import NO_END, MergeEdit
from gitshadow.undo.report import Reason
from gitshadow.undo.reverse import Blobs, Turned

_FOREIGN = "another file is at its path now"
_ROOM = "a file of another type blocks its path"
_SPELLED = "this file system has one file for this name and"
_WHY_NOT: Mapping[Reason, str] = {
    Reason.OTHER_REPOSITORY: "it is in another repository now",
    Reason.IO_ERROR: "it cannot be read",
    Reason.EXCLUDED: "a rule or limit that is not undone excludes it",
}
_TOGETHER = "another file of the same database is skipped"
_ONLY_COPY = "it has the earlier content of a file that is skipped"
# Not skipped, skipped by a person's choice, or on another branch, where Git has the content.
_KEPT_OTHERWISE = frozenset({None, Reason.DECLINED, Reason.HEAD_MOVED})
_CONTEXT = 3


class Below(NamedTuple):
    """What is below a directory, at any depth: everything but directories, and the directories."""

    files: frozenset[RepoPath]
    directories: frozenset[RepoPath]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The disk as it is now, as far as a plan is concerned.

    `directories` are the concerned paths that are directories; `barriers` what is no
    directory but above a concerned path, and what is neither file, link nor directory.
    `excluded` are concerned paths that are not covered now; where something is there, `present`
    has a stand-in for it. `respelled` are concerned paths, and directories above them, that are not
    there but whose name leads to something that is spelled otherwise.
    """

    present: Mapping[RepoPath, FileVersion | None]
    directories: Mapping[RepoPath, Below] = field(default_factory=dict)
    barriers: frozenset[RepoPath] = frozenset()
    excluded: Mapping[RepoPath, Reason] = field(default_factory=dict)
    respelled: Mapping[RepoPath, "Respelled"] = field(default_factory=dict)

    def in_the_way(self, path: RepoPath) -> "Respelled | None":
        """Return what has to go before a path can be written in its own spelling."""
        # The outermost one: below it nothing is spelled right.
        for each in (*parents(path), path):
            if each in self.respelled:
                return self.respelled[each]
        return None


class Respelled(NamedTuple):
    """A file or directory on the disk that is found by another name.

    `files` is the file itself, or those below the directory; `directories` are that directory and
    those below.
    """

    path: RepoPath
    files: frozenset[RepoPath]
    directories: frozenset[RepoPath] = frozenset()


@dataclass(slots=True)
class Case:
    """One file, where it is now and what is to become of it.

    `displaced`: its path holds another file now. `session` is whose writes are undone.
    `fleeting`: the unit created it and deleted it again, and nothing is there. `by_timing`:
    only the time says of a write that the unit made it. `former` is the content from before the
    unit.
    """

    start: LineageRecord
    turned: Turned
    session: str | None
    paths: frozenset[RepoPath]
    displaced: bool = False
    fleeting: bool = False
    by_timing: bool = False
    seqs: frozenset[int] = frozenset()
    former: Oid | None = None

    @property
    def moves(self) -> bool:
        """Return whether anything on the disk is to change."""
        target = self.turned.target
        if target.version is None and self.start.version is None:
            return False
        return target != self.start

    @property
    def destination(self) -> RepoPath | None:
        """Return the path that is to hold the file; None where it is to be absent."""
        target = self.turned.target
        return target.path if target.version is not None else None

    @property
    def vacates(self) -> RepoPath | None:
        """Return the path that the file is to leave, None if it leaves none."""
        if not self.moves or self.start.version is None or self.displaced:
            return None
        return None if self.destination == self.start.path else self.start.path

    @property
    def databases(self) -> frozenset[RepoPath]:
        """Return the paths of the databases to which the file may belong, before and after."""
        return frozenset(map(database_of, (self.start.path, self.turned.target.path)))

    def leave(self, reason: Reason, detail: str) -> None:
        """Skip the file."""
        self.turned = Turned(target=self.start, reason=reason, detail=detail)


def check_alone(case: Case, world: World) -> None:
    """Skip a case that must not be touched, whatever the others do."""
    if not all(safe_path(path) for path in case.paths):
        case.leave(Reason.UNSAFE_PATH, "its name is not safe to write to")
        return
    standing = case.start.path if case.start.version is not None else None
    for path in (standing, case.destination):
        reason = world.excluded.get(path) if path is not None else None
        if reason is not None:
            case.leave(reason, _WHY_NOT[reason])


def settle(
    cases: Sequence[Case], world: World, databases: Mapping[RepoPath, str]
) -> None:
    """Skip every case that conflicts with another, or with what else is on the disk.

    `databases` are those to which cases belong, with why they must stay, if they must.
    """
    while True:
        clashes = [*_clashes(cases, world), *_parted(cases, databases)]
        clashes = clashes or [*_only_copies(cases)]
        if not clashes:
            return
        for case, reason, detail in clashes:
            case.leave(reason, detail)


def _clashes(cases: Sequence[Case], world: World) -> Iterator[tuple[Case, Reason, str]]:
    # Computed again in each round, because a case that is skipped no longer vacates its path.
    room = _Room(cases, world)
    for case in cases:
        if not case.moves or case.destination is None:
            continue
        path = case.destination
        if len(room.arriving[path]) > 1 or room.is_taken(path, case):
            yield case, Reason.CONFLICT, _FOREIGN
        elif room.is_blocked(path):
            yield case, Reason.TYPE_CLASH, _ROOM
        elif (other := room.spelled_otherwise(path)) is not None:
            yield case, Reason.CONFLICT, f"{_SPELLED} {display_path(other)}"


def _parted(
    cases: Sequence[Case], databases: Mapping[RepoPath, str]
) -> Iterator[tuple[Case, Reason, str]]:
    """Yield the cases of databases of which a part has to stay."""
    why = {database: said for database, said in databases.items() if said}
    for case in cases:
        if not case.moves and case.turned.reason is not None:
            for database in case.databases & databases.keys():
                why.setdefault(database, _TOGETHER)
    for case in cases:
        for database in case.databases & why.keys() if case.moves else ():
            yield case, Reason.CONFLICT, why[database]


def _only_copies(cases: Sequence[Case]) -> Iterator[tuple[Case, Reason, str]]:
    """Yield the cases that take from the disk what a skipped file held: half of a swap."""
    missed = {
        case.former
        for case in cases
        if not case.moves and case.turned.reason not in _KEPT_OTHERWISE
    } - {None}
    if not missed:
        return
    left = {case.turned.target.version for case in cases}
    missed -= {version.oid for version in left if version is not None}
    for case in cases:
        now = case.start.version
        if case.moves and now is not None and now.oid in missed:
            yield case, Reason.CONFLICT, _ONLY_COPY


class _Room:
    """Which paths are vacated and which are wanted, if all cases go as planned."""

    def __init__(self, cases: Sequence[Case], world: World) -> None:
        self._world = world
        self._vacated = {case.vacates for case in cases if case.vacates is not None}
        self.arriving: dict[RepoPath, list[Case]] = {}
        for case in cases:
            if case.moves and case.destination is not None:
                self.arriving.setdefault(case.destination, []).append(case)

    def is_taken(self, path: RepoPath, case: Case) -> bool:
        """Return whether another file stays at the path where a case wants to be."""
        if path == case.start.path and not case.displaced:
            return False
        return self._world.present.get(path) is not None and path not in self._vacated

    def is_blocked(self, path: RepoPath) -> bool:
        """Return whether a path cannot be written: a parent is no directory, or it is one."""
        for parent in parents(path):
            if parent in self.arriving:
                return True
            if parent in self._world.barriers and parent not in self._vacated:
                return True
        if path in self._world.barriers and self._world.present.get(path) is None:
            return True
        below = self._world.directories.get(path)
        if below is None:
            return False
        # A directory makes room for a file only if all files in it leave and no other arrives.
        inside = path + b"/"
        return not below.files <= self._vacated or any(
            wanted.startswith(inside) for wanted in self.arriving
        )

    def spelled_otherwise(self, path: RepoPath) -> RepoPath | None:
        """Return what stays on the disk to which a path leads, though it is spelled otherwise."""
        way = self._world.in_the_way(path)
        return None if way is None or way.files <= self._vacated else way.path


def offer(case: Case, blobs: Blobs) -> tuple[Hunk, ...]:
    """Return what can be included or skipped of a case, in the order of the file."""
    if not case.moves:
        return ()
    parts = _parts(case, blobs)
    if parts.whole:
        lines = (*_modes(case), *_all_lines(parts)) if parts.known else ("binary",)
        return (Hunk("file", (0,), lines, ()),)
    found = [Hunk("mode", (0,), _modes(case), ())] if parts.mode else []
    return (*found, *(_hunk(parts, group) for group in _groups(parts.edits)))


def choose(cases: Sequence[Case], choice: HunkChoice, blobs: Blobs) -> None:
    """Skip what was not chosen of each case; `choice` numbers the cases in their order."""
    for number, case in enumerate(cases):
        if case.moves:
            wanted = frozenset(choice.taken.get(str(number), ()))
            _take_parts(case, wanted, blobs)


def _take_parts(case: Case, wanted: frozenset[int], blobs: Blobs) -> None:
    parts = _parts(case, blobs)
    taken = wanted & parts.numbers
    if taken == parts.numbers:
        return
    start, target = case.start.version, case.turned.target
    # A file that is created or deleted is one part, so it is included whole or not at all.
    if not taken or start is None or target.version is None:
        case.leave(Reason.DECLINED, "")
        return
    oid = start.oid
    if taken - {0}:
        chosen = [edit for number, edit in enumerate(parts.edits, 1) if number in taken]
        oid = blobs.make(b"".join(merge.edited(parts.before, chosen)), start.oid)
    mode = target.version.mode if 0 in taken else start.mode
    case.turned.target = LineageRecord(target.path, FileVersion(oid, mode))
    case.turned.reason = Reason.DECLINED
    case.turned.detail = f"{len(taken)} of {len(parts.numbers)} changes chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """Both sides of a case as lines; `known` if there are lines to show."""

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
        # Binary content has no lines, but its mode can still be chosen by itself.
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
    """Return whether there are no lines to choose: it is created, deleted, moved or a link."""
    start, target = case.start, case.turned.target
    if start.version is None or target.version is None or start.path != target.path:
        return True
    return start.version.is_link or target.version.is_link


def _text(version: FileVersion | None, blobs: Blobs) -> bytes | None:
    data = b"" if version is None else blobs.get(version.oid)
    return None if data is None or merge.is_binary(data) else data


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
    return Hunk("lines", numbers, tuple(_lines(parts, group)), split)


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
            yield NO_END
