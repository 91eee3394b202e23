"""Tests of an engine, for inheritance: order, retries, kills, cancelling.

The rules undo a turn of three steps. Its inverses note each call in a file, and another file makes
them fail, hang, or kill the process that runs them.
Invariant: a rule knows nothing about the engine; it reads only the disk.
"""

import asyncio
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.bench import Bench, EngineProvider
from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.protocols import CompensationEngine
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoKind, UndoReport
from gitshadow.sdk.turns.saga import new_op
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.session_runtime import Opening
from gitshadow.sdk.turns.values import Inverse, Retry, Reversibility
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.saga_rows import SagaOp

STEPS = (1, 2, 3)
PATIENCE_S = 60.0
"""The time limit of every wait."""
_CUT_OFF_S = 0.2
_OTHERS = [("t-1.2", "reversed"), ("t-1.1", "reversed")]


@dataclass(slots=True)
class Steps:
    """A directory in which inverses note their calls and read their next failures.

    `troubles` maps a step to the failures of its next calls: `fail`, `hang`, `wait` (until `go`),
    `kill` (before its effect) or `kill after`.
    """

    root: Path
    begun: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def plan(self, **troubles: list[str]) -> None:
        """Set the next failures of steps: `_2=["fail"]`."""
        (self.root / "troubles.json").write_text(json.dumps(troubles))

    @property
    def calls(self) -> list[tuple[int, str]]:
        """Return the calls of inverses as step and key, oldest first."""
        return self._noted("calls")

    @property
    def undone(self) -> list[int]:
        """Return the steps whose inverses had their effect, in order."""
        return [step for step, _ in self._noted("effects")]

    def undo(self, step: int, *, idempotency_key: str) -> None:
        """Undo a step."""
        self._note("calls", step, idempotency_key)
        trouble = self._trouble(step)
        if trouble == "fail":
            raise OSError("no answer")
        if trouble == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if trouble == "hang":
            self.go.wait(PATIENCE_S)
        if trouble == "wait":
            self.begun.set()
            self.go.wait(PATIENCE_S)
        self._note("effects", step, idempotency_key)
        if trouble == "fail after":
            raise OSError("the answer was lost")
        if trouble == "kill after":
            os.kill(os.getpid(), signal.SIGKILL)

    def blind(self, step: int) -> None:
        """Undo a step without a key, so it must not be repeated."""
        self.undo(step, idempotency_key="")

    async def later(self, step: int, *, idempotency_key: str) -> None:
        """Undo a step in a coroutine."""
        await asyncio.sleep(0)
        self.undo(step, idempotency_key=idempotency_key)

    def tools(self) -> ToolRegistry:
        """Return tools with these inverses."""
        tools = ToolRegistry()
        for name, handler in (
            ("step.do", self.undo),
            ("step.blind", self.blind),
            ("step.later", self.later),
        ):
            undo = f"{name}.undo"
            tools.handler(undo)(handler)
            tools.tool(
                name,
                reversibility=Reversibility.REVERSIBLE,
                inverse=_inverse_of(undo),
                retry=Retry(
                    attempts=3,
                    backoff_s=0,
                    timeout_s=_CUT_OFF_S if name == "step.blind" else None,
                ),
            )(_nothing)
        return tools

    def _trouble(self, step: int) -> str | None:
        """Return the failure of this call, and remove it from the list."""
        path = self.root / "troubles.json"
        if not path.exists():
            return None
        troubles: dict[str, list[str]] = json.loads(path.read_text())
        found = troubles.get(f"_{step}", [])
        trouble = found.pop(0) if found else None
        path.write_text(json.dumps(troubles))
        return trouble

    def _note(self, name: str, step: int, key: str) -> None:
        with (self.root / name).open("a") as stream:
            stream.write(json.dumps([step, key]) + "\n")

    def _noted(self, name: str) -> list[tuple[int, str]]:
        path = self.root / name
        lines = path.read_text().splitlines() if path.exists() else []
        return [(step, key) for step, key in map(json.loads, lines)]


