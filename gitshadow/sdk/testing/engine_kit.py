"""What every engine is asked, as tests to be inherited: order, retries, kills, cancelling.

Invariant: a rule knows nothing of the engine; what it looks at is on the disk.
"""

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from gitshadow.sdk.testing.three_step_turn import (
    PATIENCE_S,
    STEPS,
    Steps,
    bench_of,
    forked,
    in_child,
    lock_of,
    opened,
    recorded,
    states,
)
from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.bench import EngineProvider
from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.protocols import CompensationEngine
from gitshadow.sdk.turns.report import UndoKind, UndoReport
from gitshadow.sdk.turns.saga import new_op
from gitshadow.store.journal.saga_rows import SagaOp

_OTHERS = [("t-1.2", "reversed"), ("t-1.1", "reversed")]


OpenEngine: TypeAlias = Callable[[Path], AbstractContextManager[EngineProvider]]
"""Opens the engine of the working tree at a place; the same one every time."""


class CompensationEngineKit:
    """Check an engine.

    Inherit from it, and override the fixture `open_engine`: an `OpenEngine`. Processes are forked
    and killed, so nothing of the engine may run in the test's own process while none is open.
    """

    def test_inverses_run_in_reverse_order(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """ENG-01."""
        steps = recorded(tmp_path)
        with _undone(open_engine, steps) as report:
            assert states(report) == [("t-1.3", "reversed"), *_OTHERS]
        assert steps.undone == [3, 2, 1]

    def test_a_failed_inverse_is_tried_again_with_its_key(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """ENG-04, ENG-05."""
        steps = recorded(tmp_path)
        steps.plan(_2=["fail", "fail"])
        with _undone(open_engine, steps) as report:
            assert [item.attempts for item in report.items] == [1, 3, 1]
        assert [step for step, _ in steps.calls] == [3, 2, 2, 2, 1]
        assert len(set(steps.calls)) == len(STEPS)

    def test_a_lasting_failure_is_alone_and_can_be_resumed(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """ENG-06: the same undo goes on, and touches only what failed."""
        steps = recorded(tmp_path)
        steps.plan(_2=["fail"] * 3)
        with open_engine(tmp_path) as engine, opened(steps, engine) as au:
            report = au.undo("t-1")
            assert [item.reason for item in report.items] == [None, "failed", None]
            assert (report.status, report.op_id is None) == ("partial", False)
            again = au.resume(report.op_id or "")
            assert (again.ok, again.op_id) == (True, report.op_id)
        assert steps.undone == [3, 1, 2]

    def test_a_hanging_inverse_is_cut_off_and_not_repeated(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """ENG-09: one that is not safe to repeat is in doubt; the others go on."""
        steps = recorded(tmp_path, also="step.blind")
        steps.plan(_0=["hang"])
        with _undone(open_engine, steps) as report:
            reasons = [item.reason for item in report.items]
            assert reasons == ["in_doubt", None, None, None]
            assert [step for step, _ in steps.calls] == [0, 3, 2, 1]
        steps.go.set()

    def test_an_inverse_that_ran_and_then_failed_is_not_taken_for_failed(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """One with a key is asked again with it; any other is in doubt, and not repeated."""
        steps = recorded(tmp_path, also="step.blind")
        steps.plan(_0=["fail after"], _2=["fail after"])
        with _undone(open_engine, steps) as report:
            reasons = [item.reason for item in report.items]
            assert reasons == ["in_doubt", None, None, None]
            assert [step for step, _ in steps.calls] == [0, 3, 2, 2, 1]
            assert len(set(steps.calls)) == 1 + len(STEPS)

    def test_a_handler_that_is_gone_is_named(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """AN-33."""
        steps = recorded(tmp_path, also="step.blind")
        tools = steps.tools()
        tools.remove("step.blind.undo")
        with open_engine(tmp_path) as engine, opened(steps, engine, tools) as au:
            report = au.undo("t-1")
        assert [item.reason for item in report.items] == [
            "handler_missing",
            *(None,) * 3,
        ]
        assert steps.undone == [3, 2, 1]

    def test_inverses_may_be_coroutines(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Also where nobody has an event loop."""
        steps = recorded(tmp_path, tool="step.later")
        with _undone(open_engine, steps) as report:
            assert report.status == "reversed"
        assert steps.undone == [3, 2, 1]

    def test_undoing_twice_is_undoing_once(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """ENG-03."""
        steps = recorded(tmp_path)
        with open_engine(tmp_path) as engine, opened(steps, engine) as au:
            first, second = au.undo("t-1"), au.undo("t-1")
        assert (first.status, second.status) == ("reversed", "nothing_to_do")
        assert steps.undone == [3, 2, 1]

    def test_an_undo_submitted_twice_runs_once(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """And both who wait for it get the same report."""
        steps = recorded(tmp_path)
        with open_engine(tmp_path) as engine:
            runner, op = _submitted(steps, engine)
            runner.submit(op)
            reports = [runner.wait(op.id, PATIENCE_S) for _ in range(2)]
        assert reports[0] == reports[1]
        assert steps.undone == [3, 2, 1]

    def test_what_was_submitted_outlives_its_process(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """`submit` is durable before it returns."""
        steps = recorded(tmp_path)

        def submit() -> None:
            # Under the lock, so that nothing of it runs here.
            with open_engine(tmp_path) as engine, lock_of(steps):
                _submitted(steps, engine)
                os.kill(os.getpid(), signal.SIGKILL)

        assert in_child(submit) == -signal.SIGKILL
        assert steps.calls == []
        _check_recovered(open_engine, steps)
        assert steps.undone == [3, 2, 1]

    def test_a_kill_at_any_step_is_finished_by_recover(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """ENG-07: done is not repeated, the one at work is retried with its key."""
        for step in STEPS:
            for when in ("kill", "kill after"):
                place = tmp_path / f"{when}-{step}"
                place.mkdir()
                steps = recorded(place)
                _kill(open_engine, steps, step, when)
                _check_recovered(open_engine, steps)
                assert sorted(Counter(steps.calls).values()) == [1, 1, 2]
                assert steps.calls.count((step, _key(steps, step))) == 2

    def test_the_built_in_engine_finishes_what_was_killed(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """The journal is the truth: it takes no engine to go on."""
        for step in STEPS:
            place = tmp_path / str(step)
            place.mkdir()
            steps = recorded(place)
            _kill(open_engine, steps, step, "kill after")
            with opened(steps, None) as au:
                (report,) = au.recover()
            assert report.ok
            assert set(steps.undone) == set(STEPS)
            with open_engine(place) as engine, opened(steps, engine) as au:
                assert au.recover() == []
                assert au.undo("t-1").already_undone

    def test_it_finishes_what_the_built_in_engine_left(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """An engine may be taken into use at any time."""
        steps = recorded(tmp_path)
        steps.plan(_2=["kill after"])

        def undo() -> None:
            with opened(steps, None) as au:
                au.undo("t-1")

        assert in_child(undo) == -signal.SIGKILL
        _check_recovered(open_engine, steps)
        assert [step for step, _ in steps.calls] == [3, 2, 2, 1]

    def test_two_recoverers_call_each_inverse_once(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """AN-05."""
        steps = recorded(tmp_path)
        _kill(open_engine, steps, 2, "kill")

        def recover() -> None:
            with (
                open_engine(tmp_path) as engine,
                opened(steps, engine) as au,
                suppress(SessionBusy),  # then the other one does it
            ):
                au.recover()

        for pid in [forked(recover) for _ in range(2)]:
            os.waitpid(pid, 0)
        with opened(steps, None) as au:
            assert au.recover() == []
            assert au.undo("t-1").already_undone
        assert [step for step, _ in steps.calls] == [3, 2, 2, 1]

    def test_cancelling_who_waits_does_not_stop_the_undo(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """CAN-15: all inverses ran, however often it is cancelled."""
        steps = recorded(tmp_path)
        steps.plan(_3=["wait"])

        async def undo(engine: EngineProvider) -> None:
            host = Host(engine=engine)
            async with AsyncAgentUndo.open(
                str(tmp_path), session="s", tools=steps.tools(), host=host
            ) as au:
                task = asyncio.ensure_future(au.undo("t-1"))
                while not (steps.begun.is_set() or task.done()):
                    await asyncio.sleep(0.01)
                assert steps.begun.is_set()
                for _ in range(2):
                    task.cancel()
                    await asyncio.sleep(0)
                steps.go.set()
                with suppress(asyncio.CancelledError):
                    await task
                assert task.cancelled()

        with open_engine(tmp_path) as engine:
            asyncio.run(undo(engine))
        assert steps.undone == [3, 2, 1]

    def test_no_turn_begins_while_an_undo_is_carried_out(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Whoever carries it out holds the session's lock; afterwards it is free."""
        steps = recorded(tmp_path)
        steps.plan(_3=["wait"])
        with open_engine(tmp_path) as engine, opened(steps, engine) as au:
            undo = threading.Thread(target=au.undo, args=("t-1",))
            undo.start()
            steps.begun.wait(PATIENCE_S)
            with opened(steps, None) as other:
                is_busy = False
                try:
                    other.turn("too early").__enter__().cancel()
                except SessionBusy:
                    is_busy = True
                steps.go.set()
                undo.join(PATIENCE_S)
                assert is_busy
                with other.turn("later") as turn:
                    assert turn.call("step.do", step=4).ok
        assert steps.undone == [3, 2, 1]

    def test_a_rewind_takes_effects_back(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """RW-13 turned round: asked for effects, it takes them back first."""
        steps = recorded(tmp_path)
        with open_engine(tmp_path) as engine, opened(steps, engine) as au:
            assert au.rewind("t-1", effects=True).ok
            assert au.state == {}
        assert steps.undone == [3, 2, 1]


@contextmanager
def _undone(open_engine: OpenEngine, steps: Steps) -> Iterator[UndoReport]:
    with open_engine(steps.root) as engine, opened(steps, engine) as au:
        yield au.undo("t-1")


def _submitted(
    steps: Steps, engine: EngineProvider
) -> tuple[CompensationEngine, SagaOp]:
    """Hand an undo over as sessions do: into the journal first."""
    bench = bench_of(steps)
    op = new_op("s", UndoKind.UNDO, "t-1", 1)
    op = replace(op, status="submitted")
    with closing(bench.runtime()) as runtime:
        runtime.store.save([op])
    runner = engine.bind(bench)
    runner.submit(op)
    return runner, op


def _kill(open_engine: OpenEngine, steps: Steps, step: int, when: str) -> None:
    """Undo in a process of its own that is killed in the inverse of a step."""
    steps.plan(**{f"_{step}": [when]})

    def undo() -> None:
        with open_engine(steps.root) as engine, opened(steps, engine) as au:
            au.undo("t-1")

    assert in_child(undo) == -signal.SIGKILL


def _check_recovered(open_engine: OpenEngine, steps: Steps) -> None:
    with open_engine(steps.root) as engine, opened(steps, engine) as au:
        assert [report.ok for report in au.recover()] == [True]
        assert au.recover() == []
        assert au.attention() == []
        assert au.verify() is None


def _key(steps: Steps, step: int) -> str:
    with opened(steps, None) as au:
        return au.calls("t-1")[step - 1].key
