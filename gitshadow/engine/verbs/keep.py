"""prune, du: dropping whole sessions, and what the history costs.

Invariant: objects are never removed; refs and rows go, Git's own gc does the rest.
"""

from gitshadow.engine import forgetting, retention
from gitshadow.engine import params as read
from gitshadow.engine.desk import Desk
from gitshadow.engine.retention import Limits, Unit
from gitshadow.engine.rows import Row, rfc3339
from gitshadow.engine.usage import Scales, usage
from gitshadow.engine.verbs import Document, Params

_LOCK_S = 20.0


def prune(desk: Desk, params: Params) -> Document:
    """Drop sessions for good: whole ones, closed ones, never a pin.

    With `all` every session goes that is not open in an agent, the person's own too; else what
    `older_than`, `keep` and `size` leave no room for, or what the settings do (`retention`).
    """
    desk.observer.settle()
    going = _going(desk, params)
    dry = read.flag(params, "dry_run")
    if not dry:
        for _ in forgetting.forget(desk, going, wait_s=_LOCK_S):
            pass
    return {"dropped": [_row(unit) for unit in going], "dry_run": dry}


def _going(desk: Desk, params: Params) -> list[Unit]:
    ws = desk.workspace
    found = forgetting.units_of(ws)
    if read.flag(params, "all"):
        return retention.everything(found)
    limits = Limits(
        read.number(params, "older_than"),
        read.number(params, "keep"),
        read.number(params, "size"),
    )
    if read.flag(params, "retention"):
        limits = forgetting.limits_of(ws)
    return retention.beyond(found, limits, ws.clock.now_ns(), Scales(ws))


def _row(unit: Unit) -> Row:
    return {
        "id": unit.name,
        "sessions": list(unit.ids),
        "programs": list(unit.programs),
        "started": rfc3339(unit.started_ns),
    }


def du(desk: Desk, params: Params) -> Document:
    """Return what the history takes, session by session and in total."""
    del params
    ws = desk.workspace
    return usage(ws.layout, ws.git, ws.repo, ws.db)
