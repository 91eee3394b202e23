"""Start-up: refs, objects and rows brought into agreement before anything else happens.

A crash between ref and row leaves commits without rows: they are replayed. A ref that is lost or
broken goes back to its last whole commit, with a gap row.
Invariant: after it every row has its commit and every tip is whole.
"""

from collections.abc import Collection, Sequence

from gitshadow.maintenance import shutdown_marker
from gitshadow.maintenance.object_check import make_whole
from gitshadow.maintenance.ref_locks import drop_left
from gitshadow.maintenance.setup import root_worktree
from gitshadow.model import EventKind
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import (
    corrections,
    events,
    meta,
    ops,
    prune,
    purge,
    sessions,
)
from gitshadow.store.journal.events import EventFilter

_GAPS = 200
_BOOT = "boot_id"
_BOOT_FILE = "/proc/sys/kernel/random/boot_id"


def mend(context: RecorderContext) -> None:
    """Bring journal and refs into agreement; root a worktree that has no tree yet."""
    ws = context.workspace
    drop_left(ws)
    told = _after_power_loss(context) if _rebooted(ws) else make_whole(context)
    _finish_forgetting(context)
    _catch_up(context, told)
    _root(context, told)
    shutdown_marker.note_death(context)
    finish_undo(context)


def _finish_forgetting(context: RecorderContext) -> None:
    """Go on with a `purge` or `prune` that was interrupted; what it takes is imported only then."""
    if purge.under_way(context.workspace.db) is not None:
        from gitshadow.maintenance import purge as purging

        purging.finish(context)
    if prune.under_way(context.workspace.db) is not None:
        from gitshadow.maintenance import prune as forgetting

        forgetting.finish(context)


def repair(context: RecorderContext, *, deep: bool = False) -> None:
    """Check every tip whatever the journal thinks, and bring journal and refs into agreement.

    Args:
        context: The worktree.
        deep: Whether what Git has packed is looked at too.
    """
    told = make_whole(context, thorough=True, deep=deep)
    _catch_up(context, told)
    _root(context, told)


def _root(context: RecorderContext, told: Collection[str]) -> None:
    """Root a worktree that has no tree, and sessions whose chain is lost while rows are left.

    Such rows are on chains of others, and were corrected; without a baseline of their session the
    refs alone would not give them back.
    """
    ws = context.workspace
    if ws.recorder.row.tree is None:
        root_worktree(ws)
    for name in corrections.owners_without_chain(ws.db) if told else ():
        session = sessions.get(ws.db, name)
        if session is not None:
            ws.recorder.ensure_baseline(session)


def finish_undo(context: RecorderContext) -> None:
    """Finish or roll back an undo that was interrupted; undo is imported only then.

    Raises:
        StoreError, JournalError: that cannot be done now; the undo waits.
    """
    ws = context.workspace
    if not ops.applying(ws.db, ws.layout.worktree):
        return
    from gitshadow.undo.engine import UndoEngine
    from gitshadow.undo.run import recover

    recover(UndoEngine(context, None))


def _catch_up(context: RecorderContext, told: Collection[str]) -> None:
    """Replay commits whose rows are missing; have the chains' rows follow their refs.

    Refs that were `told` of have their gap already.
    """
    done = context.pipeline.catch_up(told)
    if done.broken:
        _say_once(
            context, [f"could not read {what}: {why}" for what, why in done.broken]
        )


def _say_once(context: RecorderContext, notes: Sequence[str]) -> None:
    """Journal gaps that stay as they are until somebody mends the refs by hand."""
    gaps = EventFilter(kinds=[EventKind.GAP], limit=_GAPS)
    said = {row.note for row in events.rows(context.workspace.db, gaps)}
    for note in notes:
        if note not in said:
            context.pipeline.gap(note)


def _rebooted(ws: Workspace) -> bool:
    """Whether the machine started since this was last asked and all was whole."""
    known = meta.get(ws.db, _BOOT)
    if known is None:
        _remember_boot(ws)
    return known is not None and known != _boot()


def _after_power_loss(context: RecorderContext) -> set[str]:
    """Test all that the power may have taken; the boot counts as seen when that is done."""
    moved = make_whole(context, thorough=True, power=True)
    _remember_boot(context.workspace)
    return moved


def _remember_boot(ws: Workspace) -> None:
    boot = _boot()
    if boot is not None:
        with ws.db.write():
            meta.put(ws.db, _BOOT, boot)


def _boot() -> str | None:
    try:
        with open(_BOOT_FILE, encoding="ascii") as handle:
            return handle.read().strip()
    except OSError:
        return None
