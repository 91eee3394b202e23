"""A world in memory: real drafts, lineages and plans, but no disk, journal or objects."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from gitshadow.capture.drafts import Draft, Moment, Seen, draft_changes
from gitshadow.model import (
    LINK_MODE,
    Actor,
    Attribution,
    Confidence,
    Event,
    EventKind,
    FileState,
    FileVersion,
    RepoPath,
    StatKey,
)
from gitshadow.store.files import digest
from gitshadow.store.safe_paths import parents
from gitshadow.undo.cases import Below, World
from gitshadow.undo.plan import Plan, Wish, plan_unit
from gitshadow.undo.reverse import Manner, OnConflict
from gitshadow.undo.units import Unit, is_undoable
from tests.support.blobs import Blobs
from tests.undo.histories import Change, Entry, Tree, base
from tests.undo.trial import Outcome, Wanted

_ACTORS = {"human": Actor.HUMAN, "unknown": Actor.UNKNOWN, "git": Actor.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Done:
    """Hold an op: what it took back, from which event on, and by which verb."""

    id: str
    unit: Unit
    undoes: str | None
    since: int
    redo: bool


@dataclass(slots=True)
class Memory:
    """Hold files, events and ops."""

    files: dict[RepoPath, FileState] = field(default_factory=dict)
    blobs: Blobs = field(default_factory=Blobs)
    events: list[Event] = field(default_factory=list)
    ops: list[Done] = field(default_factory=list)
    clock: int = 1

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
    ) -> Collection[Event]:
        """Make changes, noticed all at once, and give them their events."""
        before = dict(self.files)
        for verb, path, what in changes:
            self._change(verb, RepoPath(path), what)
        seen = [
            Seen(path, before.get(path), self.files.get(path))
            for path in sorted({*before, *self.files})
            if before.get(path) != self.files.get(path)
        ]
        self.clock += 1
        drafts = draft_changes(seen, Moment(0, self.clock, lambda _: None))
        return [self._row(draft, who, turn) for draft in drafts]

    def data(self, version: FileVersion) -> bytes:
        """Return recorded bytes."""
        return self.blobs[version.oid]

    def undo(self, wanted: Wanted) -> Outcome:
        """Plan an undo by the real planner and carry it out."""
        chosen = self._choose(wanted)
        if chosen is None:
            return Outcome()
        unit, undoes = chosen
        taken = [event for event in self.events if unit.holds(event)]
        if not taken:
            return Outcome()
        plan = self._plan(taken, OnConflict(wanted.on_conflict))
        items = [planned.item for planned in plan.items]
        if not plan.steps:
            return Outcome(items=items, taken=taken)
        op = Done(
            f"op-{len(self.ops) + 1}",
            unit,
            undoes,
            len(self.events),
            wanted.verb == "redo",
        )
        rows = self._apply(plan, op)
        self.ops.append(op)
        return Outcome(items=items, taken=taken, op=op.id, rows=rows)

    # -- choosing --------------------------------------------------------------------------

    def _choose(self, wanted: Wanted) -> tuple[Unit, str | None] | None:
        if wanted.verb in ("oops", "file"):
            found = self._newest_turn()
            return (Unit(turns=frozenset({found})), None) if found else None
        if wanted.verb == "session":
            return Unit(sessions=frozenset({wanted.who})), None
        if wanted.verb == "turn_back":
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
        by_turn: dict[tuple[str, str], list[Event]] = {}
        for event in self.events:
            who = event.attribution
            if is_undoable(event) and event.op is None and who and who.turn:
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

    def _plan(self, taken: Sequence[Event], manner: OnConflict) -> Plan:
        wish = Wish(
            seqs=frozenset(event.seq for event in taken),
            manner=Manner(on_conflict=manner),
            undoings={op.id: op.unit for op in self.ops},
        )
        since = taken[0].seq
        history = [event for event in self.events if event.seq >= since]
        return plan_unit(history, wish, self._world(), self.blobs.get)

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

    def _apply(self, plan: Plan, op: Done) -> list[Event]:
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
            for old in sorted(self.files):
                if old == path or old.startswith(path + b"/"):
                    new = RepoPath(what + old[len(path) :])
                    self.files[new] = self.files.pop(old)
        else:
            assert what is not None
            state, known = self._state(what), self.files.get(path)
            if known is not None and LINK_MODE not in (known.version.mode, what[0]):
                stat = state.stat._replace(inode=known.stat.inode)  # written in place
                state = replace(state, stat=stat)
            self.files[path] = state

    def _state(self, entry: Entry) -> FileState:
        mode, data = entry
        oid = self.blobs.store(data)
        self.clock += 1
        stat = StatKey(len(data), self.clock, self.clock, self.clock)
        return FileState(FileVersion(oid, mode), digest(data), stat, self.clock)

    def _row(
        self, draft: Draft, who: str, turn: str | None, op: str | None = None
    ) -> Event:
        before, after = draft.versions
        event = Event(
            seq=len(self.events) + 1,
            ts_ns=draft.end_ns,
            worktree="main",
            kind=draft.kind,
            path=draft.path,
            old_path=draft.old_path,
            before=before,
            after=after,
            switched=who == "git",
            op=op,
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


def _ends(event: Event) -> list[bytes]:
    return [end for end in (event.path, event.old_path) if end is not None]
