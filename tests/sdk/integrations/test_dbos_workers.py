"""DBOS beside the suite: workers of their own, workflows that went astray, what is stored."""

import io
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer, WorkflowStatus

from gitshadow.cli import main
from gitshadow.errors import UsageError
from gitshadow.sdk.integrations import dbos
from gitshadow.sdk.integrations.dbos import DbosEngine
from gitshadow.sdk.testing.engine_kit import (
    Steps,
    bench_of,
    forked,
    in_child,
    lock_of,
    opened,
    recorded,
)
from gitshadow.sdk.turns.commands import Command
from gitshadow.sdk.turns.compensation_engine import WorkerDriver
from gitshadow.sdk.turns.driver import Driver
from gitshadow.sdk.turns.errors import EngineError, UndoPending
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.report import UndoKind
from gitshadow.sdk.turns.saga import new_op
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.store.journal.saga_rows import SagaOp
from gitshadow.store.journal.schema import VERSION
from tests.sdk.turns.front import Front
from tests.sdk.turns.test_secrets import NUMBER, VERBS, everything, found, register
from tests.support import places
from tests.support.postgres import cluster
from tests.support.waiting import HANGS_S, until


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with cluster() as url:
        yield url


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/dbos.db"


@contextmanager
def client_of(url: str) -> Iterator[DBOSClient]:
    """Look into the database as an operator does."""
    serializer = DBOSPortableJSONSerializer()
    client = DBOSClient(system_database_url=url, serializer=serializer)
    try:
        yield client
    finally:
        client.destroy()


def workflow(url: str, op_id: str) -> WorkflowStatus:
    with client_of(url) as client:
        (found,) = client.list_workflows(workflow_ids=[op_id])
    return found


def worker(url: str, steps: Steps) -> int:
    """Start a process that carries out undos until it is killed; return its id."""

    def serve() -> None:
        engine = DbosEngine(url)
        with engine.serve(str(steps.root), tools=steps.tools(), every_s=0.05):
            signal.pause()

    return forked(serve)


@contextmanager
def working(url: str, steps: Steps) -> Iterator[int]:
    pid = worker(url, steps)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def elsewhere(url: str) -> DbosEngine:
    return DbosEngine(url, runs="elsewhere")


def submitted(steps: Steps, engine: DbosEngine) -> SagaOp:
    """Hand an undo over and wait for nothing."""
    bench = bench_of(steps)
    op = replace(new_op("s", UndoKind.UNDO, "t-1", 1), status="submitted")
    with closing(bench.runtime()) as runtime:
        runtime.store.save([op])
    engine.bind(bench).submit(op)
    return op


def test_a_worker_carries_out_what_another_process_submitted(
    postgres: str, tmp_path: Path
) -> None:
    steps = recorded(tmp_path)
    with (
        working(postgres, steps) as pid,
        elsewhere(postgres) as engine,
        opened(steps, engine) as au,
    ):
        report = au.undo("t-1")
        found = workflow(postgres, report.op_id or "")
    assert report.status == "reversed"
    assert steps.undone == [3, 2, 1]
    assert f"-{pid}-" in (found.executor_id or "")


