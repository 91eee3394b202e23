"""Journal what an undo is about to do, roll it back after a crash, and report it when repeated.

A crash leaves an op `applying`. If its commit was recorded it is finished; else each path that
still has what the op wrote gets its old content, and the others are kept. Who repeats a request
under the same id was killed before the answer came, and gets the report of the first op.
Invariant: a second rollback changes nothing. An op that is done never runs twice.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.messages.codec import decode
from gitshadow.messages.undo import FileUndoAnswer
from gitshadow.model import (
    TREE_MODE,
    FileVersion,
    Oid,
    Op,
    OpStatus,
    PathChange,
    RepoPath,
)
from gitshadow.store.files import TEMP_PREFIX, WorkFiles
from gitshadow.store.journal import events, ops
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.ops import OpStep as Written
from gitshadow.store.paths import UnsafePathError
from gitshadow.store.refs import display_path
from gitshadow.undo.apply import (
    Tools,
    directories_to_make,
    put_back,
    rmdir_quietly,
    set_modes,
    unlink_quietly,
)
from gitshadow.undo.plan import Plan
from gitshadow.undo.report import Action, Item, Report, State

# Directories are steps too: a rollback must know which of them the op made and which it removed.
_DIRECTORY = FileVersion(Oid(""), TREE_MODE)
_SHOWN = 3


class Recovery(NamedTuple):
    """What became of an op that a crash interrupted.

    `left` are paths that somebody changed since, `stuck` those that the system did not let us
    restore: the op stays `applying` and the next command tries again.
    """

    op: str
    finished: bool
    left: tuple[RepoPath, ...] = ()
    stuck: tuple[RepoPath, ...] = ()

    def sentence(self) -> str:
        """Return it for people."""
        if self.finished:
            return (
                f"op {self.op} was interrupted after its last step; it is now finished"
            )
        said = f"op {self.op} was interrupted and has been rolled back"
        if self.stuck:
            return f"{said}, but {_listed(self.stuck)} could not be restored yet"
        return f"{said}, but {_listed(self.left)} changed since" if self.left else said


def begin(db: Db, op: Op, plan: Plan, files: WorkFiles) -> None:
    """Write down an op and all its steps, before the first of them.

    Args:
        db: The journal.
        op: Its status is `applying`.
        plan: What is about to be done.
        files: Finds which directories will be made.
    """
    with db.write():
        ops.put(db, op)
        ops.plan_steps(db, op.id, _written(plan, files))


def finish(db: Db, op: str, commit: Oid | None, report: str | None) -> None:
    """End an op whose commit is recorded."""
    with db.write():
        ops.finish(db, op, OpStatus.DONE, commit=commit, report=report)


def recover(db: Db, worktree: str, tools: Tools) -> list[Recovery]:
    """Finish or roll back what a crash interrupted in a worktree, newest first.

    To be called under the writer lock, after the journal has caught up with the refs.
    """
    return [settle(db, op.id, tools) for op in reversed(ops.applying(db, worktree))]


def settle(db: Db, op: str, tools: Tools) -> Recovery:
    """Finish an op whose commit is recorded, roll any other back; the journal knows the refs."""
    # The journal has caught up with the refs before, so a row means that the commit was published:
    # everybody can see the undo, and it must not be rolled back.
    rows = events.changes(db, EventFilter(op=op, limit=1))
    if not rows:
        return roll_back(db, op, tools)
    drop_temps(ops.steps(db, op), tools.files)
    finish(db, op, rows[0].commit, None)
    return Recovery(op, finished=True)


def roll_back(db: Db, op: str, tools: Tools) -> Recovery:
    """Restore the earlier state of every path that still holds what an op wrote."""
    steps = ops.steps(db, op)
    drop_temps(steps, tools.files)
    paths = [step for step in steps if _DIRECTORY not in (step.before, step.after)]
    made = [step.path for step in steps if step.after == _DIRECTORY]
    swept = [step.path for step in steps if step.before == _DIRECTORY]
    put = _Back(tools)
    # Created files go first, or a directory that the op made would not be empty;
    # what the op deleted can only be written when its directory exists again.
    put.all([step for step in paths if step.before is None])
    for directory in reversed(made):
        tools.hook(f"unmake {directory!r}")
        rmdir_quietly(tools.files, directory)
    put.all([step for step in paths if step.before is not None])
    for directory in reversed(swept):
        tools.hook(f"remake {directory!r}")
        _remake(directory, tools)
    # With a path that could not be restored the op stays open, so the next command tries again.
    if not put.stuck:
        with db.write():
            ops.finish(db, op, OpStatus.ROLLED_BACK, commit=None, report=None)
    return Recovery(op, False, tuple(put.left), tuple(put.stuck))


def drop_temps(steps: Iterable[Written], files: WorkFiles) -> None:
    """Remove the temporary files that an interrupted op left in the directories of its paths."""
    for directory in {step.path.rpartition(b"/")[0] for step in steps}:
        try:
            entries = files.list(RepoPath(directory))
        except OSError:
            # There is no such directory, so nothing was left in it.
            continue
        for name, look in entries:
            # The name of a temporary file is random and not journaled, so all with our prefix go.
            if name.startswith(TEMP_PREFIX) and not look.is_dir:
                above = directory + b"/" if directory else b""
                unlink_quietly(files, RepoPath(above + name))


def _written(plan: Plan, files: WorkFiles) -> Iterator[Written]:
    index = 0
    for path, step in plan.steps.items():
        yield Written(index=index, path=path, before=step.before, after=step.after)
        index += 1
    for directory in directories_to_make(plan, files):
        yield Written(index=index, path=directory, before=None, after=_DIRECTORY)
        index += 1
    for directory in (*plan.clear, *plan.sweep):
        yield Written(index=index, path=directory, before=_DIRECTORY, after=None)
        index += 1


@dataclass(slots=True)
class _Back:
    tools: Tools
    left: list[RepoPath] = field(default_factory=list)
    stuck: list[RepoPath] = field(default_factory=list)

    def all(self, steps: Iterable[Written]) -> None:
        """Restore paths that still are what the op made of them."""
        for step in steps:
            self.tools.hook(f"back {step.path!r}")
            if any(self.tools.databases((step.path,)).values()):
                self.stuck.append(step.path)
                continue
            try:
                if not put_back(step.path, step.before, step.after, self.tools):
                    self.left.append(step.path)
            except UnsafePathError:
                self.left.append(step.path)
            except (OSError, StoreError):
                self.stuck.append(step.path)


def _listed(paths: Sequence[RepoPath]) -> str:
    shown = ", ".join(display_path(path) for path in paths[:_SHOWN])
    more = len(paths) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _remake(directory: RepoPath, tools: Tools) -> None:
    try:
        below = RepoPath(directory + b"/x")
        set_modes(tools.files.make_parents(below, tools.mode_of), tools)
    except (OSError, UnsafePathError):
        # Something else is there now, and it is kept.
        return


def report_of(db: Db, op_id: str) -> FileUndoAnswer | None:
    """Return the report of an op that is done; None where there is no such op.

    An op that a crash interrupted after its commit has no report: it is made from its rows.
    """
    op = ops.get(db, op_id)
    if op is None or op.status is not OpStatus.DONE:
        return None
    if op.report is not None:
        return decode(FileUndoAnswer, json.loads(op.report))
    rows = events.changes(db, EventFilter(op=op_id))
    return _told_by_rows(op, rows[::-1]).answer()


def _told_by_rows(op: Op, rows: list[PathChange]) -> Report:
    return Report(
        kind=op.kind,
        target=op.target,
        items=tuple(_item_of_row(row) for row in rows),
        token=op.token,
        op_id=op.id,
        commit=op.commit,
    )


def _item_of_row(row: PathChange) -> Item:
    if row.after is None:
        action = Action.DELETE
    else:
        action = Action.CREATE if row.before is None else Action.WRITE
    return Item(
        path=display_path(row.path),
        session=None,
        action=action,
        state=State.REVERSED,
        old_path=None if row.old_path is None else display_path(row.old_path),
    )
