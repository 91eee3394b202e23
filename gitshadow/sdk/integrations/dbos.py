"""DBOS as an engine for undos: one workflow per undo, one step per inverse, in SQLite or Postgres.

The journal stays the truth: a workflow is told which undo, reads everything else from there, and
writes every step there before DBOS hears of it. What DBOS lost, or never knew, is started anew.
Invariant: a workflow holds its session's lock; one whose lock is free while it is said to run has
lost its process, whatever the id of that process was.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from types import TracebackType
from typing import TypeAlias

from dbos import (
    DBOS,
    DBOSClient,
    DBOSConfig,
    DBOSPortableJSONSerializer,
    SetWorkflowID,
    WorkflowSerializationFormat,
)

from gitshadow.errors import ShadowError, UsageError
from gitshadow.sdk.integrations.dbos_access import (
    APPLICATION_VERSION,
    AT_WORK,
    WORKFLOW,
    Door,
    WorkflowWatch,
    can_go_on,
    translated,
)
from gitshadow.sdk.turns.bench import Bench
from gitshadow.sdk.turns.commands import Command, Part, Procedure, T
from gitshadow.sdk.turns.compensation_engine import (
    Deadline,
    WorkerDriver,
    carry_out,
)
from gitshadow.sdk.turns.errors import EngineError, SessionBusy
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session_runtime import Opening
from gitshadow.store.journal.saga_rows import SagaOp

_LOG = logging.getLogger(__name__)
Workflow: TypeAlias = Callable[[str, str], dict[str, object]]

_POLL_S = 0.1
_DIGEST_BYTES = 8


class UndoLocation(StrEnum):
    """Say where the undos of a program are carried out."""

    HERE = "here"
    ELSEWHERE = "elsewhere"


class DbosEngine:
    """Carry undos out as DBOS workflows: `Host(engine=DbosEngine(url))`; a context manager.

    Args:
        url: The database, `sqlite:////path/file.db` or `postgresql://...`; made if need be.
        program: Whose tools these are. Processes of one program on one repository carry out each
            other's undos, so they must have the same tools.
        runs: `here`: in threads of this process, in which nobody else may use DBOS. `elsewhere`:
            in another process of this host, which has `serve` open; here is a client alone.
    """

    def __init__(
        self,
        url: str,
        *,
        program: str = "agent",
        runs: UndoLocation | str = UndoLocation.HERE,
    ) -> None:
        self._url = url
        self._program = program
        self.runs = UndoLocation(runs)
        self._benches: dict[str, Bench] = {}
        self._queue = ""
        self._starting = threading.Lock()
        self._closing = threading.Event()
        self._door: Door | None = None
        self._undo: Workflow | None = None

    def __enter__(self) -> "DbosEngine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End threads and connections; an undo at work stops after the inverse that it is at."""
        self._closing.set()
        if self._undo is not None:
            DBOS.destroy()
        if self._door is not None:
            self._door.client.destroy()
        self._undo, self._door = None, None

    def bind(self, bench: Bench) -> "DbosRunner":
        """Return the engine of one session; nothing is started before there is work.

        Raises:
            UsageError: it is the engine of another repository.
        """
        queue = _queue_of(self._program, bench.journal)
        if self._queue not in ("", queue):
            raise UsageError("cannot use one DbosEngine for two repositories")
        self._queue = queue
        self._benches[bench.session] = bench
        return DbosRunner(self, bench)

    @contextmanager
    def serve(
        self,
        path: str,
        *,
        tools: ToolRegistry,
        policy: Policy | None = None,
        host: Host | None = None,
        every_s: float = 5.0,
    ) -> Iterator[None]:
        """Carry out the undos of all sessions of a repository while the block runs.

        What has lost its process, rollbacks of turns among it, is taken over at the beginning and
        every so often.

        Args:
            path: The root of the working tree.
            tools: As the program that submits has them.
            policy: Which inverses that reach outside may run.
            host: What else they need, as `secrets`.
            every_s: How often to look for what has lost its process.

        Raises:
            UsageError: the engine runs elsewhere, or somebody else uses DBOS in this process.
        """
        if self.runs is not UndoLocation.HERE:
            raise UsageError(
                "cannot serve: undos of this engine run in another process"
            )
        opening = Opening("", tools, None, policy or Policy(), host or Host())
        bench = opening.bench(path)
        self.bind(bench)
        self.door()
        ended = threading.Event()
        keeper = threading.Thread(
            target=self._keep, args=(bench, ended, every_s), daemon=True
        )
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()

    def start(self, op: SagaOp) -> None:
        """Start the workflow of an undo; it is in the database when this returns."""
        door = self.door()
        if self._undo is None:
            door.enqueue(op)
            return
        with translated(), SetWorkflowID(op.id):
            DBOS.start_workflow(self._undo, op.session, op.id)

    def door(self) -> "Door":
        """Return the way to the database; what is to run here is started with it.

        Raises:
            UsageError: somebody else uses DBOS in this process.
            EngineError: the database cannot be reached.
        """
        with self._starting, translated():
            if self._door is None:
                self._door = self._opened()
            return self._door

    def _opened(self) -> "Door":
        DBOS.migrate(self._url)
        client = DBOSClient(
            system_database_url=self._url, serializer=DBOSPortableJSONSerializer()
        )
        try:
            # Before the launch: a queue that comes later is seen a second later.
            client.register_queue(self._queue, polling_interval_sec=_POLL_S)
            if self.runs is UndoLocation.HERE:
                self._launch()
        except BaseException:
            client.destroy()
            raise
        return Door(client, self._queue)

    def _launch(self) -> None:
        logging.getLogger("dbos").setLevel(logging.ERROR)
        executor = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"
        config: DBOSConfig = {
            "name": "gitshadow",
            "system_database_url": self._url,
            "application_version": APPLICATION_VERSION,
            "executor_id": executor,
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "ERROR",
            # No undo waits for a message; closing waits for whoever listens to them.
            "notification_listener_polling_interval_sec": _POLL_S,
        }
        DBOS(config=config)
        # There is one per process: the constructor returns whichever was made first.
        if DBOS.executor_id != executor:
            raise UsageError(
                "could not start DBOS: this process already uses it",
                hint="use runs='elsewhere', and serve() in a separate process",
            )
        undo = self._registered()
        DBOS.listen_queues([self._queue])
        DBOS.launch()
        self._undo = undo

    def _registered(self) -> Workflow:
        """Register the workflow; every process finds it by its name."""

        @DBOS.workflow(
            name=WORKFLOW, serialization_type=WorkflowSerializationFormat.PORTABLE
        )
        def undo(session: str, op_id: str) -> dict[str, object]:
            with self._bench(session).at_work(self._check_open) as runtime:
                report = carry_out(runtime, op_id, _StepDriver(runtime))
            return {"status": report.status.value, "counts": dict(report.counts)}

        return undo

    def _bench(self, session: str) -> Bench:
        """Return the tools of a session, else those of the program."""
        known = self._benches.get(session)
        return known or next(iter(self._benches.values())).of(session)

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise EngineError("cannot carry an undo out: the engine is closed")

    def _keep(self, bench: Bench, ended: threading.Event, every_s: float) -> None:
        while not ended.is_set():
            try:
                for session in bench.sessions_with_work():
                    DbosRunner(self, self._bench(session)).take_over()
            except ShadowError as error:  # the database may be away for a while
                _LOG.warning("could not look for undos without a process: %s", error)
            ended.wait(every_s)


