"""Cases: what is to become of each file of a plan, until no two of them are in each other's way.

Invariant: pure; a case that cannot be carried out whole is left alone, which can only take room
away from others, so settling ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.model import FileVersion, RepoPath
from gitshadow.store.safe_paths import parents, safe_path
from gitshadow.undo.lineage import LineageRecord
from gitshadow.undo.report import Reason
from gitshadow.undo.reverse import Turned

_FOREIGN = "another file is at its path now"
_ROOM = "a file of another type blocks its path"
_WHY_NOT: Mapping[Reason, str] = {
    Reason.OTHER_REPOSITORY: "it is in another repository now",
    Reason.IO_ERROR: "it cannot be read",
}


class Below(NamedTuple):
    """Hold what lies below a directory, at any depth: everything but directories, and those."""

    files: frozenset[RepoPath]
    directories: frozenset[RepoPath]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Hold the disk as it is now, as far as a plan is concerned.

    `directories` are the concerned paths where a directory stands; `barriers` what is no
    directory but stands above a concerned path, and what is neither file, link nor directory.
    `excluded` are concerned paths that are not covered now; where something is there, `present`
    has a stand-in for it.
    """

    present: Mapping[RepoPath, FileVersion | None]
    directories: Mapping[RepoPath, Below] = field(default_factory=dict)
    barriers: frozenset[RepoPath] = frozenset()
    excluded: Mapping[RepoPath, Reason] = field(default_factory=dict)


@dataclass(slots=True)
class Case:
    """Hold one file, where it stands now and what is to become of it.

    `displaced`: its path holds another file now. `session` is whose writes are taken back.
    `fleeting`: the unit made it and took it away again, and nothing stands there. `by_timing`:
    only the time says of a write that the unit made it.
    """

    start: LineageRecord
    turned: Turned
    session: str | None
    paths: frozenset[RepoPath]
    displaced: bool = False
    fleeting: bool = False
    by_timing: bool = False
    seqs: frozenset[int] = frozenset()

    @property
    def moves(self) -> bool:
        """Tell whether anything on the disk is to change."""
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
        """Return the path that the file is to leave, None where it leaves none."""
        if not self.moves or self.start.version is None or self.displaced:
            return None
        return None if self.destination == self.start.path else self.start.path

    def leave(self, reason: Reason, detail: str) -> None:
        """Leave it alone."""
        self.turned = Turned(target=self.start, reason=reason, detail=detail)


def check_alone(case: Case, world: World) -> None:
    """Leave a case that is not to be touched whatever the others do."""
    if not all(safe_path(path) for path in case.paths):
        case.leave(Reason.UNSAFE_PATH, "its name is not safe to write to")
        return
    standing = case.start.path if case.start.version is not None else None
    for path in (standing, case.destination):
        reason = world.excluded.get(path) if path is not None else None
        if reason is not None:
            case.leave(reason, _WHY_NOT.get(reason, "it is no longer recorded"))


def settle(cases: Sequence[Case], world: World) -> None:
    """Leave every case that is in the way of another, or of what else is on the disk."""
    while True:
        clashes = list(_clashes(cases, world))
        if not clashes:
            return
        for case, reason, detail in clashes:
            case.leave(reason, detail)


def _clashes(cases: Sequence[Case], world: World) -> Iterator[tuple[Case, Reason, str]]:
    room = _Room(cases, world)
    for case in cases:
        if not case.moves or case.destination is None:
            continue
        if len(room.arriving[case.destination]) > 1 or room.is_taken(case):
            yield case, Reason.CONFLICT, _FOREIGN
        elif room.is_blocked(case.destination):
            yield case, Reason.TYPE_CLASH, _ROOM


class _Room:
    """Know which paths are given up and which are wanted, if all cases went as planned."""

    def __init__(self, cases: Sequence[Case], world: World) -> None:
        self._world = world
        self._vacated = {case.vacates for case in cases if case.vacates is not None}
        self.arriving: dict[RepoPath, list[Case]] = {}
        for case in cases:
            if case.moves and case.destination is not None:
                self.arriving.setdefault(case.destination, []).append(case)

    def is_taken(self, case: Case) -> bool:
        """Tell whether a file that stays stands where a case wants to be."""
        path = case.destination
        assert path is not None
        if path == case.start.path and not case.displaced:
            return False
        return self._world.present.get(path) is not None and path not in self._vacated

    def is_blocked(self, path: RepoPath) -> bool:
        """Tell whether a path cannot be written: a parent is no directory, or it is one."""
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
        inside = path + b"/"
        return not below.files <= self._vacated or any(
            wanted.startswith(inside) for wanted in self.arriving
        )
