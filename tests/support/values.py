"""A worktree, its rows and its undo as values: what can be played many thousand times.

Drafts and plans are the product's own. There is no disk, no journal, no object store and no choice
of a target; those are in `tests.support.engine`, which is some sixty times slower.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

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
from gitshadow.store.paths import parents
from gitshadow.undo.path_plans import Below, World
from gitshadow.undo.plan import Plan, PlanRequest, plan_unit
from gitshadow.undo.targets import Unit
from tests.support.blobs import Blobs

_ACTORS = {"human": Actor.HUMAN, "unknown": Actor.UNKNOWN, "git": Actor.UNKNOWN}

Entry = tuple[int, bytes]
"""Mode as in `FileVersion`, and the bytes (a link's target)."""


@dataclass(slots=True)
class Values:
    """Files and events; `undoings` are the units that ops undid."""

    files: dict[RepoPath, FileState] = field(default_factory=dict)
    blobs: Blobs = field(default_factory=Blobs)
    events: list[PathChange] = field(default_factory=list)
    undoings: dict[str, Unit] = field(default_factory=dict)
    clock: int = 1

    def tree(self) -> dict[bytes, Entry]:
        """Return what is there."""
        return {
            path: (state.version.mode, self.blobs[state.version.oid])
            for path, state in self.files.items()
        }

    def version(self, path: RepoPath) -> FileVersion | None:
        """Return what is at a path."""
        return self.files[path].version if path in self.files else None

    # Changes, and their rows

    def change(self, verb: str, path: RepoPath, what: Entry | bytes | None) -> None:
        """Make one change: `drop` a path, `move` it to a name, or `put` or `bring` an entry."""
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
            state, known = self.state(what), self.files.get(path)
            links = known is not None and LINK_MODE in (known.version.mode, what[0])
            if known is not None and not links and verb != "bring":
                stat = state.stat._replace(inode=known.stat.inode)  # written in place
                state = FileState(state.version, stat, state.seen_ns)
            self.files[path] = state

    def state(self, entry: Entry) -> FileState:
        """Return the state of a new file."""
        mode, data = entry
        oid = self.blobs.store(data)
        self.clock += 1
        stat = StatKey(len(data), self.clock, self.clock, self.clock)
        return FileState(FileVersion(oid, mode), stat, self.clock)

    def record(
        self,
        before: Mapping[RepoPath, FileState],
        who: str,
        turn: str | None = None,
        *,
        switched: bool = False,
    ) -> list[PathChange]:
        """Give whatever is not as it was before its rows, noticed all at once."""
        seen, moment = self.seen(before), self.moment()
        if switched:
            drafts = [one for path in seen for one in draft_changes([path], moment)]
            return self.switch(drafts, who)
        return [self.row(draft, who, turn) for draft in draft_changes(seen, moment)]

    def switch(self, drafts: Sequence[Draft], who: str) -> list[PathChange]:
        """Add what Git switched at once: all of it has one number."""
        seq = self.next_seq
        return [self.row(draft, who, switched=True, seq=seq) for draft in drafts]

    @property
    def next_seq(self) -> int:
        """Return the number of the next event."""
        return self.events[-1].seq + 1 if self.events else 1

    def moment(self) -> BatchTime:
        """Return the next moment at which somebody looks."""
        self.clock += 1
        return BatchTime(0, self.clock, lambda _: None)

    def seen(self, before: Mapping[RepoPath, FileState]) -> list[Seen]:
        """Return what is not as it was before."""
        return [
            Seen(path, before.get(path), after, _born(after) if after else None)
            for path in sorted({*before, *self.files})
            if before.get(path) != (after := self.files.get(path))
        ]

    def row(
        self,
        draft: Draft,
        who: str,
        turn: str | None = None,
        op: str | None = None,
        *,
        switched: bool = False,
        moved_in: bool = False,
        seq: int | None = None,
    ) -> PathChange:
        """Add the row of a draft."""
        before, after = draft.versions
        event = PathChange(
            seq=self.next_seq if seq is None else seq,
            ts_ns=draft.end_ns,
            worktree="main",
            kind=draft.kind,
            path=draft.path,
            old_path=draft.old_path,
            before=before,
            after=after,
            switched=switched,
            moved_in=moved_in,
            op=op,
            commit=Oid("c" * 40),
            attribution=self.claim(who, turn),
        )
        self.events.append(event)
        return event

    def claim(self, who: str, turn: str | None) -> Attribution:
        """Return the attribution of what somebody writes."""
        return Attribution(
            actor=_ACTORS.get(who, Actor.AGENT),
            session=who,
            turn=turn,
            confidence=Confidence.CERTAIN,
            reason="the test says so",
        )

    # Undo

    def plan(self, seqs: Collection[int]) -> Plan:
        """Plan the undo of some rows."""
        wish = PlanRequest(seqs=frozenset(seqs), undoings=self.undoings)
        return self.plan_of(wish)

    def plan_of(self, wish: PlanRequest) -> Plan:
        """Plan an undo."""
        since = min(wish.seqs, default=0)
        history = [event for event in self.events if event.seq >= since]
        return plan_unit(history, wish, self.world(), self.blobs.get)

    def world(self) -> World:
        """Return what a survey of the paths of all rows finds."""
        paths = {RepoPath(end) for one in self.events for end in ends_of(one)}
        directories: dict[RepoPath, Below] = {}
        for path in paths:
            inside = [one for one in self.files if one.startswith(path + b"/")]
            if inside:
                ups = {up for one in inside for up in parents(one)}
                inner = {up for up in ups if up.startswith(path + b"/")}
                directories[path] = Below(frozenset(inside), frozenset(inner))
        above = {up for path in paths for up in parents(path)}
        return World(
            present={path: self.version(path) for path in paths},
            directories=directories,
            barriers=frozenset(above & self.files.keys()),
        )

    def apply(self, plan: Plan, unit: Unit, who: str = "human") -> list[PathChange]:
        """Carry a plan out as an op, removals first, with the rows that applying would give."""
        self.blobs |= plan.made
        op = f"op-{len(self.undoings) + 1}"
        self.undoings[op] = unit
        moved: dict[RepoPath, RepoPath] = {}
        for planned in plan.items:
            if len(planned.paths) == 2:
                new, old = planned.paths
                if plan.steps[new].before is None and plan.steps[old].after is None:
                    moved[new] = old
        for step in plan.steps.values():
            assert self.version(step.path) == step.before
        self.clock += 1
        states = {path: self.files.pop(path, None) for path in plan.steps}
        for path, step in plan.steps.items():
            if step.after is not None:
                entry = step.after.mode, self.blobs[step.after.oid]
                self.files[path] = self.state(entry)
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
        return [self.row(draft, who, op=op) for draft in drafts]


def ends_of(event: PathChange) -> list[RepoPath]:
    """Return the paths of a row."""
    return [end for end in (event.path, event.old_path) if end is not None]


def _born(state: FileState) -> int:
    """Return when a file was created: its inode is the clock of then."""
    return state.stat.inode - 1
