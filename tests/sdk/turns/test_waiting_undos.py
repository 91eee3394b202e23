"""Undos that wait for their engine: nothing comes between, and nobody has to wait for ever."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.testing import MemoryStore
from gitshadow.sdk.turns.bench import Bench
from gitshadow.sdk.turns.compensation_engine import JournalEngine, JournalRunner
from gitshadow.sdk.turns.errors import EngineError, SessionBusy
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.protocols import CompensationEngine
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.store.journal.saga_rows import SagaOp
from tests.sdk.turns.front import FREE, Front, Session, in_journal
from tests.sdk.turns.world import World, undone_by


@dataclass
class Idle:
    """An engine whose workers never come."""

    submitted: list[str] = field(default_factory=list)

    def bind(self, bench: Bench) -> "Idle":
        return self

    def submit(self, op: SagaOp) -> None:
        self.submitted.append(op.id)

    def wait(self, op_id: str, timeout_s: float | None) -> UndoReport:
        raise EngineError("nobody is there")

    def resume(self, op_id: str) -> None:
        self.submitted.append(op_id)

    def recover(self) -> list[str]:
        return []


async def handed_over(front: Front) -> Session:
    """Return a session that has handed the undo of a turn to an idle engine."""
    session = front.session(host=Host(engine=Idle()))
    await session.called("draft.create", title="a")
    with pytest.raises(EngineError):
        await session.undo("t-1")
    return session


@in_journal
async def test_a_session_whose_undo_waits_takes_nothing_else(
    front: Front, world: World
) -> None:
    """Neither a turn nor another undo comes before it."""
    session = await handed_over(front)
    for other in (session, front.session()):
        with pytest.raises(SessionBusy, match="is waiting for its engine"):
            async with other.turn():
                raise AssertionError("the block must not run")
        with pytest.raises(SessionBusy, match="is waiting for its engine"):
            await other.undo("t-1")
    assert world.inverses == []


@in_journal
async def test_an_undo_that_waits_is_finished_without_its_engine(
    front: Front, world: World
) -> None:
    await handed_over(front)
    session = front.session()
    (report,) = await session.recover()
    assert report.status == "reversed"
    assert world.inverses == ["undo:draft"]
    async with session.turn() as turn:
        assert (await turn.call("notes.read", note="n")).ok


@in_journal
async def test_an_undo_that_ended_can_be_handed_over_again(front: Front) -> None:
    """`resume` is the engine's as well, under the id that it had."""
    session = await front.after("draft.create", title="a")
    report = await session.undo("t-1")
    engine = Idle()
    again = front.session(host=Host(engine=engine))
    with pytest.raises(EngineError):
        await again.resume(report.op_id or "")
    assert engine.submitted == [report.op_id]


@in_journal
async def test_a_rollback_and_a_plain_rewind_wait_for_nobody(front: Front) -> None:
    """They are the business of who is at work: no engine hears of them."""
    engine = Idle()
    session = front.session(host=Host(engine=engine))
    with pytest.raises(ValueError, match="no"):
        async with session.turn() as turn:
            await turn.call("draft.create", title="a")
            raise ValueError("no")
    async with session.turn() as turn:
        await turn.set_state(k=1)
    assert (await session.rewind("t-2")).ok
    assert engine.submitted == []


@in_journal
async def test_either_front_runs_its_undos_on_an_engine(
    front: Front, world: World
) -> None:
    session = front.session(host=Host(engine=JournalEngine()))
    async with session.turn() as turn:
        await turn.call("draft.create", title="a")
        await turn.call("card.charge", amount=5)
    report = await session.undo("t-1")
    assert report.counts["reversed"] == report.counts["compensated"] == 1
    assert world.inverses == ["undo:card", "undo:draft"]


@dataclass
class Slow:
    """An engine that returns a report some time after the undo has ended; `meanwhile` is called."""

    meanwhile: Callable[[], object] = lambda: None

    def bind(self, bench: Bench) -> CompensationEngine:
        return _SlowRunner(bench, self)


@dataclass(frozen=True)
class _SlowRunner(JournalRunner):
    engine: Slow

    def wait(self, op_id: str, timeout_s: float | None) -> UndoReport:
        report = super().wait(op_id, timeout_s)
        self.engine.meanwhile()
        return report


def test_a_turn_that_began_before_the_report_came_keeps_its_lock(place: Path) -> None:
    """Another process would take it for lost."""
    tools, engine = ToolRegistry(), Slow()
    tools.add("w.put", lambda: None, **undone_by("w.back"))
    tools.handler("w.back")(lambda: None)
    opened = partial(AgentUndo.open, place, session="s", tools=tools, policy=FREE)
    with opened(host=Host(engine=engine)) as au, opened() as other:
        with au.turn("one") as turn:
            turn.call("w.put")
        turn = au.turn("two")
        engine.meanwhile = turn.__enter__
        assert au.undo("t-1").ok
        with pytest.raises(SessionBusy):
            other.turn("three").__enter__()
        turn.call("w.put")
        turn.__exit__(None, None, None)
    assert turn.status == "committed"


def test_an_engine_without_a_repository_is_refused() -> None:
    with pytest.raises(UsageError, match="without a repository"):
        AgentUndo.with_store(
            MemoryStore(),
            session="s",
            tools=ToolRegistry(),
            host=Host(engine=JournalEngine()),
        )
