"""AN-32: the built-in engine by the kit that every engine passes; each rule of it can fail."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.sdk.testing import CompensationEngineKit, OpenEngine
from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.bench import Bench, EngineProvider
from gitshadow.sdk.turns.compensation_engine import (
    JournalEngine,
    JournalRunner,
    WorkerDriver,
    carry_out,
)
from gitshadow.sdk.turns.driver import Driver
from gitshadow.sdk.turns.report import UndoKind, UndoReport
from tests.sdk.testing.broken import rules_of


class TestBuiltIn(CompensationEngineKit):
    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        return lambda place: nullcontext(JournalEngine())


class Lazy(JournalRunner):
    """It says that it is done."""

    def wait(self, op_id: str, timeout_s: float | None) -> UndoReport:
        with closing(self.bench.runtime()) as runtime:
            op = runtime.store.op(op_id)
            assert op is not None
            report = UndoReport(
                op_id=op_id,
                kind=UndoKind(op.kind),
                target=op.target,
                items=(),
                token="",
            )
            text = json_values.lenient(report.to_json())
            runtime.store.save([replace(op, status="done", report=text)])
        return report


class Forgetful(JournalRunner):
    """It does not look for what was left."""

    def recover(self) -> list[str]:
        return []


class Plain(JournalRunner):
    """It awaits nothing."""

    def wait(self, op_id: str, timeout_s: float | None) -> UndoReport:
        with self.bench.at_work(lambda: None) as runtime:
            return carry_out(runtime, op_id, Driver(runtime))


class Unlocked(JournalRunner):
    """It does not care who else is at work."""

    def wait(self, op_id: str, timeout_s: float | None) -> UndoReport:
        with closing(self.bench.runtime()) as runtime:
            return carry_out(runtime, op_id, WorkerDriver(runtime))


class Repeating(JournalRunner):
    """It does again what is done."""

    def wait(self, op_id: str, timeout_s: float | None) -> UndoReport:
        with closing(self.bench.runtime()) as runtime:
            op = runtime.store.op(op_id)
            assert op is not None
            calls = runtime.store.calls("s", "t-1")
            undone = [replace(call, undo="planned", attempts=0) for call in calls]
            runtime.store.save([*undone, replace(op, status="submitted")])
        return super().wait(op_id, timeout_s)


_BROKEN: dict[str, type[JournalRunner]] = {
    "test_inverses_run_in_reverse_order": Lazy,
    "test_a_failed_inverse_is_tried_again_with_its_key": Lazy,
    "test_a_lasting_failure_is_alone_and_can_be_resumed": Lazy,
    "test_a_hanging_inverse_is_cut_off_and_not_repeated": Lazy,
    "test_an_inverse_that_ran_and_then_failed_is_not_taken_for_failed": Lazy,
    "test_a_handler_that_is_gone_is_named": Lazy,
    "test_inverses_may_be_coroutines": Plain,
    "test_undoing_twice_is_undoing_once": Repeating,
    "test_an_undo_submitted_twice_runs_once": Repeating,
    "test_what_was_submitted_outlives_its_process": Forgetful,
    "test_a_kill_at_any_step_is_finished_by_recover": Forgetful,
    "test_the_built_in_engine_finishes_what_was_killed": Lazy,
    "test_it_finishes_what_the_built_in_engine_left": Forgetful,
    "test_two_recoverers_call_each_inverse_once": Lazy,
    "test_cancelling_who_waits_does_not_stop_the_undo": Lazy,
    "test_no_turn_begins_while_an_undo_is_carried_out": Unlocked,
    "test_a_rewind_takes_effects_back": Lazy,
}


class Broken:
    """Provides a runner that breaks a rule."""

    def __init__(self, runner: type[JournalRunner]) -> None:
        self._runner = runner

    def bind(self, bench: Bench) -> JournalRunner:
        return self._runner(bench)


@pytest.mark.parametrize("rule", sorted(_BROKEN))
def test_each_rule_can_fail(rule: str, tmp_path: Path) -> None:
    def open_engine(place: Path) -> AbstractContextManager[EngineProvider]:
        return nullcontext(Broken(_BROKEN[rule]))

    check: Callable[[OpenEngine, Path], None] = getattr(CompensationEngineKit(), rule)
    with pytest.raises(AssertionError):
        check(open_engine, tmp_path)


def test_every_rule_is_broken_by_something() -> None:
    assert set(_BROKEN) == rules_of(CompensationEngineKit)
