"""Histories on values: thousands of them, with the real drafts, lineages and plans.

What the engine chooses, the newest turn or undo, is chosen here by a rule of its own, so that the
laws do not depend on the journal. Git is a model over trees.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gitshadow.capture.drafts import Draft, draft_changes
from gitshadow.model import (
    FileState,
    FileVersion,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.recording.head import HeadMove, HeadStep
from gitshadow.recording.switches import Witness, split_switched
from gitshadow.undo.plan import PathFilter, Plan, PlanRequest, WantedState, plan_states
from gitshadow.undo.reverse import ConflictPolicy, OnConflict
from gitshadow.undo.targets import Unit, is_undoable
from tests.support.values import Values, ends_of
from tests.undo.git_model import Branches
from tests.undo.histories import MAY_COME, MOMENTS, Change, Entry, base
from tests.undo.trial import Outcome, Wanted, is_agents_own, some_parts
from tests.undo.words import choice_of


@dataclass(frozen=True, slots=True)
class Done:
    """An op: what it undid, from which event on, and by which verb."""

    id: str
    unit: Unit
    undoes: str | None
    since: int
    redo: bool


@dataclass(slots=True)
class PlannerGround(Values):
    """Run histories on values."""

    ops: list[Done] = field(default_factory=list)
    branches: Branches = field(default_factory=Branches)
    brought: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for path, entry in base().items():
            self.files[RepoPath(path)] = self.state(entry)

    def play(
        self, who: str, turn: str | None, changes: Sequence[Change]
    ) -> Collection[PathChange]:
        """Make changes, noticed all at once, and give them their events."""
        before = dict(self.files)
        self._make(changes)
        drafts = draft_changes(self.seen(before), self.moment())
        return [self._row(draft, who, turn) for draft in drafts]

    def _make(self, changes: Sequence[Change]) -> None:
        for verb, path, what in changes:
            self.change(verb, RepoPath(path), what)
            if verb == "bring":
                self.brought.add(self.files[RepoPath(path)].stat.inode)

    def _row(self, draft: Draft, who: str, turn: str | None) -> PathChange:
        moved_in = self._is_new_here(draft) and draft.kind in MAY_COME
        return self.row(draft, who, turn, moved_in=moved_in)

    def _is_new_here(self, draft: Draft) -> bool:
        """Return whether a file was moved in, and forget it: when seen again, it is known."""
        inode = draft.after.stat.inode if draft.after is not None else 0
        is_brought = inode in self.brought
        self.brought.discard(inode)
        return is_brought

    def git(
        self,
        verbs: Sequence[str],
        who: str,
        turn: str | None,
        changes: Sequence[Change] = (),
    ) -> Collection[PathChange]:
        """Let Git move HEAD and write files; what it switched has no author."""
        files = dict(self.files)
        self._make(changes)
        steps = [step for verb in verbs for step in self._step(verb)]
        moment = self.moment()
        stages, rest = split_switched(self.seen(files), steps, moment, self._witness())
        rows: list[PathChange] = []
        for _, written, gits, _ in stages:
            rows += [self._row(draft, who, turn) for draft in written]
            rows += self.switch(sorted(gits, key=lambda draft: draft.path), "git")
        mine = draft_changes(rest, moment)
        return rows + [self._row(draft, who, turn) for draft in mine]

    def _step(self, verb: str) -> Iterator[HeadStep]:
        """Change the files as one command does; yield how it moved HEAD, if it did."""
        old, files = self.branches.head, dict(self.files)
        after = self.branches.act(verb, self.tree())
        if after is None:
            return
        for path in sorted(files.keys() - after.keys()):
            del self.files[path]
        for name, entry in after.items():
            if entry != self._entry(files.get(RepoPath(name))):
                self.files[RepoPath(name)] = self.state(entry)
        words, new = self.branches.words.get(verb), self.branches.head
        if words is not None:
            move = HeadMove("main", None, "main", None, words=words)
            changes = {
                RepoPath(path): (self._blob(old.get(path)), self._blob(new.get(path)))
                for path in sorted({*old, *new})
                if old.get(path) != new.get(path)
            }
            yield HeadStep(move, changes)

    def _blob(self, entry: Entry | None) -> tuple[int, Oid] | None:
        return None if entry is None else (entry[0], self.blobs.store(entry[1]))

    def _witness(self) -> Witness:
        return Witness(
            data_of=self.blobs.__getitem__,
            staged=lambda _: {},
            converted=lambda _: (),
            quiet=lambda _: False,
        )

    def pin(self) -> None:
        """Pin nothing: the trial remembers the tree."""

    def _entry(self, state: FileState | None) -> Entry | None:
        if state is None:
            return None
        return state.version.mode, self.blobs[state.version.oid]

    def data(self, version: FileVersion) -> bytes:
        """Return recorded bytes."""
        return self.blobs[version.oid]

    def undo(self, wanted: Wanted) -> Outcome:
        """Plan an undo by the real planner and carry it out."""
        if wanted.verb in MOMENTS:
            return self._restore(wanted)
        chosen = self._choose(wanted)
        if chosen is None:
            return Outcome()
        unit, undoes = chosen
        taken = [event for event in self.events if unit.holds(event)]
        if not taken:
            return Outcome()
        plan = self._plan(taken, wanted)
        items = [planned.item for planned in plan.items]
        if not plan.steps:
            return Outcome(items=items, taken=taken)
        if wanted.verb in ("hunks", "only"):
            unit = Unit(seqs=plan.taken)
        op, rows = self._done(plan, unit, undoes, redo=wanted.verb == "redo")
        return Outcome(items=items, taken=taken, op=op, rows=rows)

    def _restore(self, wanted: Wanted) -> Outcome:
        """Plan a moment by the real planner; what is to go, the trial's own rule says."""
        goal = wanted.goal
        if goal is None:  # in the middle of a step, nobody remembers what was there
            return Outcome()
        since = [one for one in self.events if one.ts_ns > (wanted.at_ns or 0)]
        asked = {RepoPath(end) for one in since for end in ends_of(one)}
        wants = {
            path: WantedState(
                self._version_of(goal.get(path)), is_agents_own(self.events, path)
            )
            for path in asked
        }
        plan = plan_states(
            wants, self._wish((), wanted), self.world(), self.blobs.get, 0
        )
        items = [planned.item for planned in plan.items]
        if not plan.steps:
            return Outcome(items=items)
        op, rows = self._done(plan, Unit())
        return Outcome(items=items, op=op, rows=rows)

    def _version_of(self, entry: Entry | None) -> FileVersion | None:
        return (
            FileVersion(self.blobs.store(entry[1]), entry[0])
            if entry is not None
            else None
        )

    def _done(
        self, plan: Plan, unit: Unit, undoes: str | None = None, *, redo: bool = False
    ) -> tuple[str, list[PathChange]]:
        since, rows = len(self.events), self.apply(plan, unit)
        op = next(reversed(self.undoings))
        self.ops.append(Done(op, unit, undoes, since, redo))
        return op, rows

    def _choose(self, wanted: Wanted) -> tuple[Unit, str | None] | None:
        if wanted.verb in ("oops", "file"):
            found = self._newest_turn()
            return (Unit(turns=frozenset({found})), None) if found else None
        if wanted.verb == "session":
            return Unit(sessions=frozenset({wanted.who})), None
        if wanted.verb in ("turn_back", "hunks", "only"):
            return Unit(turns=frozenset({(wanted.who, wanted.turn)})), None
        if wanted.verb == "event":
            known = [one for one in self.events if is_undoable(one)]
            seqs = [one.seq for one in known[::-1][wanted.pick :][:1]]
            return Unit(seqs=frozenset(seqs)), None
        ops = self._effective() if wanted.verb == "redo" else self.ops[::-1]
        if wanted.verb == "redo":
            ops = [op for op in ops if not op.redo][:1]
        if not ops:
            return None
        op = ops[wanted.pick % len(ops)]
        return Unit(ops=frozenset({op.id})), op.id

    def _newest_turn(self) -> tuple[str, str] | None:
        """Return the newest turn of an agent that is not wholly taken back."""
        by_turn: dict[tuple[str, str], list[PathChange]] = {}
        for event in self.events:
            who = event.attribution
            if is_undoable(event) and event.op is None and who.turn:
                by_turn.setdefault((who.session, who.turn), []).append(event)
        back = self._effective()
        for turn, rows in sorted(by_turn.items(), key=lambda one: -one[1][-1].seq):
            for row in rows:
                if not any(op.since >= row.seq and op.unit.holds(row) for op in back):
                    return turn
        return None

    def _effective(self) -> list[Done]:
        dead: set[str] = set()
        found: list[Done] = []
        for op in self.ops[::-1]:
            if op.id not in dead:
                found.append(op)
                dead |= {op.undoes} if op.undoes else set()
        return found

    def _plan(self, taken: Sequence[PathChange], wanted: Wanted) -> Plan:
        wish = self._wish(taken, wanted)
        if wanted.verb == "hunks":
            plan = self.plan_of(replace(wish, offer=True))
            items = [planned.item for planned in plan.items]
            choice = choice_of(plan.whole, some_parts(items, wanted.pick))
            wish = replace(wish, choice=choice)
        return self.plan_of(wish)

    def _wish(self, taken: Sequence[PathChange], wanted: Wanted) -> PlanRequest:
        only = (RepoPath(wanted.path),) if wanted.verb == "only" else ()
        return PlanRequest(
            seqs=frozenset(event.seq for event in taken),
            manner=ConflictPolicy(on_conflict=OnConflict(wanted.on_conflict)),
            undoings=self.undoings,
            paths=PathFilter(only),
        )
