"""pin, pins, unpin: named snapshots, kept whatever retention does."""

import re

from gitshadow.errors import UsageError
from gitshadow.messages.lists import (
    PinAnswer,
    PinRequest,
    PinRow,
    PinsAnswer,
    PinsRequest,
    UnpinAnswer,
    UnpinRequest,
)
from gitshadow.model import micro
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.store import refs
from gitshadow.store.journal import pins as journal
from gitshadow.store.journal.pins import Pin

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,35}")


def pin(context: RecorderContext, request: PinRequest) -> PinAnswer:
    """Name the present state of the working tree."""
    name = request.name
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"cannot use {name!r} as a pin name",
            hint="use letters, digits, dots, dashes and underscores, at most 36",
        )
    ws = context.workspace
    context.observer.settle()
    ref = refs.pin_ref(name)
    taken = {one.ref for one in journal.list_pins(ws.db)}
    if journal.get(ws.db, name) is not None or ref in taken:
        raise UsageError(
            f"cannot pin {name}: a pin with that name exists",
            hint=f"git agent-undo unpin {name}",
        )
    now_ns = micro(ws.clock.now_ns())
    commit = ws.recorder.publish_pin(name, ref, now_ns)
    row = Pin(
        name=name, ref=ref, commit=commit, worktree=ws.layout.worktree, ts_ns=now_ns
    )
    # The ref is there first: after a crash here, `reindex` finds the pin in the refs.
    with ws.db.write():
        journal.put(ws.db, row)
    return PinAnswer(name, commit, ref, rfc3339(now_ns))


def pins(context: RecorderContext, request: PinsRequest) -> PinsAnswer:
    """Return the pins, newest first."""
    found = journal.list_pins(context.workspace.db)
    return PinsAnswer(
        tuple(
            PinRow(one.name, one.commit, one.ref, one.worktree, rfc3339(one.ts_ns))
            for one in found
        )
    )


def unpin(context: RecorderContext, request: UnpinRequest) -> UnpinAnswer:
    """Delete a pin; no file changes."""
    ws = context.workspace
    name = request.name
    known = journal.get(ws.db, name)
    if known is None:
        raise UsageError(f"cannot find pin {name}", hint="git agent-undo pins")
    with ws.db.write():
        journal.drop(ws.db, name)
    ws.repo.delete_ref(known.ref)
    return UnpinAnswer(name, deleted=True)
