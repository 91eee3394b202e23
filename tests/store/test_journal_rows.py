"""Sessions, turns, calls, bursts, ops, states and pins in the journal."""

from dataclasses import replace

import pytest

from gitshadow.model import (
    Actor,
    Burst,
    Call,
    Chain,
    FileState,
    FileVersion,
    Oid,
    Op,
    OpKind,
    OpStatus,
    RepoPath,
    Session,
    StatKey,
    ToolClass,
    Touch,
    Turn,
)
from gitshadow.store.journal import bursts, ops, pins, sessions, state, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.state import WorktreeRow

A, B = RepoPath(b"a"), RepoPath(b"\xff/b")
OID = Oid("a" * 40)


def session(name: str, started_ns: int = 1000) -> Session:
    return Session(
        id=name,
        native_id=f"native-{name}",
        actor=Actor.AGENT,
        agent="codex",
        started_ns=started_ns,
    )


def test_session_comes_back_with_every_field(db: Db) -> None:
    full = replace(
        session("s-1"),
        ended_ns=5,
        end_reason="gone",
        parent="s-0",
        pid=1,
        pid_started=2,
        last_seen_ns=3,
    )
    sessions.put(db, full)
    assert sessions.get(db, "s-1") == full
    assert sessions.get(db, "s-2") is None


def test_session_start_is_stored_in_microseconds(db: Db) -> None:
    """LAW-07: the refs hold no more."""
    sessions.put(db, session("s-1", 1_234_567))
    found = sessions.get(db, "s-1")
    assert found is not None
    assert found.started_ns == 1_234_000


def test_find_native_gives_the_newest_of_that_agent(db: Db) -> None:
    for name, started in (("s-1", 1000), ("s-2", 2000)):
        sessions.put(db, replace(session(name, started), native_id="n"))
    found = sessions.find_native(db, "codex", "n")
    assert found is not None
    assert found.id == "s-2"
    assert sessions.find_native(db, "cursor", "n") is None


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("s-1", ["s-1"]),
        ("s-", ["s-11", "s-1"]),
        ("native-s-11", ["s-11"]),
        ("x", []),
        ("%", []),
    ],
)
def test_by_prefix_gives_an_exact_id_alone(
    db: Db, typed: str, expected: list[str]
) -> None:
    """UX-03: a whole id is never ambiguous."""
    sessions.put(db, session("s-1", 1000))
    sessions.put(db, session("s-11", 2000))
    assert [one.id for one in sessions.by_prefix(db, typed)] == expected


def test_close_changes_what_is_live_once(db: Db) -> None:
    for name in ("s-1", "s-2"):
        sessions.put(db, session(name))
    sessions.close(db, "s-1", 60, "gone")
    sessions.close(db, "s-1", 70, "again")
    found = sessions.get(db, "s-1")
    assert found is not None
    assert (found.ended_ns, found.end_reason) == (60, "gone")
    assert [one.id for one in sessions.live(db)] == ["s-2"]
    assert sessions.newest_of(db, Actor.HUMAN) is None


def test_chain_is_found_by_session_and_by_ref(db: Db) -> None:
    sessions.put(db, session("s-1"))
    chain = Chain(
        ref="refs/agent-undo/s-1",
        session="s-1",
        worktree="main",
        tip=OID,
        tree=OID,
        tip_seq=4,
    )
    linked = replace(chain, ref="refs/agent-undo/s-1-w1", worktree="w", tip_seq=9)
    for one in (chain, linked, replace(chain, tip_seq=5)):
        sessions.put_chain(db, one)
    assert sessions.get_chain(db, "s-1", "main") == replace(chain, tip_seq=5)
    assert sessions.get_chain(db, "s-1", "w") == linked
    assert [one.worktree for one in sessions.chains(db)] == ["w", "main"]
    assert [one.ref for one in sessions.chains(db, "main")] == [chain.ref]
    sessions.drop_chain(db, chain.ref)
    assert sessions.chains_of(db, "s-1") == [linked]


def call(name: str, opened_ns: int, closed_ns: int | None = None) -> Call:
    return Call(
        id=name,
        session="s-1",
        turn="t1",
        tool="Edit",
        tool_class=ToolClass.WRITE,
        opened_ns=opened_ns,
        closed_ns=closed_ns,
        paths=(A, B),
        worktree="main",
    )


def test_turn_is_open_until_it_is_closed_once(db: Db) -> None:
    turn = Turn(id="t1", session="s-1", ordinal=1, started_ns=1000, prompt="do it")
    turns.put_turn(db, turn)
    turns.put_turn(db, replace(turn, id="t2", ordinal=2, started_ns=2000))
    assert turns.open_turn_of(db, "s-1") == turns.get_turn(db, "s-1", "t2")
    assert [one.id for one in turns.open_at(db, 1500)] == ["t1"]
    turns.close_turn(db, "s-1", "t1", 3000)
    turns.close_turn(db, "s-1", "t1", 9000)
    assert turns.get_turn(db, "s-1", "t1") == replace(turn, ended_ns=3000)
    assert [one.id for one in turns.open_at(db, 2999)] == ["t1", "t2"]
    assert [one.id for one in turns.open_at(db, 3000)] == ["t2"]
    assert [one.id for one in turns.list_turns(db, "s-1")] == ["t1", "t2"]
    assert [one.id for one in turns.turns_by_prefix(db, "t")] == ["t1", "t2"]