def test_no_value_of_a_secret_argument_is_anywhere(
    sqlite: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the database of DBOS holds is no more than what the journal holds."""
    front = Front.make("sync", places.recorded(tmp_path / "place"))
    register(front, NUMBER)
    front.tools.remove("safe.undo")
    front.tools.handler("safe.undo", idempotent=True)(lambda **args: None)
    with DbosEngine(sqlite) as engine:
        au = front.session(host=Host(engine=engine)).au
        assert isinstance(au, AgentUndo)
        with au.turn("go") as turn:
            for name in ("put", "args", "residue", "refuse", "blind"):
                turn.call(f"safe.{name}", secret=NUMBER)
        report = au.undo("t-1", on_drift="overwrite")
    monkeypatch.chdir(front.root)
    # DBOS keeps the standard error of its first use, so no fixture may replace and close it.
    shown = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(shown):
        for line in VERBS:
            main(line)
    shown.seek(0)
    said = [json.dumps(report.to_json()), caplog.text, shown.read()]
    assert "safe.put" in said[-1]
    said.append(everything(tmp_path))
    front.close()
    states = {item.tool: item.state for item in report.items}
    assert (states["safe.put"], states["safe.args"]) == ("reversed", "not_reversed")
    assert found((NUMBER,), "\n".join(said)) == []


def test_an_undo_is_one_workflow_with_one_step_per_inverse(
    sqlite: str, tmp_path: Path
) -> None:
    """Under the undo's id, pinned to the journal's schema, and as JSON."""
    steps = recorded(tmp_path)
    with DbosEngine(sqlite) as engine, opened(steps, engine) as au:
        op_id = au.undo("t-1").op_id or ""
    found = workflow(sqlite, op_id)
    with client_of(sqlite) as client:
        names = [step["function_name"] for step in client.list_workflow_steps(op_id)]
    assert found.app_version == f"gitshadow-{VERSION}"
    assert found.output == {
        "status": "reversed",
        "counts": {
            "compensated": 0,
            "no_effect": 0,
            "not_reversed": 0,
            "reversed": 3,
        },
    }
    assert (names[0], names[-1]) == ("begin", "end")
    taken_back = [name for name in names if name.startswith("take back ")]
    assert taken_back == [f"take back t-1.{step}" for step in (3, 2, 1)]


def test_another_worker_takes_over_from_one_that_was_killed(
    postgres: str, tmp_path: Path
) -> None:
    """By the lock that is free, whatever the id of the dead one was; who waits need not know."""
    steps = recorded(tmp_path)
    steps.plan(_2=["kill"])
    dead = worker(postgres, steps)

    def undo() -> None:
        with elsewhere(postgres) as engine, opened(steps, engine) as au:
            assert au.undo("t-1").ok

    waiting = forked(undo)
    assert os.waitstatus_to_exitcode(os.waitpid(dead, 0)[1]) == -signal.SIGKILL
    with working(postgres, steps):
        assert os.waitstatus_to_exitcode(os.waitpid(waiting, 0)[1]) == 0
    assert [step for step, _ in steps.calls] == [3, 2, 2, 1]
    assert steps.undone == [3, 2, 1]


def test_who_waits_takes_over_from_a_process_that_is_gone(
    sqlite: str, tmp_path: Path
) -> None:
    """Programs of one name share a queue: one may take another's undo along when it ends."""
    steps = recorded(tmp_path)

    def submit() -> None:
        with DbosEngine(sqlite) as engine, lock_of(steps):
            submitted(steps, engine)
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(submit) == -signal.SIGKILL
    (op,) = bench_of(steps).unfinished()
    assert workflow(sqlite, op.id).status == "PENDING"
    with DbosEngine(sqlite) as engine:
        assert engine.bind(bench_of(steps)).wait(op.id, HANGS_S).ok
    assert steps.undone == [3, 2, 1]


def test_a_worker_takes_over_the_rollback_of_a_process_that_died(
    sqlite: str, tmp_path: Path
) -> None:
    """AN-05: nobody has to ask for it."""
    steps = recorded(tmp_path)
    steps.plan(_8=["kill"])

    def fail() -> None:
        with opened(steps, None) as au, au.turn("second") as turn:
            for step in (7, 8, 9):
                turn.call("step.do", step=step)
            turn.cancel()

    assert in_child(fail) == -signal.SIGKILL
    with working(sqlite, steps), opened(steps, None) as au:
        until(lambda: au.turns()[-1].status == "rolled_back")
    assert steps.undone == [9, 8, 7]


def test_a_workflow_that_was_cancelled_can_be_recovered(
    sqlite: str, tmp_path: Path
) -> None:
    steps = recorded(tmp_path)
    steps.plan(_3=["wait"])

    def cancel() -> None:
        steps.begun.wait(HANGS_S)
        with client_of(sqlite) as client:
            (found,) = client.list_workflows()
            client.cancel_workflow(found.workflow_id)
        steps.go.set()

    operator = threading.Thread(target=cancel)
    operator.start()
    with DbosEngine(sqlite) as engine, opened(steps, engine) as au:
        with pytest.raises(EngineError, match="its workflow is CANCELLED"):
            au.undo("t-1")
        operator.join(HANGS_S)
        # The error comes with the cancellation, while the third step may still run.
        until(bench_of(steps).is_free)
        assert steps.undone == [3]
        (report,) = au.recover()
    assert report.ok
    assert steps.undone == [3, 2, 1]


def test_a_workflow_of_another_schema_is_started_anew(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DBOS would leave it for ever; the journal knows what is left to do."""
    steps = recorded(tmp_path)
    steps.plan(_2=["kill after"])

    def undo() -> None:
        monkeypatch.setattr(dbos, "APPLICATION_VERSION", "gitshadow-1")
        with DbosEngine(sqlite) as engine, opened(steps, engine) as au:
            au.undo("t-1")

    assert in_child(undo) == -signal.SIGKILL
    with DbosEngine(sqlite) as engine, opened(steps, engine) as au:
        (report,) = au.recover()
    assert report.ok
    assert workflow(sqlite, report.op_id or "").app_version == f"gitshadow-{VERSION}"


def test_waiting_for_a_worker_that_is_not_there_can_end(
    sqlite: str, tmp_path: Path
) -> None:
    steps = recorded(tmp_path)
    with elsewhere(sqlite) as engine:
        op = submitted(steps, engine)
        with pytest.raises(UndoPending, match=op.id):
            engine.bind(bench_of(steps)).wait(op.id, 0)
    assert workflow(sqlite, op.id).status == "ENQUEUED"
    assert steps.calls == []


def test_a_process_that_uses_dbos_itself_has_to_work_elsewhere(
    sqlite: str, tmp_path: Path
) -> None:
    steps = recorded(tmp_path)
    DBOS(config={"name": "theirs", "system_database_url": sqlite, "log_level": "ERROR"})
    try:
        with (
            DbosEngine(sqlite) as engine,
            pytest.raises(UsageError, match="this process already uses it"),
        ):
            submitted(steps, engine)
    finally:
        DBOS.destroy()


def test_a_database_that_is_away_leaves_an_undo_to_be_recovered(
    tmp_path: Path,
) -> None:
    steps = recorded(tmp_path)
    url = f"postgresql://nobody@/undos?host={tmp_path}"
    with (
        DbosEngine(url) as engine,
        opened(steps, engine) as au,
        pytest.raises(EngineError, match="cannot use DBOS"),
    ):
        au.undo("t-1")
    with opened(steps, None) as au:
        assert [report.status for report in au.recover()] == ["reversed"]
    assert steps.undone == [3, 2, 1]


def test_an_engine_belongs_to_one_repository(sqlite: str, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    first, second = (recorded(tmp_path / name) for name in "ab")
    with DbosEngine(sqlite) as engine:
        engine.bind(bench_of(first))
        with pytest.raises(UsageError, match="two repositories"):
            engine.bind(bench_of(second))


@pytest.mark.uncounted
def test_a_kill_before_any_command_is_finished_by_either_engine(tmp_path: Path) -> None:
    """ENG-07: every place at which journal, database and world can disagree."""
    points = 0
    while True:
        points += 1
        place = tmp_path / str(points)
        place.mkdir()
        steps = recorded(place)
        url = f"sqlite:///{place}/dbos.db"
        if not killed_at(points, url, steps):
            break
        engine = DbosEngine(url) if points % 3 == 0 else None
        with opened(steps, engine) as au:
            (report,) = au.recover()
            assert report.ok
            assert au.undo("t-1").already_undone
            assert au.verify() is None
        if engine is not None:
            engine.close()
        assert sorted(set(steps.undone)) == [1, 2, 3]
        assert len(set(steps.calls)) == 3
        assert len(steps.calls) <= 4
    assert points > 20


def killed_at(point: int, url: str, steps: Steps) -> bool:
    """Undo in a process that is killed before a command; tell whether it came so far."""
    perform = Driver.perform
    left = [point]

    def fused(driver: Driver, command: Command) -> object:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return perform(driver, command)

    def undo() -> None:
        WorkerDriver.perform = fused  # type: ignore[assignment, method-assign]
        engine = DbosEngine(url)
        with opened(steps, engine) as au:
            au.undo("t-1")

    return in_child(undo) != 0
