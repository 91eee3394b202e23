"""doctor: what is wrong with the recording of this worktree, and what could be repaired."""

import os
from collections.abc import Callable
from contextlib import suppress

from gitshadow.errors import JournalError, LockedError, StoreError
from gitshadow.maintenance.diagnostics import FIX, MENDING, RECORDING, examine, missing
from gitshadow.maintenance.startup_repair import finish_undo, outwait, ref_locks, repair
from gitshadow.messages.status import CheckRow, DoctorAnswer, DoctorRequest
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import events
from gitshadow.words import counted

_PATIENCE_S = 2.0


def doctor(context: RecorderContext, request: DoctorRequest) -> DoctorAnswer:
    """Check everything; with `fix`, repair first what can be repaired."""
    stuck: list[CheckRow] = []
    mended = _mend(context, stuck) if request.fix else []
    _tried(context.observer.settle, RECORDING, stuck)
    return DoctorAnswer(tuple(examine(context, stuck)), tuple(mended))


def _tried(work: Callable[[], object], name: str, stuck: list[CheckRow]) -> None:
    """Do one thing; make a failure a finding."""
    # One failure must not hide the other findings, so it does not end the examination.
    try:
        work()
    except (StoreError, LockedError) as error:
        remedy = f"{error.hint}; then {FIX}" if error.hint not in (None, FIX) else FIX
        stuck.append(CheckRow(name, False, error.message, remedy))


def _mend(context: RecorderContext, stuck: list[CheckRow]) -> list[str]:
    ws, done = context.workspace, list[str]()
    # A young lock may belong to a git command that still runs: give it time to end.
    outwait(ws, _PATIENCE_S)
    for lock in ref_locks(ws):
        if lock.is_stale:
            with suppress(FileNotFoundError):
                os.unlink(lock.path)
                done.append(f"removed {os.path.basename(lock.path)}, a stale lock")
    before, broken = ws.repo.refs(), ws.repo.loose.all_broken()
    deep = _missing(context)
    _tried(lambda: repair(context, deep=deep), MENDING, stuck)
    after = ws.repo.refs()
    good = len([oid for oid in broken if not ws.repo.loose.is_broken(oid)])
    if good:
        done.append(f"rewrote or removed {counted(good, 'broken object')}")
    for ref in sorted(before.keys() - after.keys()):
        done.append(f"deleted {ref}: it could not be read")
    for ref in sorted(before.keys() & after.keys()):
        if before[ref] != after[ref]:
            done.append(f"{ref} was reset to its last complete commit")
    # An undo that cannot be finished is a finding of the examination that follows.
    with suppress(StoreError, JournalError):
        finish_undo(context)
    with ws.db.write():
        fresh = events.see_gaps(ws.db)
    if fresh:
        said = counted(len(fresh), "gap")
        done.append(f"marked {said} as seen: missed changes can no longer be recorded")
    return done


def _missing(context: RecorderContext) -> bool:
    try:
        return bool(missing(context.workspace))
    except StoreError:
        return True