def recorded(root: Path, *, tool: str = "step.do", also: str | None = None) -> Steps:
    """Make a recorded working tree in which turn t-1 of session s ran its steps."""
    # `git init` would copy the user's template, and start a process for each test.
    git = root / ".git"
    for name in ("objects", "refs"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    with closing(Db.open(str(git / "agent-undo" / "journal.db"), create=True)):
        steps = Steps(root)
    with opened(steps, None) as au, au.turn("steps") as turn:
        for step in STEPS:
            turn.call(tool, step=step)
        if also is not None:
            turn.call(also, step=0)
    return steps


@contextmanager
def opened(
    steps: Steps, engine: EngineProvider | None, tools: ToolRegistry | None = None
) -> Iterator[AgentUndo]:
    """Open session s with an engine."""
    host = Host(engine=engine)
    with AgentUndo.open(
        str(steps.root), session="s", tools=tools or steps.tools(), host=host
    ) as au:
        yield au


def bench_of(steps: Steps) -> Bench:
    """Return the bench of session s, for an engine."""
    return Opening("s", steps.tools()).bench(str(steps.root))


@contextmanager
def lock_of(steps: Steps) -> Iterator[None]:
    """Keep the lock of session s during a block, so that no engine can begin."""
    with closing(bench_of(steps).runtime()) as runtime, runtime.locked():
        yield


def states(report: UndoReport) -> list[tuple[str, str]]:
    """Return call and state of each item, in the order of the undo."""
    return [(item.call_id, item.state.value) for item in report.items]


def forked(act: Callable[[], None]) -> int:
    """Call a function in a process of its own; return its id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            # Not sys.exit: the child is a copy of pytest and must not run its handlers.
            os._exit(code)
    return pid


def in_child(act: Callable[[], None]) -> int:
    """Call a function in a process of its own; return its exit code, or minus its signal."""
    return os.waitstatus_to_exitcode(os.waitpid(forked(act), 0)[1])


def _nothing(step: int) -> None:
    """Do nothing: the tests are only about the undo of the step."""


def _inverse_of(
    undo: str,
) -> Callable[[object, object, object], Inverse]:
    def build(arguments: object, captured: object, result: object) -> Inverse:
        assert isinstance(arguments, dict)
        return Inverse.tool(undo, step=arguments["step"])

    return build


OpenEngine: TypeAlias = Callable[[Path], AbstractContextManager[EngineProvider]]
"""Opens the engine of the working tree at a path; the same one every time."""


class CompensationEngineKit:
    """Rules for an engine.

    Inherit from it, and override the fixture `open_engine`: an `OpenEngine`. Processes are forked
    and killed, so nothing of the engine may run in the test's own process while none is open.
    """

    def test_inverses_run_in_reverse_order(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """The newest step is undone first."""
        steps = recorded(tmp_path)
        with _undone(open_engine, steps) as report:
            assert states(report) == [("t-1.3", "reversed"), *_OTHERS]
        assert steps.undone == [3, 2, 1]

    def test_a_failed_inverse_is_tried_again_with_its_key(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Each attempt of one inverse has the same key."""
        steps = recorded(tmp_path)
        steps.plan(_2=["fail", "fail"])
        with _undone(open_engine, steps) as report:
            assert [item.attempts for item in report.items] == [1, 3, 1]
        assert [step for step, _ in steps.calls] == [3, 2, 2, 2, 1]
        assert len(set(steps.calls)) == len(STEPS)

    def test_a_lasting_failure_is_alone_and_can_be_resumed(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """The same undo continues with only the failed step."""
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
        """An inverse that is not safe to repeat is in doubt; the others run."""
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
        """An inverse with a key is repeated with it; any other is in doubt and not repeated."""
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
        """The report has it as `handler_missing`; the other inverses run."""
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
        """This holds in a program without an event loop, too."""
        steps = recorded(tmp_path, tool="step.later")
        with _undone(open_engine, steps) as report:
            assert report.status == "reversed"
        assert steps.undone == [3, 2, 1]

    def test_undoing_twice_is_undoing_once(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """The second undo calls no inverse."""
        steps = recorded(tmp_path)
        with open_engine(tmp_path) as engine, opened(steps, engine) as au:
            first, second = au.undo("t-1"), au.undo("t-1")
        assert (first.status, second.status) == ("reversed", "nothing_to_do")
        assert steps.undone == [3, 2, 1]

    def test_an_undo_submitted_twice_runs_once(
        self, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Both waiting threads get the same report."""
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
        """Completed inverses are not repeated; the running one is retried with its key."""
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
        """All data is in the journal, so the undo can continue without the engine."""
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
        """A program may begin to use an engine at any time."""
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
        """Each inverse runs in only one of them."""
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
        """All inverses run, even after several cancellations."""
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
        """The running undo has the session's lock; afterwards the lock is free."""
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
        """With `effects=True`, a rewind undoes the effects first."""
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
    """Submit an undo as sessions do: write it into the journal first."""
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
