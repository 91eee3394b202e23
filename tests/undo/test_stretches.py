"""Plans from the ends of stretches are those that all events give."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from gitshadow.attribution.ladder import BY_TIME_ONLY, by_time_only
from gitshadow.model import (
    LINK_MODE,
    Actor,
    Attribution,
    Confidence,
    EventKind,
    FileVersion,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.store.journal import events, stretches
from gitshadow.store.journal.db import Db
from gitshadow.undo.effective import singles_of
from gitshadow.undo.path_plans import World
from gitshadow.undo.plan import Plan, PlanRequest, plan_unit
from gitshadow.undo.targets import Unit, events_of, stretches_of
from tests.conftest import FULL
from tests.support.blobs import Blobs
from tests.support.values import ends_of
from tests.undo.histories import Change, Step, histories
from tests.undo.planner_ground import PlannerGround
from tests.undo.trial import Trial

T = TypeVar("T")
_EXAMPLES = 10_000 if FULL else 200


def compare(db: Db, wish: PlanRequest, world: World, blobs: Blobs) -> int:
    """Plan from all events and from the ends of stretches; return how many were left out."""
    unit = events.by_seqs(db, wish.seqs).values()
    paths = {end for one in unit for end in ends_of(one)}
    since = min(wish.seqs)
    whole = events.history(db, "main", paths, since)
    stored = stretches.history(db, "main", paths, since)
    assert stored.ops() == {row.op for row in whole} - {None}
    singles = singles_of(wish.undoings[op] for op in stored.ops() & {*wish.undoings})
    found = stored.folded(wish.seqs, singles, by_time_only)
    assert {row.seq for row in whole} == found.seqs()
    assert set(found.rows) <= set(whole)
    folded = replace(wish, between=found.between)
    plan = plan_unit(found.rows, folded, world, blobs.get)
    assert plan == plan_unit(whole, wish, world, blobs.get)
    return sum(map(len, found.between.values()))


@dataclass(slots=True)
class Twice(PlannerGround):
    """Plan from all events and from the ends of stretches; write a file several times for one."""

    db: Db = field(default_factory=Db.in_memory)
    left_out: int = 0

    def play(
        self, who: str, turn: str | None, changes: Sequence[Change]
    ) -> Collection[PathChange]:
        """Make changes; what overwrites a file comes in four writes, the second changes nothing."""
        rows: list[PathChange] = []
        for verb, path, _ in changes if len(changes) == 1 else ():
            known = self.files.get(RepoPath(path))
            if verb == "put" and known is not None and known.version.mode != LINK_MODE:
                data = self.blobs[known.version.oid]
                for more in (b"<half>\n", b"", b"<most>\n"):
                    entry = known.version.mode, data + more
                    rows += self._played(who, turn, [("put", path, entry)])
        return [*rows, *self._played(who, turn, changes)]

    def _played(
        self, who: str, turn: str | None, changes: Sequence[Change]
    ) -> Collection[PathChange]:
        return PlannerGround.play(self, who, turn, changes)

    def plan_of(self, wish: PlanRequest) -> Plan:
        """Plan both ways."""
        if wish.seqs:
            self._compare(wish)
        return PlannerGround.plan_of(self, wish)

    def _compare(self, wish: PlanRequest) -> None:
        self.db.run("DELETE FROM events")
        events.insert(self.db, self.events)
        self.left_out += compare(self.db, wish, self.world(), self.blobs)


def test_plan_from_ends_of_stretches_is_the_plan_from_all_events() -> None:
    left_out = 0

    @given(histories(10))
    @settings(max_examples=_EXAMPLES)
    def play(history: list[Step]) -> None:
        nonlocal left_out
        ground = Twice()
        Trial(ground).play(history)
        left_out += ground.left_out

    play()
    assert left_out > _EXAMPLES


_CONTENTS = (b"one\ntwo\nthree\n", b"one\ntwo\n3\n", b"1\ntwo\nthree\n")
_BLOBS = Blobs()
_VERSIONS = (
    None,
    *(FileVersion(_BLOBS.store(data), 0o100644) for data in _CONTENTS),
    FileVersion(_BLOBS.store(_CONTENTS[0]), 0o100755),
)
_PATHS = (RepoPath(b"a"), RepoPath(b"b"))
_KINDS = (EventKind.MODIFY, EventKind.CREATE, EventKind.COVERAGE)
_REASONS = ("its hook names this path", f"its call was open, {BY_TIME_ONLY}")
_OPS: Mapping[str, Unit] = {
    "op-1": Unit(turns=frozenset({("s1", "t1")})),
    "op-2": Unit(seqs=frozenset({3, 6})),
    "op-3": Unit(calls=frozenset({("s1", "c2")})),
    "op-4": Unit(ops=frozenset({"op-1"})),
    "op-5": Unit(),
    "op-6": Unit(bursts=frozenset({"b1"})),
}
_UNITS = (
    *(Unit(sessions=frozenset({one})) for one in ("s1", "s1", "s1", "s2")),
    *_OPS.values(),
    Unit(bursts=frozenset({"b1", "b2"})),
    Unit(ops=frozenset({"op-2", "op-5"})),
)


def _row(
    random: Random, seq: int, at: dict[RepoPath, FileVersion | None]
) -> PathChange:
    """Return a row that differs now and then from its neighbours, as no recorder would write it."""

    def seldom(usual: T, *others: T) -> T:
        return random.choice(others) if random.random() < 0.03 else usual

    path = random.choice(_PATHS)
    old = seldom(None, _PATHS[path == _PATHS[0]])
    before = seldom(at.get(old or path), *_VERSIONS)
    if old is not None:
        at[old] = None
    at[path] = random.choice(_VERSIONS)
    return PathChange(
        seq,
        seldom(seq, 1),
        "main",
        seldom(*_KINDS),
        path,
        Attribution(
            actor=seldom(Actor.AGENT, Actor.HUMAN),
            session=seldom("s1", "s2"),
            turn=seldom("t1", "t2"),
            call=seldom("c1", "c2"),
            confidence=seldom(Confidence.HIGH, *Confidence),
            reason=seldom(*_REASONS),
        ),
        Oid("c" * 40),
        old,
        before,
        at[path],
        seldom("b1", "b2", None),
        seldom(None, *_OPS),
        switched=seldom(False, True),
        moved_in=seldom(False, True),
    )


def test_stretches_are_the_same_whatever_the_rows_say() -> None:
    db, left_out = Db.in_memory(), [0, 0]

    @given(st.integers(0, 1 << 32))
    @settings(max_examples=5 * _EXAMPLES)
    def play(seed: int) -> None:
        random = Random(seed)
        at: dict[RepoPath, FileVersion | None] = {}
        found = [_row(random, seq, at) for seq in range(1, random.randint(3, 30))]
        db.run("DELETE FROM events")
        events.insert(db, found)
        unit = random.choice(_UNITS)
        whole = events_of(db, "main", unit)
        ends = stretches_of(db, "main", unit)
        assert ends.seqs() == {row.seq for row in whole}
        assert set(ends.rows) <= set(whole)
        assert {_shown(row) for row in ends.rows} == {_shown(row) for row in whole}
        left_out[0] += len(whole) - len(ends.rows)
        if whole:
            world = World(present={path: random.choice(_VERSIONS) for path in _PATHS})
            wish = PlanRequest(seqs=ends.seqs(), undoings=_OPS)
            left_out[1] += compare(db, wish, world, _BLOBS)

    play()
    assert min(left_out) > _EXAMPLES


def _shown(row: PathChange) -> tuple[object, ...]:
    """Return what a choice of events and the header of a plan depend on."""
    who = row.attribution
    author = who.session, who.turn, who.actor, who.confidence
    return row.path, row.old_path, row.burst, row.op, *author
