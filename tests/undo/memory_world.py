"""A world in memory: real drafts, lineages and plans, but no disk, journal or objects."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gitshadow.capture.drafts import BatchTime, Draft, Seen, draft_changes
from gitshadow.model import (
    LINK_MODE,
    Actor,
    Attribution,
    Confidence,
    EventKind,
    FileState,
    FileVersion,
    Oid,
    PathChange,
    RepoPath,
    StatKey,
)
from gitshadow.recording.head import HeadMove, HeadStep
from gitshadow.recording.switches import Witness, split_switched
from gitshadow.store.files import digest
from gitshadow.store.paths import parents
from gitshadow.undo import plan as planning
from gitshadow.undo.path_plans import Below, World
from gitshadow.undo.plan import PathFilter, Plan, PlanRequest, plan_states, plan_unit
from gitshadow.undo.reverse import ConflictPolicy, OnConflict
from gitshadow.undo.targets import Unit, is_undoable
from tests.support.blobs import Blobs
from tests.undo.git_model import Branches
from tests.undo.histories import MAY_COME, MOMENTS, Change, Entry, Tree, base
from tests.undo.trial import Outcome, Wanted, is_agents_own, some_parts
from tests.undo.words import choice_of

_ACTORS = {"human": Actor.HUMAN, "unknown": Actor.UNKNOWN, "git": Actor.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Done:
    """An op: what it undid, from which event on, and by which verb."""

    id: str
    unit: Unit
    undoes: str | None
    since: int
    redo: bool


@dataclass(slots=True)
class Memory:
    """Files, events and ops."""

    files: dict[RepoPath, FileState] = field(default_factory=dict)
    blobs: Blobs = field(default_factory=Blobs)
    events: list[PathChange] = field(default_factory=list)
    ops: list[Done] = field(default_factory=list)
    branches: Branches = field(default_factory=Branches)
    clock: int = 1
    brought: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for path, entry in base().items():
            self.files[RepoPath(path)] = self._state(entry)

    # -- the ground ------------------------------------------------------------------------

    def tree(self) -> Tree:
        """Return what is there."""
        return {
            path: (state.version.mode, self.blobs[state.version.oid])
            for path, state in self.files.items()
        }

    def play(
        self, who: str, turn: str | None, changes: Sequence[Change]
    ) -> Collection[PathChange]:
        """Make changes, noticed all at once, and give them their events."""
        before = dict(self.files)
        for verb, path, what in changes:
            self._change(verb, RepoPath(path), what)
        return [self._row(draft, who, turn) for draft in self._drafts(before)]

    def git(
        self,
        verbs: Sequence[str],
        who: str,
        turn: str | None,
        changes: Sequence[Change] = (),
    ) -> Collection[PathChange]:
        """Let Git move HEAD and write files; what it switched has no author."""
        files = dict(self.files)
        for change, path, what in changes:
            self._change(change, RepoPath(path), what)
        steps = [step for verb in verbs for step in self._step(verb)]
        self.clock += 1
        moment = BatchTime(0, self.clock, lambda _: None)
        stages, rest = split_switched(self._seen(files), steps, moment, self._witness())
        rows: list[PathChange] = []
        for _, written, gits in stages:
            rows += [self._row(draft, who, turn) for draft in written]
            rows += [self._row(draft, "git", None) for draft in gits]
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
                self.files[RepoPath(name)] = self._state(entry)
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

    def _drafts(self, before: Mapping[RepoPath, FileState]) -> list[Draft]:
        """Return the drafts of what is not as it was."""
        self.clock += 1
        moment = BatchTime(0, self.clock, lambda _: None)
        return draft_changes(self._seen(before), moment)

    def _seen(self, before: Mapping[RepoPath, FileState]) -> list[Seen]:
        return [
            Seen(path, before.get(path), after, _born(after) if after else None)
            for path in sorted({*before, *self.files})
            if before.get(path) != (after := self.files.get(path))
        ]

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
        op = self._done(unit, undoes, redo=wanted.verb == "redo")
        return Outcome(items=items, taken=taken, op=op.id, rows=self._apply(plan, op))

    def _restore(self, wanted: Wanted) -> Outcome:
        """Plan a moment by the real planner; what is to go, the trial's own rule says."""
        goal = wanted.goal
        if goal is None:  # in the middle of a step, nobody remembers what was there
            return Outcome()
        since = [one for one in self.events if one.ts_ns > (wanted.at_ns or 0)]
        asked = {RepoPath(end) for one in since for end in _ends(one)}
        wants = {
            path: planning.WantedState(
                self._version_of(goal.get(path)), is_agents_own(self.events, path)
            )
            for path in asked
        }
        plan = plan_states(
            wants, self._wish((), wanted), self._world(), self.blobs.get, 0
        )
        items = [planned.item for planned in plan.items]
        if not plan.steps:
            return Outcome(items=items)
        op = self._done(Unit(), None, redo=False)
        return Outcome(items=items, op=op.id, rows=self._apply(plan, op))

    def _version_of(self, entry: Entry | None) -> FileVersion | None:
        return (
            FileVersion(self.blobs.store(entry[1]), entry[0])
            if entry is not None
            else None
        )

    def _done(self, unit: Unit, undoes: str | None, *, redo: bool) -> Done:
        op = Done(f"op-{len(self.ops) + 1}", unit, undoes, len(self.events), redo)
        self.ops.append(op)
        return op

    # -- choosing --------------------------------------------------------------------------

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

    # -- planning --------------------------------------------------------------------------

    def _plan(self, taken: Sequence[PathChange], wanted: Wanted) -> Plan:
        since = taken[0].seq
        history = [event for event in self.events if event.seq >= since]
        wish, world = self._wish(taken, wanted), self._world()
        if wanted.verb == "hunks":
            offer = replace(wish, offer=True)
            plan = plan_unit(history, offer, world, self.blobs.get)
            items = [planned.item for planned in plan.items]
            choice = choice_of(plan.whole, some_parts(items, wanted.pick))
            wish = replace(wish, choice=choice)
        return plan_unit(history, wish, world, self.blobs.get)

    def _wish(self, taken: Sequence[PathChange], wanted: Wanted) -> PlanRequest:
        only = (RepoPath(wanted.path),) if wanted.verb == "only" else ()
        return PlanRequest(
            seqs=frozenset(event.seq for event in taken),
            manner=ConflictPolicy(on_conflict=OnConflict(wanted.on_conflict)),
            undoings={op.id: op.unit for op in self.ops},
            paths=PathFilter(only),
        )

    def _world(self) -> World:
        paths = {RepoPath(end) for one in self.events for end in _ends(one)}
        directories: dict[RepoPath, Below] = {}
        for path in paths:
            inside = [one for one in self.files if one.startswith(path + b"/")]
            if inside:
                ups = {up for one in inside for up in parents(one)}
                inner = {up for up in ups if up.startswith(path + b"/")}
                directories[path] = Below(frozenset(inside), frozenset(inner))
        above = {up for path in paths for up in parents(path)}
        return World(
            present={path: self._version(path) for path in paths},
            directories=directories,
            barriers=frozenset(above & self.files.keys()),
        )

    def _version(self, path: RepoPath) -> FileVersion | None:
        return self.files[path].version if path in self.files else None

    # -- applying --------------------------------------------------------------------------

    def _apply(self, plan: Plan, op: Done) -> list[PathChange]:
        """Carry a plan out, removals first, and give it the rows that applying would."""
        self.blobs |= plan.made
        moved: dict[RepoPath, RepoPath] = {}
        for planned in plan.items:
            if len(planned.paths) == 2:
                new, old = planned.paths
                if plan.steps[new].before is None and plan.steps[old].after is None:
                    moved[new] = old
        for step in plan.steps.values():
            assert self._version(step.path) == step.before
        self.clock += 1
        states = {path: self.files.pop(path, None) for path in plan.steps}
        for path, step in plan.steps.items():
            if step.after is not None:
                entry = step.after.mode, self.blobs[step.after.oid]
                self.files[path] = self._state(entry)
        drafts = [
            Draft(
                kind=EventKind.RESTORE,
                path=path,
                old_path=moved.get(path),
                before=states[moved.get(path, path)],
                after=self.files.get(path),
                begin_ns=self.clock,
                end_ns=self.clock,
            )
            for path in sorted(plan.steps.keys() - moved.values())
        ]
        return [self._row(draft, "human", None, op.id) for draft in drafts]

    def _change(self, verb: str, path: RepoPath, what: Entry | bytes | None) -> None:
        if verb == "drop":
            del self.files[path]
        elif isinstance(what, bytes):
            inside = [
                one for one in self.files if one == path or one.startswith(path + b"/")
            ]
            moved = {
                RepoPath(what + old[len(path) :]): self.files.pop(old) for old in inside
            }
            self.files |= moved
        else:
            assert what is not None
            state, known = self._state(what), self.files.get(path)
            links = known is not None and LINK_MODE in (known.version.mode, what[0])
            if known is not None and not links and verb != "bring":
                stat = state.stat._replace(inode=known.stat.inode)  # written in place
                state = replace(state, stat=stat)
            self.files[path] = state
            if verb == "bring":
                self.brought.add(state.stat.inode)

    def _state(self, entry: Entry) -> FileState:
        mode, data = entry
        oid = self.blobs.store(data)
        self.clock += 1
        stat = StatKey(len(data), self.clock, self.clock, self.clock)
        return FileState(FileVersion(oid, mode), digest(data), stat, self.clock)

    def _is_new_here(self, draft: Draft) -> bool:
        """Return whether a file was moved in, and forget it: when seen again, it is known."""
        inode = draft.after.stat.inode if draft.after is not None else 0
        is_brought = inode in self.brought
        self.brought.discard(inode)
        return is_brought

    def _row(
        self, draft: Draft, who: str, turn: str | None, op: str | None = None
    ) -> PathChange:
        before, after = draft.versions
        event = PathChange(
            seq=len(self.events) + 1,
            ts_ns=draft.end_ns,
            worktree="main",
            kind=draft.kind,
            path=draft.path,
            old_path=draft.old_path,
            before=before,
            after=after,
            switched=who == "git",
            moved_in=self._is_new_here(draft) and draft.kind in MAY_COME,
            op=op,
            commit=Oid("c" * 40),
            attribution=Attribution(
                actor=_ACTORS.get(who, Actor.AGENT),
                session=who,
                turn=turn,
                confidence=Confidence.CERTAIN,
                reason="the test says so",
            ),
        )
        self.events.append(event)
        return event


def _born(state: FileState) -> int:
    """Return when a file was created: its inode is the clock of then."""
    return state.stat.inode - 1


def _ends(event: PathChange) -> list[bytes]:
    return [end for end in (event.path, event.old_path) if end is not None]
