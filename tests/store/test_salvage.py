"""What `reindex` takes over from the old journal: all that the refs do not hold."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.errors import JournalNewerError
from gitshadow.model import (
    Actor,
    Attribution,
    Burst,
    Call,
    Confidence,
    EventKind,
    Gap,
    Oid,
    Op,
    OpKind,
    OpStatus,
    PathChange,
    RepoPath,
    Session,
    ToolClass,
    Touch,
    Turn,
)
from gitshadow.sdk.testing import sample_rows as saga_rows
from gitshadow.store.journal import (
    bursts,
    events,
    meta,
    ops,
    sessions,
    state,
    turns,
)
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.journal.saga_rows import SagaEntry, SagaOp
from gitshadow.store.journal.salvage import Salvaged, salvage
from gitshadow.store.journal.schema import VERSION

A = RepoPath(b"a")
OID = Oid("a" * 40)
SESSION = Session(
    id="s-1", native_id="n", actor=Actor.AGENT, agent="codex", started_ns=1000, pid=7
)
TURN = Turn(id="t1", session="s-1", ordinal=1, started_ns=1000, prompt="do it")
CALL = Call(
    id="c1",
    session="s-1",
    turn="t1",
    tool="Bash",
    tool_class=ToolClass.SHELL,
    opened_ns=1000,
    closed_ns=2000,
    outcome="ok",
    paths=(A,),
)
OP = Op(
    id="op-1",
    kind=OpKind.OOPS,
    ts_ns=1000,
    worktree="main",
    session="s-1",
    target="x",
    undoes=(),
    status=OpStatus.APPLYING,
    token="t",
)
STEP = ops.OpStep(index=0, path=A, before=None, after=None)
BURST = Burst(
    id="b-1",
    session="s-1",
    worktree="main",
    turn="t1",
    ordinal=1,
    started_ns=1,
    ended_ns=1,
    first_seq=1,
    last_seq=1,
)
GAP = Gap(seq=5, ts_ns=1, worktree="main", note="overflow")
CHANGE = PathChange(
    seq=6,
    ts_ns=1,
    worktree="main",
    kind=EventKind.MODIFY,
    path=A,
    attribution=Attribution(
        actor=Actor.AGENT, session="s-1", confidence=Confidence.LOW, reason="r"
    ),
    commit=Oid("c" * 40),
)
TOUCH = Touch(worktree="main", path=A, why="ignored", ts_ns=1)


@pytest.fixture
def old(tmp_path: Path) -> str:
    path = str(tmp_path / "old.db")
    with closing(Db.open(path, create=True)) as db, db.write():
        sessions.put(db, SESSION)
        turns.put_turn(db, TURN)
        turns.open_call(db, CALL)
        ops.put(db, OP)
        ops.plan_steps(db, "op-1", [STEP])
        bursts.put(db, BURST)
        events.insert(db, [GAP, CHANGE])
        state.put_touches(db, [TOUCH])
        meta.put(db, "boot_id", "x")
        events.reserve(db, 99)
    return path


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Db]:
    with closing(Db.open(str(tmp_path / "new.db"), create=True)) as db:
        yield db


def take(new: Db, old: str) -> Salvaged:
    with new.write():
        return salvage(new, old)


def test_what_the_refs_know_nothing_of_comes_over(old: str, new: Db) -> None:
    """KEEP-10: gaps, and what wrote nothing."""
    done = take(new, old)
    assert done.damaged == []
    assert done.next_seq == 100
    assert sessions.get(new, "s-1") == SESSION
    assert turns.get_turn(new, "s-1", "t1") == TURN
    assert turns.get_call(new, "s-1", "c1") == CALL
    assert [row.seq for row in events.rows(new, events.EventFilter())] == [5]
    assert state.touches_between(new, "main", 0, 9) == [TOUCH]
    assert meta.get(new, "boot_id") == "x"
    assert bursts.get(new, "b-1") is None


def test_turns_of_agent_programs_come_over(old: str, new: Db) -> None:
    """LAW-07: with their inverses, undos and the log, whose digests still fit."""
    turn = replace(saga_rows.TURN, status="committed")
    call = saga_rows.CALL
    op = SagaOp(
        id="op-9",
        session="s",
        kind="undo",
        target="t-1",
        status="done",
        token="t",
        started_ns=1,
        request="{}",
    )
    note = SagaEntry(session="s", turn=None, call=None, kind="k", ts_ns=1, body="{}")
    with closing(Db.open(old, create=False)) as db:
        SagaTables(db).save([turn, call, op, note, note])
    take(new, old)
    assert SagaTables(new).turns() == [turn]
    assert SagaTables(new).calls("s", "t-1") == [call]
    assert SagaTables(new).ops("s") == [op]
    assert len(list(SagaTables(new).log())) == 2
    assert SagaTables(new).broken_at() is None


def test_what_came_back_keeps_what_only_the_old_one_knew(old: str, new: Db) -> None:
    """KEEP-10: prompts, ends and pids are put back where the refs gave the rest."""
    with new.write():
        sessions.put(new, replace(SESSION, native_id="by refs", pid=None, ended_ns=9))
        turns.put_turn(new, replace(TURN, ordinal=4, prompt=None, ended_ns=9))
        turns.open_call(new, replace(CALL, tool="Edit", outcome=None, paths=()))
        bursts.put(new, replace(BURST, ordinal=4, open=False))
    take(new, old)
    assert sessions.get(new, "s-1") == replace(SESSION, native_id="by refs")
    assert turns.get_turn(new, "s-1", "t1") == replace(TURN, ordinal=4)
    assert turns.get_call(new, "s-1", "c1") == replace(CALL, tool="Edit")
    assert bursts.get(new, "b-1") == replace(BURST, ordinal=4)


def test_an_interrupted_op_keeps_its_steps(old: str, new: Db) -> None:
    """ROB-01: the next command still finishes it or rolls it back."""
    take(new, old)
    assert ops.applying(new, "main") == [OP]
    assert ops.steps(new, "op-1") == [STEP]


def test_an_op_whose_commit_is_gone_stays_behind(old: str, new: Db) -> None:
    with closing(Db.open(old, create=False)) as db, db.write():
        ops.finish(db, "op-1", OpStatus.DONE, commit=OID, report="{}")
    take(new, old)
    assert ops.list_ops(new) == []


def test_reports_of_ops_come_back(old: str, new: Db) -> None:
    with closing(Db.open(old, create=False)) as db, db.write():
        ops.finish(db, "op-1", OpStatus.DONE, commit=OID, report='{"x": 1}')
    with new.write():
        ops.put(new, replace(OP, status=OpStatus.DONE, commit=OID))
    take(new, old)
    found = ops.get(new, "op-1")
    assert found == replace(OP, status=OpStatus.DONE, commit=OID, report='{"x": 1}')


@pytest.mark.parametrize("kept", [0, 50, 5000, 40_000])
def test_a_truncated_journal_gives_what_can_be_read(
    old: str, new: Db, kept: int
) -> None:
    """ROB-09: whatever is left of it, the rebuild goes on."""
    Path(old).write_bytes(Path(old).read_bytes()[:kept])
    done = take(new, old)
    assert done.damaged
    assert new.row("PRAGMA integrity_check") == ("ok",)


def test_rows_before_the_cut_of_a_truncated_journal_come_over(
    old: str, new: Db
) -> None:
    """ROB-09: what lies before the break is not lost."""
    with closing(Db.open(old, create=False)) as db, db.write():
        rows = [GAP._replace(seq=seq, note="x" * 500) for seq in range(100, 600)]
        events.insert(db, rows)
    data = Path(old).read_bytes()
    Path(old).write_bytes(data[: len(data) - 100_000])
    done = take(new, old)
    assert done.damaged == ["events"]
    assert turns.get_turn(new, "s-1", "t1") == TURN
    assert 100 < events.count_gaps(new) < 501


def test_a_gap_that_cannot_be_right_is_left_out(old: str, new: Db) -> None:
    """ROB-09: a note that is no text cannot be stored again, and the others can."""
    with closing(Db.open(old, create=False)) as db, db.write():
        events.insert(db, [GAP._replace(seq=7), GAP._replace(seq=8)])
        db.run("UPDATE events SET note = CAST(x'ff41' AS TEXT) WHERE seq = 7")
    done = take(new, old)
    assert done.damaged == ["events"]
    assert [row.seq for row in events.rows(new, events.EventFilter())] == [8, 5]


def test_a_newer_journal_is_refused(old: str, new: Db) -> None:
    """ROB-09: its rows cannot be understood, so it is not replaced."""
    with closing(Db.open(old, create=False)) as db:
        db.run(f"PRAGMA user_version = {VERSION + 1}")
    before = Path(old).read_bytes()
    with pytest.raises(JournalNewerError):
        take(new, old)
    assert Path(old).read_bytes() == before


def test_models_and_claims_come_over(old: str, new: Db) -> None:
    """KEEP-10: what a session said of its model, and what others claim, is in no ref."""
    with closing(Db.open(old, create=False)) as db, db.write():
        sessions.note_model(db, "s-1", 7, "sonnet")
    take(new, old)
    assert sessions.models_of(new, "s-1") == [(7, "sonnet")]


def test_an_older_journal_is_whole_without_the_tables_of_later_ones(
    old: str, new: Db
) -> None:
    with closing(Db.open(old, create=False)) as db:
        db.run("DROP TABLE models")
        db.run("DROP TABLE claims")
        db.run("PRAGMA user_version = 1")
    assert take(new, old).damaged == []
