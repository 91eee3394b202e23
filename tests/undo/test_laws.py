"""The laws of undo over random histories of two writers, in a world that is only in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from gitshadow.model import (
    Actor,
    Attribution,
    Confidence,
    EventKind,
    FileVersion,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.undo.path_plans import World
from gitshadow.undo.plan import Plan, PlanRequest, plan_unit
from gitshadow.undo.report import State
from gitshadow.undo.targets import Unit
from tests.support.blobs import Blobs

_PATHS = tuple(RepoPath(b"%c" % name) for name in b"abcd")
_MODES = (0o100644, 0o100600, 0o100755)
_AGENT, _HUMAN = "s1", "human"

OFTEN = settings(max_examples=5 * settings().max_examples)

Move = tuple[str, str, int, int, int]
MOVES = st.lists(
    st.tuples(
        st.sampled_from([_AGENT, _AGENT, _HUMAN]),
        st.sampled_from(
            ["insert", "insert", "cut", "create", "delete", "move", "chmod"]
        ),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=14,
)


@dataclass
class Memory:
    """Hold a worktree and its journal in memory."""

    files: dict[RepoPath, FileVersion] = field(default_factory=dict)
    blobs: Blobs = field(default_factory=Blobs)
    events: list[PathChange] = field(default_factory=list)
    lines: int = 0

    def __post_init__(self) -> None:
        for path in _PATHS[:3]:
            data = b"".join(b"%s old %d\n" % (path, number) for number in range(4))
            self.files[path] = FileVersion(self.blobs.store(data), 0o100644)

    def play(self, move: Move) -> None:
        """Make one move if it is possible; a new line is unlike any other."""
        who, verb, first, second, at = move
        path, other = _PATHS[first], _PATHS[second]
        if verb == "create":
            if path not in self.files:
                self._put(who, path, EventKind.CREATE, [self._line(who)], 0o100644)
            return
        if path not in self.files:
            return
        lines, mode = self.blobs.lines(self.files[path].oid), self.files[path].mode
        if verb == "insert":
            where = min(at, len(lines))
            changed = [*lines[:where], self._line(who), *lines[where:]]
            self._put(who, path, EventKind.MODIFY, changed, mode)
        elif verb == "cut" and lines:
            where = min(at, len(lines) - 1)
            self._put(
                who, path, EventKind.MODIFY, lines[:where] + lines[where + 1 :], mode
            )
        elif verb == "chmod" and _MODES[at % 3] != mode:
            self._put(who, path, EventKind.MODE, lines, _MODES[at % 3])
        elif verb == "delete":
            self._row(who, path, EventKind.DELETE, self.files.pop(path), None)
        elif verb == "move" and other not in self.files:
            version = self.files.pop(path)
            self.files[other] = version
            self._row(who, other, EventKind.RENAME, version, version, path)

    def apply(self, plan: Plan, op: str) -> list[int]:
        """Carry a plan out and journal it as an op; return its rows."""
        for oid, data in plan.made.items():
            self.blobs[oid] = data
        seqs: list[int] = []
        for path, step in plan.steps.items():
            assert self.files.get(path) == step.before
            if step.after is None:
                del self.files[path]
            else:
                assert step.after.oid in self.blobs
                self.files[path] = step.after
            self._row(_HUMAN, path, EventKind.RESTORE, step.before, step.after)
            self.events[-1] = self.events[-1]._replace(op=op)
            seqs.append(self.events[-1].seq)
        return seqs

    def plan(self, seqs: Sequence[int], undoings: dict[str, Unit]) -> Plan:
        wish = PlanRequest(seqs=frozenset(seqs), undoings=undoings)
        present = {path: self.files.get(path) for path in _PATHS}
        return plan_unit(self.events, wish, World(present=present), self.blobs.get)

    def seqs_of(self, who: str) -> list[int]:
        return [event.seq for event in self.events if event.attribution.session == who]

    def all_lines(self, who: str) -> set[bytes]:
        return {
            line
            for path in self.files
            for line in self.blobs.lines(self.files[path].oid)
            if line.startswith(who.encode())
        }

    def _line(self, who: str) -> bytes:
        self.lines += 1
        return b"%s %d\n" % (who.encode(), self.lines)

    def _put(
        self, who: str, path: RepoPath, kind: EventKind, lines: list[bytes], mode: int
    ) -> None:
        before = self.files.get(path)
        after = FileVersion(self.blobs.store(b"".join(lines)), mode)
        self.files[path] = after
        self._row(who, path, kind, before, after)

    def _row(
        self,
        who: str,
        path: RepoPath,
        kind: EventKind,
        before: FileVersion | None,
        after: FileVersion | None,
        old_path: RepoPath | None = None,
    ) -> None:
        seq = len(self.events) + 1
        claim = Attribution(
            actor=Actor.AGENT if who == _AGENT else Actor.HUMAN,
            session=who,
            confidence=Confidence.CERTAIN,
            reason="the test says so",
        )
        self.events.append(
            PathChange(
                seq=seq,
                ts_ns=seq,
                worktree="main",
                kind=kind,
                path=path,
                old_path=old_path,
                before=before,
                after=after,
                attribution=claim,
                commit=Oid("c" * 40),
            )
        )


def played(moves: Sequence[Move]) -> Memory:
    memory = Memory()
    for move in moves:
        memory.play(move)
    return memory


@given(MOVES)
@OFTEN
def test_undo_keeps_every_line_of_the_other(moves: Sequence[Move]) -> None:
    """LAW-04: the human's lines survive, in every file, whatever is taken back."""
    memory = played(moves)
    kept = memory.all_lines(_HUMAN)
    memory.apply(memory.plan(memory.seqs_of(_AGENT), {}), "op-1")
    assert memory.all_lines(_HUMAN) >= kept


