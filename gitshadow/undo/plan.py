"""The plan: what an undo will do to each path, and what it skips and why.

Invariant: pure; the same world gives the same plan and the same token.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from gitshadow.attribution.ladder import by_time_only
from gitshadow.messages.undo import HunkChoice
from gitshadow.model import FileVersion, Oid, PathChange, RepoPath
from gitshadow.store.digests import digest
from gitshadow.store.object_format import is_empty_blob
from gitshadow.store.paths import any_within, parents
from gitshadow.store.refs import display_path
from gitshadow.store.sqlite_files import database_of
from gitshadow.undo import merge, path_plans
from gitshadow.undo.databases import FindDatabases, may_be_part
from gitshadow.undo.lineage import (
    EventRun,
    Lineage,
    LineageRecord,
    course_of,
    runs_of,
    trace,
)
from gitshadow.undo.path_plans import Case, World, check_alone, settle
from gitshadow.undo.report import Action, Item, Reason, State
from gitshadow.undo.reverse import Blobs, ConflictPolicy, Read, Turned, take_back
from gitshadow.undo.targets import Undoings

_HASH_DIGITS = 9
_SEQ_DIGITS = 7


class PathFilter(NamedTuple):
    """Choose paths: only these (empty: all), but not those; a directory means what is in it."""

    only: tuple[RepoPath, ...] = ()
    leave: tuple[RepoPath, ...] = ()

    def takes(self, paths: Collection[RepoPath]) -> bool:
        """Return whether a file that had these paths is chosen."""
        if any_within(paths, self.leave):
            return False
        return not self.only or any_within(paths, self.only)


class Unrecorded(NamedTuple):
    """A path that was changed while nobody recorded it; `why` is one sentence."""

    path: RepoPath
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What is to be undone, and how.

    `seqs` are the unit's events; those inside stretches are only numbers, `between` an event and
    the next. `ambiguous` are events that may be the unit's and are named, `unrecorded` are paths
    that are named because nobody recorded what the unit did to them.
    `is_missing` returns whether an object is not in the repository. `databases` is
    `Databases.among`. `removable` returns whether a directory is the unit's, so that it goes when
    it is empty.
    `offer` asks for the hunks of each item, `choice` takes only some of them.
    """

    seqs: frozenset[int] = frozenset()
    between: Mapping[int, Collection[int]] = field(default_factory=dict)
    manner: ConflictPolicy = field(default_factory=ConflictPolicy)
    paths: PathFilter = field(default_factory=PathFilter)
    undoings: Undoings = field(default_factory=dict)
    ambiguous: tuple[PathChange, ...] = ()
    unrecorded: tuple[Unrecorded, ...] = ()
    is_missing: Callable[[Oid], bool] = lambda _: False
    databases: FindDatabases = lambda _: {}
    removable: Callable[[RepoPath], bool] = lambda _: False
    offer: bool = False
    choice: HunkChoice | None = None


class WriteStep(NamedTuple):
    """A path that gets a version; `before` is what is there now."""

    path: RepoPath
    before: FileVersion | None
    after: FileVersion


class RemovalStep(NamedTuple):
    """A path that is removed; `early` marks a removal that makes room for a write."""

    path: RepoPath
    before: FileVersion | None
    early: bool = False
    after: None = None


PlanStep: TypeAlias = WriteStep | RemovalStep