@dataclass(frozen=True, slots=True)
class DbosRunner:
    """Carry out the undos of one session; see `CompensationEngine`."""

    engine: DbosEngine
    bench: Bench

    def submit(self, op: SagaOp) -> None:
        """Start the workflow of an undo, if it has none."""
        self.engine.start(op)

    def wait(self, op_id: str, timeout_s: float | None) -> UndoReport:
        """Wait until the journal holds the report.

        Raises:
            UndoPending: the time is over.
            EngineError: the workflow failed or was cancelled, or there is none.
        """
        until, door = Deadline(op_id, timeout_s), self.engine.door()
        look = WorkflowWatch(door, op_id)

        def check() -> None:
            until.check()
            if look.is_due():
                self._go_on(op_id, look.status())

        found = self.bench.report(op_id, check)
        # The report is there a moment before the workflow lets go of the session.
        while not self.bench.is_free() and door.is_running(op_id):
            until.check()
        return found

    def _go_on(self, op_id: str, status: str) -> None:
        """Take an undo over whose process is gone, where that is our business.

        Raises:
            EngineError: it is nobody's any more.
        """
        if status == "PENDING" and self.engine.runs is UndoLocation.HERE:
            self.take_over()
        elif status not in AT_WORK and self.bench.told(op_id) is None:
            raise EngineError(
                f"cannot carry out undo {op_id}: its workflow is {status}",
                hint="continue it with recover()",
            )

    def resume(self, op_id: str) -> None:
        """Start the workflow of an undo anew; what it did is in the journal and stays."""
        self.engine.door().forget(op_id)
        for op in self.bench.unfinished():
            if op.id == op_id:
                self.engine.start(op)

    def recover(self) -> list[str]:
        """Go on with the workflows of the undos without a report, or start them anew."""
        door, lost = self.engine.door(), self.bench.unfinished()
        for op in lost:
            found = door.find(op.id)
            if found is not None and can_go_on(found):
                door.go_on(op.id)
            else:
                door.forget(op.id)
                self.engine.start(op)
        return [op.id for op in lost]

    def take_over(self) -> None:
        """Do as `recover`, with what nobody is at work on and no person has to look at."""
        door = self.engine.door()
        with suppress(SessionBusy), self.bench.idle() as lost:
            for op in lost:
                found = door.find(op.id)
                if found is None:
                    self.engine.start(op)
                elif door.is_running(op.id):
                    door.go_on(op.id)


class _StepDriver(WorkerDriver):
    """Run an undo inside a workflow: what DBOS has a record of is not done again."""

    def opened(self, procedure: Procedure[T]) -> Procedure[T]:
        return procedure

    def perform(self, command: Command) -> object:
        if not isinstance(command, Part):
            return super().perform(command)
        inner = WorkerDriver(self.runtime)
        return DBOS.run_step({"name": command.name}, inner.run, command.procedure)


def _queue_of(program: str, journal: str) -> str:
    """Return the queue of a program's undos in one repository of one host."""
    place = f"{socket.gethostname()}:{os.path.realpath(journal)}"
    digest = blake2b(place.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"gitshadow-{program}-{digest}"