@given(MOVES)
@OFTEN
def test_undo_takes_every_line_of_the_unit_when_nothing_is_left(
    moves: Sequence[Move],
) -> None:
    """What is called reversed is reversed: no line of the agent stays."""
    memory = played(moves)
    plan = memory.plan(memory.seqs_of(_AGENT), {})
    memory.apply(plan, "op-1")
    if all(one.item.state is not State.NOT_REVERSED for one in plan.items):
        assert memory.all_lines(_AGENT) == set()


@given(MOVES)
@OFTEN
def test_redo_of_undo_is_identity(moves: Sequence[Move]) -> None:
    """Whatever was taken back comes forward exactly."""
    memory = played(moves)
    before = dict(memory.files)
    seqs = memory.seqs_of(_AGENT)
    rows = memory.apply(memory.plan(seqs, {}), "op-1")
    undoings = {"op-1": Unit(seqs=frozenset(seqs))}
    redo = memory.plan(rows, undoings)
    assert all(one.item.state is not State.NOT_REVERSED for one in redo.items)
    memory.apply(redo, "op-2")
    assert memory.files == before


@given(MOVES)
@OFTEN
def test_undo_is_complete_when_nobody_else_wrote(moves: Sequence[Move]) -> None:
    """LAW-01: the tree is exactly what it was."""
    memory = played([(_AGENT, *move[1:]) for move in moves])
    plan = memory.plan(memory.seqs_of(_AGENT), {})
    assert all(one.item.state is not State.NOT_REVERSED for one in plan.items)
    memory.apply(plan, "op-1")
    assert memory.files == Memory().files


@given(MOVES)
@OFTEN
def test_undo_deletes_only_what_the_unit_created(moves: Sequence[Move]) -> None:
    """LAW-03: as many files go as the agent's creations account for, and none with a human line."""
    memory = played(moves)
    human = {
        path
        for path, version in memory.files.items()
        if any(line.startswith(b"human") for line in memory.blobs.lines(version.oid))
    }
    plan = memory.plan(memory.seqs_of(_AGENT), {})
    deleted = [one.item for one in plan.items if one.item.action.value == "delete"]
    created = [
        event
        for event in memory.events
        if event.kind is EventKind.CREATE and event.attribution.session == _AGENT
    ]
    assert len(deleted) <= len(created)
    assert not human & {RepoPath(item.path.encode()) for item in deleted}


@given(MOVES)
@OFTEN
def test_undo_twice_changes_nothing_more(moves: Sequence[Move]) -> None:
    memory = played(moves)
    seqs = memory.seqs_of(_AGENT)
    plan = memory.plan(seqs, {})
    memory.apply(plan, "op-1")
    undoings = {"op-1": Unit(seqs=frozenset(seqs))}
    again = memory.plan(seqs, undoings)
    assert not again.steps


@given(MOVES)
@OFTEN
def test_the_same_world_gives_the_same_token(moves: Sequence[Move]) -> None:
    memory = played(moves)
    seqs = memory.seqs_of(_AGENT)
    token = memory.plan(seqs, {}).token
    assert memory.plan(seqs, {}).token == token
    assert len(token) == 16
