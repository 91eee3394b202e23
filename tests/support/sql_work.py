"""How much a journal does: the statements that run, and the steps that SQLite takes for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gitshadow.store.journal.db import Db


@dataclass(slots=True)
class SqlWork:
    """What ran in a block; `steps` are tens of instructions of SQLite's virtual machine."""

    statements: list[str] = field(default_factory=list)
    steps: int = 0

    def step(self) -> int:
        """Count ten instructions; 0 lets the statement go on."""
        self.steps += 1
        return 0


@contextmanager
def counted_sql(db: Db) -> Iterator[SqlWork]:
    """Count what a journal does in a block."""
    work = SqlWork()
    db._connection.set_trace_callback(work.statements.append)
    db._connection.set_progress_handler(work.step, 10)
    try:
        yield work
    finally:
        db._connection.set_trace_callback(None)
        db._connection.set_progress_handler(None, 0)
