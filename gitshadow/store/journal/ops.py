"""Ops: recorded restores, and the write-ahead steps of one that is being applied.

Invariant: an op is `applying` from before its first change of a file until its commit is published
or everything it did was rolled back.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gitshadow.model import FileVersion, Oid, Op, OpKind, OpStatus, RepoPath
from gitshadow.store.journal.db import Db, Row, micro

_COLUMNS = (
    "id, kind, ts_ns, worktree, session, target, undoes, status, token, commit_oid,"
    " report"
)
_SELECT = f"SELECT {_COLUMNS} FROM ops"
_PUT = f"INSERT OR REPLACE INTO ops ({_COLUMNS}) VALUES ({', '.join('?' * 11)})"
_STEPS = (
    "SELECT idx, path, before_oid, before_mode, after_oid, after_mode, temp, done"
    " FROM op_steps WHERE op = ? ORDER BY idx"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpStep:
    """Hold one planned change of one path, written down before it is made."""

    index: int
    path: RepoPath
    before: FileVersion | None
    after: FileVersion | None
    temp: RepoPath | None = None
    done: bool = False


class EndedOps(NamedTuple):
    """Say how many ops are done, and when the newest of them was begun."""

    done: int
    newest_ns: int


def put(db: Db, op: Op) -> None:
    """Store an op, new or changed; call it inside `db.write()`."""
    values = (
        op.id,
        op.kind.value,
        micro(op.ts_ns),
        op.worktree,
        op.session,
        op.target,
        json.dumps(op.undoes),
        op.status.value,
        op.token,
        op.commit,
        op.report,
    )
    db.run(_PUT, values)


def get(db: Db, op: str) -> Op | None:
    """Return an op, or None."""
    row = db.row(f"{_SELECT} WHERE id = ?", (op,))
    return None if row is None else _op(row)


def by_prefix(db: Db, prefix: str) -> list[Op]:
    """Return the ops whose id begins so; an exact id stands alone."""
    exact = db.rows(f"{_SELECT} WHERE id = ?", (prefix,))
    rows = exact or db.rows(
        f"{_SELECT} WHERE substr(id, 1, length(?1)) = ?1 ORDER BY ts_ns", (prefix,)
    )
    return [_op(row) for row in rows]


def list_ops(db: Db, worktree: str | None = None) -> list[Op]:
    """Return the ops (of one worktree), newest first."""
    sql = f"{_SELECT} WHERE ?1 IS NULL OR worktree = ?1 ORDER BY ts_ns DESC, id DESC"
    return [_op(row) for row in db.rows(sql, (worktree,))]


def done_in_order(db: Db, worktree: str | None = None) -> list[Op]:
    """Return the finished ops, newest first: by their rows, whatever the clock said."""
    sql = (
        f"{_SELECT} WHERE status = 'done' AND (?1 IS NULL OR worktree = ?1)"
        " ORDER BY (SELECT max(seq) FROM events WHERE op = ops.id) DESC, ts_ns DESC"
    )
    return [_op(row) for row in db.rows(sql, (worktree,))]


def ended(db: Db) -> EndedOps:
    """Return which ops have ended; it differs whenever one more has."""
    row = db.row("SELECT count(*), max(ts_ns) FROM ops WHERE status = 'done'")
    return EndedOps(0, 0) if row is None else EndedOps(int(row[0]), int(row[1] or 0))


def applying(db: Db, worktree: str) -> list[Op]:
    """Return the ops that a crash interrupted, oldest first."""
    rows = db.rows(
        f"{_SELECT} WHERE worktree = ? AND status = ? ORDER BY ts_ns",
        (worktree, OpStatus.APPLYING.value),
    )
    return [_op(row) for row in rows]


def finish(
    db: Db, op: str, status: OpStatus, *, commit: Oid | None, report: str | None
) -> None:
    """End an op and forget its steps; call it inside `db.write()`."""
    db.run(
        "UPDATE ops SET status = ?, commit_oid = COALESCE(?, commit_oid), report = ?"
        " WHERE id = ?",
        (status.value, commit, report, op),
    )
    db.run("DELETE FROM op_steps WHERE op = ?", (op,))


def plan_steps(db: Db, op: str, steps: Iterable[OpStep]) -> None:
    """Write down what an op is about to do; call it inside `db.write()`."""
    rows = [
        (
            op,
            step.index,
            step.path,
            step.before.oid if step.before else None,
            step.before.mode if step.before else None,
            step.after.oid if step.after else None,
            step.after.mode if step.after else None,
            step.temp,
            int(step.done),
        )
        for step in steps
    ]
    db.run_many("INSERT OR REPLACE INTO op_steps VALUES (?,?,?,?,?,?,?,?,?)", rows)


def mark_step(db: Db, op: str, index: int) -> None:
    """Note that a step was made; call it inside `db.write()`."""
    db.run("UPDATE op_steps SET done = 1 WHERE op = ? AND idx = ?", (op, index))


def steps(db: Db, op: str) -> list[OpStep]:
    """Return the steps of an op, in order."""
    return [
        OpStep(
            index=row[0],
            path=RepoPath(row[1]),
            before=FileVersion(row[2], row[3]) if row[2] is not None else None,
            after=FileVersion(row[4], row[5]) if row[4] is not None else None,
            temp=RepoPath(row[6]) if row[6] is not None else None,
            done=row[7] != 0,
        )
        for row in db.rows(_STEPS, (op,))
    ]


def _op(row: Row) -> Op:
    return Op(
        id=row[0],
        kind=OpKind(row[1]),
        ts_ns=row[2],
        worktree=row[3],
        session=row[4],
        target=row[5],
        undoes=tuple(json.loads(row[6])),
        status=OpStatus(row[7]),
        token=row[8],
        commit=row[9],
        report=row[10],
    )
