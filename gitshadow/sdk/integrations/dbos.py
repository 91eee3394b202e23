"""DBOS as an engine for undos: one workflow per undo, one step per inverse, in SQLite or Postgres.

The journal stays the source of truth: a workflow gets the id of an undo, reads everything else from
the journal, and writes each step there before DBOS records it. An undo that DBOS lost or never had
is started again.
Invariant: a workflow holds its session's lock; if the lock is free while DBOS reports the workflow
as running, its process is gone. Every error of the database is raised as `EngineError`.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import TypeAlias

from dbos import (
    DBOS,
    DBOSClient,
    DBOSConfig,
    DBOSPortableJSONSerializer,
    EnqueueOptions,
    SetWorkflowID,
    WorkflowSerializationFormat,
    WorkflowStatus,
)
from dbos import error as dbos_error
from sqlalchemy.exc import SQLAlchemyError

from gitshadow.errors import ShadowError, UsageError
from gitshadow.messages.codec import JsonObject
from gitshadow.sdk.turns.bench import Bench
from gitshadow.sdk.turns.commands import Command, Part, Procedure, T
from gitshadow.sdk.turns.compensation_engine import WorkerDriver, carry_out, deadline
from gitshadow.sdk.turns.errors import EngineError, SessionBusy
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.option_checks import one_of
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session_runtime import Opening
from gitshadow.store.digests import digest
from gitshadow.store.journal.saga_rows import SagaOp
from gitshadow.store.journal.schema import VERSION

# DBOS runs a workflow only with the version that started it: that of the journal.
APPLICATION_VERSION = f"gitshadow-{VERSION}"
_WORKFLOW = "gitshadow.undo"
_LOOKS_S = 0.25
_AT_WORK = ("PENDING", "ENQUEUED", "DELAYED")
_CAN_CONTINUE = (*_AT_WORK, "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
_LOG = logging.getLogger(__name__)
Workflow: TypeAlias = Callable[[str, str], JsonObject]

_POLL_S = 0.1
_DIGEST_BYTES = 8


class UndoLocation(StrEnum):
    """Where the undos of a program run."""

    HERE = "here"
    ELSEWHERE = "elsewhere"


class DbosEngine:
    """Run undos as DBOS workflows: `Host(engine=DbosEngine(url))`; a context manager.

    Args:
        url: The database, `sqlite:////path/file.db` or `postgresql://...`; created if needed.
        program: The name of the program. Its processes on one repository run each other's undos,
            so they must have the same tools.
        runs: `here`: in threads of this process, which must not use DBOS otherwise. `elsewhere`:
            in another process of this host that runs `serve`; this process is only a client.

    Raises:
        UsageError: `runs` is neither.
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
        one_of(*UndoLocation)("runs", runs)
        self.runs = UndoLocation(runs)
        self._benches: dict[str, Bench] = {}
        self._queue = ""
        self._starting = threading.Lock()
        self._closing = threading.Event()
        self._client: DBOSClient | None = None
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
        """End threads and connections; a running undo stops after its current inverse."""
        self._closing.set()
        if self._undo is not None:
            DBOS.destroy()
        if self._client is not None:
            self._client.destroy()
        self._undo, self._client = None, None

    def bind(self, bench: Bench) -> "DbosRunner":
        """Return the engine of one session; nothing is started before the first undo.

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
        """Run the undos of all sessions of a repository while the block runs.

        Undos and rollbacks whose process is gone are taken over at the start and every `every_s`.

        Args:
            path: The root of the working tree.
            tools: The tools of the submitting program.
            policy: Decides which external inverses may run.
            host: Other things that they need, for example `secrets`.
            every_s: Seconds between two searches for undos whose process is gone.

        Raises:
            UsageError: the engine runs elsewhere, or other code uses DBOS in this process.
        """
        if self.runs is not UndoLocation.HERE:
            raise UsageError(
                "cannot serve: undos of this engine run in another process"
            )
        # Each undo has a session of its own, which is opened by its name.
        opening = Opening("worker", tools, None, policy or Policy(), host or Host())
        bench = opening.bench(path)
        self.bind(bench)
        self.client()
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
        client = self.client()
        with _translated():
            if self._undo is not None:
                with SetWorkflowID(op.id):
                    DBOS.start_workflow(self._undo, op.session, op.id)
                return
            options: EnqueueOptions = {
                "workflow_name": _WORKFLOW,
                "queue_name": self._queue,
                "workflow_id": op.id,
                "app_version": APPLICATION_VERSION,
                "serialization_type": WorkflowSerializationFormat.PORTABLE,
            }
            client.enqueue(options, op.session, op.id)

    def find(self, op_id: str) -> WorkflowStatus | None:
        """Return the workflow of an undo, or None."""
        client = self.client()
        with _translated():
            found = client.list_workflows(workflow_ids=[op_id])
        return found[0] if found else None

    def is_running(self, op_id: str) -> bool:
        """Whether a process has taken the workflow, even if it is gone since."""
        found = self.find(op_id)
        return found is not None and found.status == "PENDING"

    def proceed(self, op_id: str) -> None:
        """Let a process take the workflow again; its steps stay."""
        client = self.client()
        with _translated():
            client.resume_workflow(op_id, queue_name=self._queue)

    def forget(self, op_id: str) -> None:
        """Delete the workflow and its steps, if it exists."""
        client = self.client()
        # Nothing is lost: the steps that were completed are in the journal too.
        with _translated():
            client.delete_workflow(op_id)

    def client(self) -> DBOSClient:
        """Return the client of the database; start DBOS if undos run in this process.

        Raises:
            UsageError: other code uses DBOS in this process.
            EngineError: the database cannot be reached.
        """
        with self._starting, _translated():
            if self._client is None:
                self._client = self._opened()
            return self._client

    def _opened(self) -> DBOSClient:
        DBOS.migrate(self._url)
        client = DBOSClient(
            system_database_url=self._url, serializer=DBOSPortableJSONSerializer()
        )
        try:
            # Before the launch: DBOS sees a queue that is registered later only after a second.
            client.register_queue(self._queue, polling_interval_sec=_POLL_S)
            if self.runs is UndoLocation.HERE:
                self._launch()
        except BaseException:
            client.destroy()
            raise
        return client

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
            # No undo waits for a message, but closing waits for the listener.
            "notification_listener_polling_interval_sec": _POLL_S,
        }
        DBOS(config=config)
        # A process has one instance: the constructor returns the first one that was made.
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
            name=_WORKFLOW, serialization_type=WorkflowSerializationFormat.PORTABLE
        )
        def undo(session: str, op_id: str) -> JsonObject:
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
    """Run the undos of one session; see `CompensationEngine`."""

    engine: DbosEngine
    bench: Bench

    def submit(self, op: SagaOp) -> None:
        """Start the workflow of an undo, if it has none."""
        self.engine.start(op)

    def wait(self, op_id: str, timeout_s: float | None) -> UndoReport:
        """Wait until the report is in the journal, and return it.

        Raises:
            UndoPending: the time limit was reached.
            EngineError: the workflow failed or was cancelled, or there is none.
        """
        check_time = deadline(op_id, timeout_s)
        next_look = time.monotonic() + _LOOKS_S

        def check() -> None:
            nonlocal next_look
            check_time()
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + _LOOKS_S
                seen = self.engine.find(op_id)
                self._take_lost(op_id, seen.status if seen is not None else "gone")

        found = self.bench.report(op_id, check)
        # The workflow releases the session a moment after it has written the report.
        while not self.bench.is_free() and self.engine.is_running(op_id):
            check_time()
        return found

    def _take_lost(self, op_id: str, status: str) -> None:
        """Take over an undo whose process is gone, if undos run in this process.

        Raises:
            EngineError: no process will continue it.
        """
        if status == "PENDING" and self.engine.runs is UndoLocation.HERE:
            self.take_over()
        elif status not in _AT_WORK and self.bench.told(op_id) is None:
            raise EngineError(
                f"cannot carry out undo {op_id}: its workflow is {status}",
                hint="continue it with recover()",
            )

    def resume(self, op_id: str) -> None:
        """Restart the workflow of an undo; its completed steps are in the journal and stay."""
        self.engine.forget(op_id)
        for op in self.bench.unfinished():
            if op.id == op_id:
                self.engine.start(op)

    def recover(self) -> list[str]:
        """Continue or restart the workflows of the undos that have no report."""
        lost = self.bench.unfinished()
        for op in lost:
            found = self.engine.find(op.id)
            if found is not None and _can_continue(found):
                self.engine.proceed(op.id)
            else:
                self.engine.forget(op.id)
                self.engine.start(op)
        return [op.id for op in lost]

    def take_over(self) -> None:
        """Do as `recover`, for undos without a running process that need no person."""
        with suppress(SessionBusy), self.bench.idle() as lost:
            for op in lost:
                found = self.engine.find(op.id)
                if found is None:
                    self.engine.start(op)
                elif self.engine.is_running(op.id):
                    self.engine.proceed(op.id)


class _StepDriver(WorkerDriver):
    """Run an undo inside a workflow: a step that DBOS has recorded is not repeated."""

    def opened(self, procedure: Procedure[T]) -> Procedure[T]:
        return procedure

    def perform(self, command: Command) -> object:
        if not isinstance(command, Part):
            return super().perform(command)
        inner = WorkerDriver(self.runtime)
        return DBOS.run_step({"name": command.name}, inner.run, command.procedure)


def _queue_of(program: str, journal: str) -> str:
    """Return the queue of a program's undos in one repository of one host."""
    # One database may serve several hosts and repositories, but an undo runs only where its
    # journal is.
    place = f"{socket.gethostname()}:{os.path.realpath(journal)}"
    return f"gitshadow-{program}-{digest(place, _DIGEST_BYTES)}"


@contextmanager
def _translated() -> Iterator[None]:
    """Raise an error of DBOS or its database as `EngineError`."""
    try:
        yield
    except (dbos_error.DBOSException, SQLAlchemyError) as error:
        raise EngineError(
            f"cannot use DBOS: {error}",
            hint="a submitted undo is kept; to finish it here: git agent-undo program recover",
        ) from error


def _can_continue(found: WorkflowStatus) -> bool:
    """Whether DBOS would run a workflow again; it never runs one of another schema."""
    return found.status in _CAN_CONTINUE and found.app_version == APPLICATION_VERSION