def test_turn_never_ends_before_it_began(db: Db) -> None:
    turns.put_turn(db, Turn(id="t1", session="s-1", ordinal=1, started_ns=1000))
    turns.close_turn(db, "s-1", "t1", 10)
    found = turns.get_turn(db, "s-1", "t1")
    assert found is not None
    assert found.ended_ns == 1000


def test_call_comes_back_with_its_paths(db: Db) -> None:
    turns.open_call(db, call("c1", 1000))
    assert turns.get_call(db, "s-1", "c1") == call("c1", 1000)
    assert turns.open_calls(db, "s-1") == [call("c1", 1000)]
    turns.close_call(db, "s-1", "c1", 2000, "ok")
    turns.close_call(db, "s-1", "c1", 3000, "late")
    closed = replace(call("c1", 1000, 2000), outcome="ok")
    assert turns.list_calls(db, "s-1") == [closed]
    assert turns.open_calls(db, "s-1") == []


@pytest.mark.parametrize(
    ("begin_ns", "end_ns", "expected"),
    [
        (0, 999, []),
        (0, 1000, ["old"]),
        (1999, 2999, ["old"]),
        (2000, 2500, ["old"]),
        (2001, 2500, []),
        (2500, 3000, ["open"]),
        (9000, 9000, ["open"]),
        (0, 9000, ["old", "open"]),
    ],
)
def test_windows_between_gives_each_window_that_meets(
    db: Db, begin_ns: int, end_ns: int, expected: list[str]
) -> None:
    turns.open_call(db, call("old", 1000, 2000))
    turns.open_call(db, call("open", 3000))
    found = turns.windows_between(db, begin_ns, end_ns, 0)
    assert [one.id for one in found] == expected


GAP_NS = 100


def assign(
    db: Db, ts_ns: int, turn: str | None = None, name: str = "s-1", *pending: Burst
) -> Burst:
    return bursts.assign(
        db,
        session=name,
        worktree="main",
        turn=turn,
        idle_since_ns=ts_ns - GAP_NS,
        pending=pending,
    )


def grow(db: Db, burst: Burst, ts_ns: int, seq: int) -> Burst:
    grown = replace(
        burst, started_ns=ts_ns, ended_ns=ts_ns, first_seq=seq, last_seq=seq
    )
    bursts.put(db, grown)
    return grown


def test_idle_gap_ends_a_burst_without_turn(db: Db) -> None:
    first = grow(db, assign(db, 1000), 1000, 1)
    assert assign(db, 1000 + GAP_NS) == first
    second = assign(db, 1001 + GAP_NS)
    assert (second.id != first.id, second.ordinal) == (True, 2)
    closed = bursts.get(db, first.id)
    assert closed is not None
    assert not closed.open


def test_burst_of_a_turn_knows_no_gap(db: Db) -> None:
    first = grow(db, assign(db, 1000, "t1"), 1000, 1)
    assert assign(db, 10**12, "t1") == first
    assert assign(db, 1000, "t2").id != first.id
    assert assign(db, 1000).id != first.id


def test_checkout_ends_the_bursts_of_others(db: Db) -> None:
    mine = grow(db, assign(db, 1000, "t1"), 1000, 1)
    other = grow(db, assign(db, 1000, "t1", "s-2"), 1000, 2)
    bursts.close_for_checkout(db, "main", "s-1")
    assert assign(db, 1000, "t1") == mine
    assert assign(db, 1000, "t1", "s-2").ordinal == other.ordinal + 1


def test_two_new_bursts_of_one_batch_are_apart(db: Db) -> None:
    one = assign(db, 1000, "t1")
    assert assign(db, 1000, "t2").id == one.id
    two = assign(db, 1000, "t2", "s-1", one)
    three = assign(db, 1000, "t3", "s-1", one, two)
    assert [one.ordinal, two.ordinal, three.ordinal] == [1, 2, 3]
    assert len({one.id, two.id, three.id}) == 3
    assert assign(db, 1000, "t1", "s-1", assign(db, 1, None, "s-2")) == one


def test_burst_id_grows_where_it_is_taken(db: Db) -> None:
    first = assign(db, 1000)
    grow(db, replace(first, session="other"), 1000, 1)
    second = assign(db, 1000)
    assert second.id.startswith(first.id)
    assert len(second.id) == len(first.id) + 2