class PlannedItem(NamedTuple):
    """One item with the paths whose steps it needs; without paths nothing is done."""

    item: Item
    paths: tuple[RepoPath, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The items of a plan and the steps that apply it, by path.

    `made` is content that merging made, by oid; everything else is in the object store.
    `clear` are directories that make room for a file, `sweep` the unit's that go when they are
    empty; both deepest first. `databases` are those that steps belong to, by path. `seqs` are the
    events that it is about, `taken` those that it undoes whole, within the choice if there is one.
    `whole` is the token without the choice.
    """

    items: tuple[PlannedItem, ...]
    steps: Mapping[RepoPath, PlanStep]
    token: str
    whole: str
    made: Mapping[Oid, bytes] = field(default_factory=dict)
    clear: tuple[RepoPath, ...] = ()
    sweep: tuple[RepoPath, ...] = ()
    databases: Mapping[RepoPath, RepoPath] = field(default_factory=dict)
    seqs: frozenset[int] = frozenset()
    taken: frozenset[int] = frozenset()


class WantedState(NamedTuple):
    """A state that a path is to have again; None is absent.

    `deletable` is set if the file came from an agent and is unchanged since. `reason`
    is set where the path is to be left alone.
    """

    version: FileVersion | None
    deletable: bool = False
    session: str | None = None
    reason: Reason | None = None


def plan_unit(
    events: Sequence[PathChange], wish: PlanRequest, world: World, read: Read
) -> Plan:
    """Plan to undo a unit of events.

    Args:
        events: Ascending; from the unit's first event on, every event of every path that the
            unit's files ever had, but those of `wish.between`.
        wish: What to undo and how.
        world: The disk now.
        read: Gives recorded content.
    """
    blobs = Blobs(read, wish.is_missing)
    found = (
        _case(lineage, wish, world, blobs) for lineage in trace(events, wish.undoings)
    )
    cases = [case for case in found if case is not None]
    # The newest event is part of the token, so that a refusal can list what changed since.
    last = max((event.seq for event in events), default=0)
    return _finish(cases, wish, world, blobs, last)


def plan_states(
    wanted: Mapping[RepoPath, WantedState],
    wish: PlanRequest,
    world: World,
    read: Read,
    seq: int,
) -> Plan:
    """Plan to give paths a state that they had; `seq` is the newest event of any of them."""
    blobs = Blobs(read, wish.is_missing)
    cases = [
        _wanted_case(path, want, world, blobs)
        for path, want in wanted.items()
        if wish.paths.takes((path,))
    ]
    return _finish(cases, wish, world, blobs, seq)


def newest_seq(token: str) -> int | None:
    """Return the newest event that a plan knew of, None where this is no token."""
    digits = token.lower()
    if len(digits) != _HASH_DIGITS + _SEQ_DIGITS or set(digits) - set(
        "0123456789abcdef"
    ):
        return None
    return int(digits[_HASH_DIGITS:], 16)


def _case(
    lineage: Lineage, wish: PlanRequest, world: World, blobs: Blobs
) -> Case | None:
    """Return what becomes of a lineage; None where nothing on it is the unit's."""
    mine = [event for event in lineage.events if event.seq in wish.seqs]
    if not mine or not wish.paths.takes(lineage.paths):
        return None
    course = course_of(lineage, wish.undoings, wish.seqs)
    undone = course.undone
    runs = runs_of(
        lineage,
        course,
        lambda event: event.seq in wish.seqs and event.seq not in undone,
        wish.between,
    )
    there = None if lineage.displaced else world.present.get(lineage.path)
    start = LineageRecord(lineage.path, there)
    case = Case(
        start=start,
        turned=Turned(target=start),
        session=mine[-1].attribution.session,
        paths=lineage.paths,
        displaced=lineage.displaced,
        fleeting=there is None and bool(runs) and all(map(_is_fleeting, runs)),
        by_timing=any(map(_is_by_timing, mine)),
        seqs=frozenset(_numbers(mine, wish.between)),
    )
    check_alone(case, world)
    if case.turned.reason is not None:
        return case
    case.former = _former(runs)
    case.turned = take_back(runs, start, blobs, wish.manner)
    if case.turned.reason is Reason.CONFLICT and lineage.path in world.directories:
        case.leave(Reason.TYPE_CLASH, "a directory is there now")
    # All of the unit's events on this file are undone; the report names the op that did it.
    if not runs:
        case.turned.detail = f"already undone by op {undone[mine[-1].seq]}"
    check_alone(case, world)
    return case


def _former(runs: Sequence[EventRun]) -> Oid | None:
    """Return the content from before the unit, None where there was none worth keeping."""
    version = runs[0].before.version if runs else None
    return None if version is None or is_empty_blob(version.oid) else version.oid


def _numbers(
    mine: Iterable[PathChange], between: Mapping[int, Collection[int]]
) -> Iterator[int]:
    for event in mine:
        yield event.seq
        yield from between.get(event.seq, ())


def _is_by_timing(event: PathChange) -> bool:
    return by_time_only(event.attribution.reason)


def _is_fleeting(run: EventRun) -> bool:
    """Return whether a run created a file and deleted it again: mostly a temporary one."""
    return not run.baseless and run.before.version is None is run.after.version


def _wanted_case(path: RepoPath, want: WantedState, world: World, blobs: Blobs) -> Case:
    start = LineageRecord(path, world.present.get(path))
    case = Case(
        start=start,
        turned=Turned(target=LineageRecord(path, want.version)),
        session=want.session,
        paths=frozenset({path}),
    )
    if want.reason is not None:
        case.leave(want.reason, "its content at that time was never recorded")
    elif want.version is None and start.version is not None and not want.deletable:
        case.leave(
            Reason.NOT_CREATED_BY_UNIT, "it was created later, and not only by agents"
        )
    elif (
        case.moves and want.version is not None and blobs.get(want.version.oid) is None
    ):
        case.leave(*blobs.gone(want.version.oid))
    check_alone(case, world)
    return case


def _finish(
    cases: list[Case], wish: PlanRequest, world: World, blobs: Blobs, seq: int
) -> Plan:
    databases = _databases(cases, wish, blobs)
    settle(cases, world, databases)
    cases.sort(key=_place)
    seqs = frozenset(seq for case in cases for seq in case.seqs)
    # A choice is made on a plan without one, so both tokens are needed to check it.
    whole = token = _token(cases, seqs, wish, seq)
    if wish.choice is not None:
        path_plans.choose(_shown(cases), wish.choice, blobs)
        settle(cases, world, databases)
        cases.sort(key=_place)
        token = _token(cases, seqs, wish, seq)
    steps = _steps(cases, world)
    items = [_planned(case, blobs, steps, offer=wish.offer) for case in _shown(cases)]
    items += _named_items(cases, wish)
    return Plan(
        items=tuple(items),
        steps=steps,
        token=token,
        whole=whole,
        made={
            step.after.oid: blobs.made[step.after.oid]
            for step in steps.values()
            if step.after is not None and step.after.oid in blobs.made
        },
        clear=_clear(steps, world),
        sweep=_sweep(steps, wish),
        databases={
            path: database_of(path) for path in steps if database_of(path) in databases
        },
        seqs=seqs,
        taken=frozenset(
            seq
            for case in cases
            if case.turned.reason is not Reason.DECLINED
            for seq in case.seqs
        ),
    )


def _databases(
    cases: Sequence[Case], wish: PlanRequest, blobs: Blobs
) -> Mapping[RepoPath, str]:
    """Return the databases to which cases belong, each with why it must stay."""
    asked: set[RepoPath] = set()
    for case in cases:
        if case.moves:
            now = case.start.version
            data = None if now is None else blobs.get(now.oid)
            if may_be_part(case.start.path, data):
                asked.add(case.start.path)
            if may_be_part(case.turned.target.path, None):
                asked.add(case.turned.target.path)
    return wish.databases(asked) if asked else {}


def _shown(cases: Sequence[Case]) -> list[Case]:
    """Return the cases for the report, without files that never existed."""
    return [case for case in cases if not case.fleeting or case.turned.reason]


def _place(case: Case) -> tuple[RepoPath, RepoPath]:
    return case.turned.target.path, case.start.path


def _planned(
    case: Case, blobs: Blobs, steps: Collection[RepoPath], *, offer: bool
) -> PlannedItem:
    turned, start = case.turned, case.start
    needed = {case.destination, case.vacates} & set(steps)
    # Files with the same content that change places change nothing.
    acts = case.moves and bool(needed)
    state = State.REVERSED if acts else State.NO_EFFECT
    if turned.reason is not None:
        state = State.NOT_REVERSED
    moved = case.moves and start.version is not None and case.destination is not None
    moved = moved and turned.target.path != start.path
    # What is created, moved and deleted is deleted where it is now.
    path = turned.target.path if case.destination is not None else start.path
    paths = [path, start.path] if moved else [path]
    added, removed = _lines(start, turned.target, blobs) if case.moves else (None, None)
    item = Item(
        path=display_path(path),
        old_path=display_path(start.path) if moved else None,
        session=case.session,
        action=_action(case) if acts else Action.NONE,
        state=state,
        reason=turned.reason,
        detail=turned.detail,
        overwrites=turned.overwrites,
        by_timing=acts and case.by_timing,
        added=added,
        removed=removed,
        hunks=path_plans.offer(case, blobs) if offer else (),
    )
    return PlannedItem(item, tuple(one for one in paths if one in needed))


def _action(case: Case) -> Action:
    start, target = case.start, case.turned.target
    if not case.moves:
        return Action.NONE
    if target.version is None:
        return Action.DELETE
    if start.version is None:
        return Action.LINK if target.version.is_link else Action.CREATE
    if target.path != start.path:
        return Action.RENAME
    if target.version.is_link:
        return Action.LINK
    if target.version.oid == start.version.oid and not start.version.is_link:
        return Action.CHMOD
    return Action.MERGE if case.turned.merged or case.turned.marked else Action.WRITE


def _lines(
    start: LineageRecord, target: LineageRecord, blobs: Blobs
) -> tuple[int | None, int | None]:
    """Count the lines that come and go; nothing for links and binary content."""
    versions = [one for one in (start.version, target.version) if one is not None]
    if any(version.is_link for version in versions):
        return None, None
    old, new = (
        blobs.get(version.oid) if version is not None else b""
        for version in (start.version, target.version)
    )
    if old is None or new is None:
        return None, None
    return merge.count_changes(old, new) or (None, None)


def _named_items(cases: Sequence[Case], wish: PlanRequest) -> Iterator[PlannedItem]:
    """Yield an item for each path that is named only, because nothing can be done there."""
    planned = {path for case in cases for path in case.paths}
    named: dict[RepoPath, tuple[Reason, str]] = {}
    for event in wish.ambiguous:
        said = "could be from " + " or ".join(event.attribution.candidates)
        named[event.path] = Reason.AMBIGUOUS, said
    for one in wish.unrecorded:
        named[one.path] = one.reason, one.why
    for path, (reason, detail) in sorted(named.items()):
        # A path that the plan acts on has an item of its own already.
        if path in planned or not wish.paths.takes((path,)):
            continue
        item = Item(
            path=display_path(path),
            session=None,
            action=Action.NONE,
            state=State.NOT_REVERSED,
            reason=reason,
            detail=detail,
        )
        yield PlannedItem(item)


def _steps(cases: Sequence[Case], world: World) -> dict[RepoPath, PlanStep]:
    written = {case.destination for case in cases if case.moves} - {None}
    above = {parent for path in written if path for parent in parents(path)}
    ways = [world.in_the_way(path) for path in written if path]
    respelled = {old for way in ways if way is not None for old in way.files}
    steps: dict[RepoPath, PlanStep] = {}
    for case in cases:
        path = case.vacates
        if path is not None and path not in written:
            # The file is where a directory is needed, below a path that becomes a file, or found by
            # the name of another one.
            early = path in above or not written.isdisjoint(parents(path))
            early |= path in respelled
            steps[path] = RemovalStep(path, case.start.version, early)
    for case in cases:
        target = case.turned.target
        if case.moves and target.version is not None:
            before = world.present.get(target.path)
            if before != target.version:
                steps[target.path] = WriteStep(target.path, before, target.version)
    return dict(sorted(steps.items()))


def _clear(steps: Mapping[RepoPath, PlanStep], world: World) -> tuple[RepoPath, ...]:
    """Return the directories at paths where a file is to be written."""
    found: set[RepoPath] = set()
    for path, step in steps.items():
        below = world.directories.get(path)
        if step.after is not None and below is not None:
            found |= {path, *below.directories}
        way = world.in_the_way(path) if step.after is not None else None
        if way is not None:
            found |= way.directories
    return _deepest_first(found)


def _sweep(
    steps: Mapping[RepoPath, PlanStep], wish: PlanRequest
) -> tuple[RepoPath, ...]:
    """Return the unit's directories from which files go."""
    # A directory that gets a file is not empty afterwards, so whose it is need not be asked.
    kept = {up for path, step in steps.items() if step.after for up in parents(path)}
    asked: dict[RepoPath, bool] = dict.fromkeys(kept, False)
    for path, step in steps.items():
        if step.after is not None:
            continue
        for directory in parents(path):
            if directory not in asked:
                asked[directory] = wish.removable(directory)
    return _deepest_first(path for path, goes in asked.items() if goes)


def _deepest_first(paths: Iterable[RepoPath]) -> tuple[RepoPath, ...]:
    return tuple(sorted(paths, key=lambda path: (-path.count(b"/"), path)))


def _token(
    cases: Sequence[Case], seqs: frozenset[int], wish: PlanRequest, newest_seq: int
) -> str:
    """Hash what is undone, from which state of the disk, to which, and by which choice.

    The last digits are the newest event of the concerned paths, so that a plan which is out of
    date can say what has moved since.
    """
    parts = (
        sorted(seqs),
        wish.manner.on_conflict.value,
        sorted(wish.paths.only),
        sorted(wish.paths.leave),
        [(case.start, case.turned.target, case.turned.reason) for case in cases],
        sorted(event.seq for event in wish.ambiguous),
        wish.unrecorded,
    )
    text = "".join(f"{part!r}\0" for part in parts)
    seq = f"{newest_seq:0{_SEQ_DIGITS}x}"[-_SEQ_DIGITS:]
    return digest(text)[:_HASH_DIGITS] + seq
