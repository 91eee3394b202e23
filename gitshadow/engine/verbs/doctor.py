"""doctor: what is wrong with the recording of this worktree, and what of it could be mended."""

import os
from contextlib import suppress

from gitshadow.engine import params as read
from gitshadow.engine.desk import Desk
from gitshadow.engine.examining import examine, missing, stale_locks
from gitshadow.engine.mending import finish_undo, repair
from gitshadow.engine.verbs import Document, Params
from gitshadow.errors import JournalError, StoreError


def doctor(desk: Desk, params: Params) -> Document:
    """Examine everything; with `fix` mend first what can be mended."""
    mended = _mend(desk) if read.flag(params, "fix") else []
    desk.observer.settle()
    rows = [
        {"name": c.name, "ok": c.ok, "message": c.message, "remedy": c.remedy}
        for c in examine(desk)
    ]
    return {"checks": rows, "mended": mended}


def _mend(desk: Desk) -> list[str]:
    ws, done = desk.workspace, list[str]()
    for path in stale_locks(ws):
        with suppress(FileNotFoundError):
            os.unlink(path)
            done.append(f"removed {os.path.basename(path)}, which nobody held")
    before = ws.repo.refs()
    deep = bool(_missing(desk))
    repair(desk, deep=deep)
    after = ws.repo.refs()
    for ref in sorted(before.keys() - after.keys()):
        done.append(f"dropped {ref}: nothing of it could be read")
    for ref in sorted(before.keys() & after.keys()):
        if before[ref] != after[ref]:
            done.append(f"{ref} went back to its last whole commit")
    with suppress(StoreError, JournalError):  # it is named again by the examination
        finish_undo(desk)
    return done


def _missing(desk: Desk) -> bool:
    try:
        return bool(missing(desk.workspace))
    except StoreError:
        return True