def test_bursts_are_listed_newest_first(db: Db) -> None:
    one = grow(db, assign(db, 1000, "t1"), 1000, 5)
    two = grow(db, assign(db, 1000, "t2"), 1000, 3)
    assert [burst.id for burst in bursts.list_bursts(db, "main")] == [one.id, two.id]
    assert bursts.list_bursts(db, "main", "s-9") == []
    assert bursts.by_prefix(db, one.id[:-1]) in ([one], [two, one], [one, two])
    assert bursts.by_prefix(db, one.id) == [one]


def test_op_and_its_steps_until_it_is_finished(db: Db) -> None:
    op = Op(
        id="op-1",
        kind=OpKind.UNDO,
        ts_ns=1000,
        worktree="main",
        session="s-1",
        target='t"1',
        undoes=("b-1", "7"),
        status=OpStatus.APPLYING,
        token="t",
    )
    steps = [
        ops.OpStep(index=0, path=A, before=None, after=FileVersion(OID, 0o100600)),
        ops.OpStep(index=1, path=B, before=FileVersion(OID, 0o120000), after=None),
    ]
    ops.put(db, op)
    ops.plan_steps(db, "op-1", steps)
    assert ops.get(db, "op-1") == op
    assert ops.by_prefix(db, "op-") == [op]
    assert ops.applying(db, "main") == [op]
    assert ops.applying(db, "linked") == []
    assert ops.steps(db, "op-1") == steps
    ops.finish(db, "op-1", OpStatus.DONE, commit=OID, report="{}")
    done = replace(op, status=OpStatus.DONE, commit=OID, report="{}")
    assert ops.list_ops(db) == [done]
    assert ops.steps(db, "op-1") == []


def file_state(mode: int = 0o100644, *, racy: bool = False) -> FileState:
    stat = StatKey(1, 2, 3, (1 << 63) - 1)
    return FileState(FileVersion(OID, mode), stat, 9, racy)


def test_states_are_stored_and_dropped_by_path(db: Db) -> None:
    table = {A: file_state(), B: file_state(0o120000, racy=True)}
    state.put_many(db, "main", table)
    state.put_many(db, "linked", {A: file_state()})
    assert state.load(db, "main") == table
    assert state.get(db, "main", B) == table[B]
    state.drop_many(db, "main", [A])
    assert state.load(db, "main") == {B: table[B]}
    assert state.load(db, "linked") == {A: file_state()}
    assert state.get(db, "main", A) is None


def test_odd_modes_are_those_that_are_not_plain(db: Db) -> None:
    modes = {b"a": 0o100664, b"b": 0o100775, b"c": 0o120000, b"d": 0o100600}
    table = {RepoPath(path): file_state(mode) for path, mode in modes.items()}
    state.put_many(db, "main", table)
    assert state.odd_modes(db, "main", (0o664, 0o775)) == {b"d": 0o100600}
    assert state.odd_modes(db, "linked", (0o664, 0o775)) == {}


def test_worktree_row_is_cleared_with_its_states(db: Db) -> None:
    row = WorktreeRow(
        id="main", path=b"/x\xff", tree=OID, head=OID, head_ref="refs/h", walked_ns=7
    )
    state.put_worktree(db, row)
    state.put_many(db, "main", {A: file_state()})
    state.replace_excluded(db, "main", {A: StatKey(1, 2, 3, 4)}, {})
    assert state.get_worktree(db, "main") == row
    assert state.load_excluded(db, "main") == {A: StatKey(1, 2, 3, 4)}
    state.clear(db, "main")
    assert state.get_worktree(db, "main") is None
    assert (dict(state.load(db, "main")), state.load_excluded(db, "main")) == ({}, {})


def test_touches_of_a_time_come_oldest_first(db: Db) -> None:
    made = [
        Touch(worktree="main", path=A, why="ignored", ts_ns=ns, session="s")
        for ns in (30, 10, 20)
    ]
    state.put_touches(db, made)
    found = state.touches_between(db, "main", 10, 20)
    assert found == [made[1], made[2]]
    assert state.touches_between(db, "linked", 0, 99) == []


def test_pins_are_kept_by_name(db: Db) -> None:
    pin = pins.Pin(name="good", ref="r", commit=OID, worktree="main", ts_ns=1)
    pins.put(db, pin)
    pins.put(db, replace(pin, name="better", ts_ns=2))
    assert [one.name for one in pins.list_pins(db)] == ["better", "good"]
    assert pins.get(db, "good") == pin
    pins.drop(db, "good")
    assert pins.get(db, "good") is None


def test_one_more_excluded_path_costs_one_row(db: Db) -> None:
    """A build makes thousands of them, one after another."""
    known = {RepoPath(b"x%d" % n): StatKey(n, 2, 3, 4) for n in range(100)}
    state.replace_excluded(db, "main", known, {})
    before = db.version()[0]
    changed = {**known, RepoPath(b"x5"): StatKey(9, 9, 9, 9), A: StatKey(1, 2, 3, 4)}
    del changed[RepoPath(b"x7")]
    state.replace_excluded(db, "main", changed, known)
    assert state.load_excluded(db, "main") == changed
    # Two rows put, of which one replaces another, and one deleted.
    assert db.version()[0] - before <= 4
