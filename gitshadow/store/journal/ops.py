"""Ops: recorded restores, and the write-ahead steps of one that is being applied.

An op is `applying` from before its first change of a file until its commit is published or
everything it did was rolled back, so a crash at any point leaves a row that says what to repair.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from gitshadow.model import FileVersion, Oid, Op, OpStatus, RepoPath
from gitshadow.store.journal.db import Db, Table, version_cells

_OPS = Table("ops", Op, renamed={"commit": "commit_oid"}, micro_ns="ts_ns")
put, get = _OPS.put, _OPS.finder("id")
by_prefix = partial(_OPS.by_prefix, order="ORDER BY ts_ns")
_STEPS = (
    "SELECT idx, path, before_oid, before_mode, after_oid, after_mode"
    " FROM op_steps WHERE op = ? ORDER BY idx"
)
_PUT_STEP = (
    "INSERT OR REPLACE INTO op_steps"
    " (op, idx, path, before_oid, before_mode, after_oid, after_mode)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpStep:
    """One planned change of one path, journaled before it is made."""

    index: int
    path: RepoPath
    before: FileVersion | None
    after: FileVersion | None


class EndedOps(NamedTuple):
    """How many ops are done, and when the newest of them began."""

    done: int
    newest_ns: int


def list_ops(db: Db) -> list[Op]:
    """Return the ops, newest first."""
    return _OPS.rows(db, "ORDER BY ts_ns DESC, id DESC")


def done_in_order(db: Db, worktree: str | None = None) -> list[Op]:
    """Return the finished ops, newest first."""
    # By the numbers of their rows: a clock that was set back would make an older op the newest.
    return _OPS.rows(
        db,
        "WHERE status = 'done' AND (?1 IS NULL OR worktree = ?1)"
        " ORDER BY (SELECT max(seq) FROM events WHERE op = ops.id) DESC, ts_ns DESC",
        worktree,
    )


def ended(db: Db) -> EndedOps:
    """Return which ops have ended; it differs whenever one more has."""
    # Number and newest time together differ after every undo, so callers can keep what they derived
    # from the ops until then.
    row = db.row("SELECT count(*), max(ts_ns) FROM ops WHERE status = 'done'")
    return EndedOps(0, 0) if row is None else EndedOps(int(row[0]), int(row[1] or 0))


def applying(db: Db, worktree: str) -> list[Op]:
    """Return the ops that a crash interrupted, oldest first."""
    return _OPS.rows(
        db,
        "WHERE worktree = ? AND status = ? ORDER BY ts_ns",
        worktree,
        OpStatus.APPLYING.value,
    )


def finish(
    db: Db, op: str, status: OpStatus, *, commit: Oid | None, report: str | None
) -> None:
    """End an op and forget its steps; call it inside `db.write()`."""
    db.run(
        "UPDATE ops SET status = ?, commit_oid = COALESCE(?, commit_oid), report = ?"
        " WHERE id = ?",
        (status.value, commit, report, op),
    )
    # In the same transaction as the status: steps without an `applying` op would be rolled back by
    # nobody, and an `applying` op without steps would look as if it had changed nothing.
    db.run("DELETE FROM op_steps WHERE op = ?", (op,))


def plan_steps(db: Db, op: str, steps: Iterable[OpStep]) -> None:
    """Write down what an op is about to do; call it inside `db.write()`."""
    rows = [
        (
            op,
            step.index,
            step.path,
            *version_cells(step.before),
            *version_cells(step.after),
        )
        for step in steps
    ]
    db.run_many(_PUT_STEP, rows)


def steps(db: Db, op: str) -> list[OpStep]:
    """Return the steps of an op, in order."""
    return [
        OpStep(
            index=row[0],
            path=RepoPath(row[1]),
            before=None if row[2] is None else FileVersion(row[2], row[3]),
            after=None if row[4] is None else FileVersion(row[4], row[5]),
        )
        for row in db.rows(_STEPS, (op,))
    ]
