"""The laws of undo over random histories of two writers, on values."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from gitshadow.model import EventKind, RepoPath
from gitshadow.undo.plan import Plan
from gitshadow.undo.report import State
from gitshadow.undo.targets import Unit
from tests.support.values import Values

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


@dataclass(slots=True)
class Lines(Values):
    """Make moves by lines; a new line is unlike any other."""

    lines: int = 0

    def __post_init__(self) -> None:
        for path in _PATHS[:3]:
            data = b"".join(b"%s old %d\n" % (path, number) for number in range(4))
            self.files[path] = self.state((0o100644, data))

    def play(self, move: Move) -> None:
        """Make one move if it is possible."""
        who, verb, first, second, at = move
        path, other, before = _PATHS[first], _PATHS[second], dict(self.files)
        known = self.version(path)
        if verb == "create" and known is None:
            self.change("put", path, (0o100644, self._line(who)))
        elif verb == "delete" and known is not None:
            self.change("drop", path, None)
        elif verb == "move" and known is not None and other not in self.files:
            self.change("move", path, other)
        elif verb == "chmod" and known is not None:
            self.change("put", path, (_MODES[at % 3], self.blobs[known.oid]))
        elif verb in ("insert", "cut") and known is not None:
            lines = self.blobs.lines(known.oid)
            if verb == "insert":
                lines.insert(min(at, len(lines)), self._line(who))
            elif lines:
                del lines[min(at, len(lines) - 1)]
            self.change("put", path, (known.mode, b"".join(lines)))
        self.record(before, who)

    def undo(self, who: str) -> Plan:
        """Undo everything that a session wrote."""
        seqs = self.seqs_of(who)
        plan = self.plan(seqs)
        self.apply(plan, Unit(seqs=frozenset(seqs)))
        return plan

    def seqs_of(self, who: str) -> list[int]:
        return [event.seq for event in self.events if event.attribution.session == who]

    def all_lines(self, who: str) -> set[bytes]:
        return {
            line
            for path in self.files
            for line in self.blobs.lines(self.files[path].version.oid)
            if line.startswith(who.encode())
        }

    def _line(self, who: str) -> bytes:
        self.lines += 1
        return b"%s %d\n" % (who.encode(), self.lines)


def played(moves: Sequence[Move]) -> Lines:
    memory = Lines()
    for move in moves:
        memory.play(move)
    return memory


@given(MOVES)
@OFTEN
def test_undo_keeps_every_line_of_the_other(moves: Sequence[Move]) -> None:
    """LAW-04: the human's lines survive, in every file, whatever is taken back."""
    memory = played(moves)
    kept = memory.all_lines(_HUMAN)
    memory.undo(_AGENT)
    assert memory.all_lines(_HUMAN) >= kept


@given(MOVES)
@OFTEN
def test_undo_takes_every_line_of_the_unit_when_nothing_is_left(
    moves: Sequence[Move],
) -> None:
    """What is called reversed is reversed: no line of the agent stays."""
    memory = played(moves)
    plan = memory.undo(_AGENT)
    if all(one.item.state is not State.NOT_REVERSED for one in plan.items):
        assert memory.all_lines(_AGENT) == set()


@given(MOVES)
@OFTEN
def test_redo_of_undo_is_identity(moves: Sequence[Move]) -> None:
    """Whatever was taken back comes forward exactly."""
    memory = played(moves)
    before, newest = memory.tree(), len(memory.events)
    memory.undo(_AGENT)
    rows = [event.seq for event in memory.events[newest:]]
    redo = memory.plan(rows)
    assert all(one.item.state is not State.NOT_REVERSED for one in redo.items)
    memory.apply(redo, Unit(seqs=frozenset(rows)))
    assert memory.tree() == before


@given(MOVES)
@OFTEN
def test_undo_is_complete_when_nobody_else_wrote(moves: Sequence[Move]) -> None:
    """LAW-01: the tree is exactly what it was."""
    memory = played([(_AGENT, *move[1:]) for move in moves])
    plan = memory.undo(_AGENT)
    assert all(one.item.state is not State.NOT_REVERSED for one in plan.items)
    assert memory.tree() == Lines().tree()


@given(MOVES)
@OFTEN
def test_undo_deletes_only_what_the_unit_created(moves: Sequence[Move]) -> None:
    """LAW-03: as many files go as the agent's creations account for, and none with a human line."""
    memory = played(moves)
    human = {
        path
        for path, (_, data) in memory.tree().items()
        if data.startswith(b"human") or b"\nhuman" in data
    }
    plan = memory.plan(memory.seqs_of(_AGENT))
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
    memory.undo(_AGENT)
    assert not memory.plan(seqs).steps


@given(MOVES)
@OFTEN
def test_the_same_world_gives_the_same_token(moves: Sequence[Move]) -> None:
    memory = played(moves)
    seqs = memory.seqs_of(_AGENT)
    token = memory.plan(seqs).token
    assert memory.plan(seqs).token == token
    assert len(token) == 16
