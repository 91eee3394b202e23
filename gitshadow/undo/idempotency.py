"""An undo that is asked for a second time under its own id: what it did, and nothing more.

Whoever asks again was killed before the answer came, and cannot know how far it got.
Invariant: an op that is done is never carried out twice.
"""

import json

from gitshadow.model import Event, Op, OpStatus, RepoPath
from gitshadow.store.journal import events, ops
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.refs import display_path
from gitshadow.undo.report import Action, Item, Report, State, from_json


def report_of(db: Db, op_id: str) -> Report | None:
    """Return the report of an op that is done; None where there is no such op.

    One that a crash interrupted after its commit has no report of its own: it is told by its rows.

    Raises:
        JournalError: its report cannot be read.
    """
    op = ops.get(db, op_id)
    if op is None or op.status is not OpStatus.DONE:
        return None
    if op.report is not None:
        return from_json(json.loads(op.report))
    rows = events.rows(db, EventFilter(op=op_id))
    return _told_by_rows(op, rows[::-1])


def _told_by_rows(op: Op, rows: list[Event]) -> Report:
    return Report(
        kind=op.kind,
        target=op.target,
        items=tuple(_item(row, row.path) for row in rows if row.path is not None),
        token=op.token,
        op_id=op.id,
        commit=op.commit,
    )


def _item(row: Event, path: RepoPath) -> Item:
    if row.after is None:
        action = Action.DELETE
    else:
        action = Action.CREATE if row.before is None else Action.WRITE
    return Item(
        path=display_path(path),
        session=None,
        action=action,
        state=State.REVERSED,
        old_path=None if row.old_path is None else display_path(row.old_path),
    )
