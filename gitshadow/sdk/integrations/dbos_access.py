"""The way to DBOS's database: undos as workflows that are started, looked at and moved.

Invariant: what goes wrong there comes out as our own error.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dbos import (
    DBOSClient,
    EnqueueOptions,
    WorkflowSerializationFormat,
    WorkflowStatus,
)
from dbos import error as dbos_error
from sqlalchemy.exc import SQLAlchemyError

from gitshadow.sdk.turns.errors import EngineError
from gitshadow.store.journal.saga_rows import SagaOp
from gitshadow.store.journal.schema import VERSION

APPLICATION_VERSION = f"gitshadow-{VERSION}"
"""DBOS runs a workflow only under the version that it was started with: that of the journal."""
WORKFLOW = "gitshadow.undo"
_LOOKS_S = 0.25
AT_WORK = ("PENDING", "ENQUEUED", "DELAYED")
_CAN_GO_ON = (*AT_WORK, "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")


@dataclass(frozen=True, slots=True)
class Door:
    """Look at workflows and move them; an undo's id is its workflow's."""

    client: DBOSClient
    queue: str

    def enqueue(self, op: SagaOp) -> None:
        """Start the workflow of an undo in whichever process takes it."""
        options: EnqueueOptions = {
            "workflow_name": WORKFLOW,
            "queue_name": self.queue,
            "workflow_id": op.id,
            "app_version": APPLICATION_VERSION,
            "serialization_type": WorkflowSerializationFormat.PORTABLE,
        }
        with translated():
            self.client.enqueue(options, op.session, op.id)

    def find(self, op_id: str) -> WorkflowStatus | None:
        """Return the workflow of an undo, or None."""
        with translated():
            found = self.client.list_workflows(workflow_ids=[op_id])
        return found[0] if found else None

    def is_running(self, op_id: str) -> bool:
        """Tell whether a process has taken it, be it alive or not."""
        found = self.find(op_id)
        return found is not None and found.status == "PENDING"

    def go_on(self, op_id: str) -> None:
        """Have a process take it again; its steps stay."""
        with translated():
            self.client.resume_workflow(op_id, queue_name=self.queue)

    def forget(self, op_id: str) -> None:
        """Delete it and its steps, if it is there."""
        with translated():
            self.client.delete_workflow(op_id)


class WorkflowWatch:
    """Look now and then how a workflow is doing."""

    def __init__(self, door: Door, op_id: str) -> None:
        self._door = door
        self._op_id = op_id
        self._next = time.monotonic() + _LOOKS_S

    def is_due(self) -> bool:
        """Tell whether it is time to look again."""
        return time.monotonic() >= self._next

    def status(self) -> str:
        """Return DBOS's word for how it is doing."""
        self._next = time.monotonic() + _LOOKS_S
        found = self._door.find(self._op_id)
        return found.status if found is not None else "gone"


@contextmanager
def translated() -> Iterator[None]:
    """Say what went wrong with DBOS or its database in our own words."""
    try:
        yield
    except (dbos_error.DBOSException, SQLAlchemyError) as error:
        raise EngineError(
            f"cannot use DBOS: {error}",
            hint="a submitted undo is kept; to finish it here: git agent-undo recover",
        ) from error


def can_go_on(found: WorkflowStatus) -> bool:
    """Tell whether DBOS would run a workflow again; one of another schema is left for ever."""
    return found.status in _CAN_GO_ON and found.app_version == APPLICATION_VERSION
