"""Start-up: refs, objects and rows brought into agreement before anything else happens.

A crash between ref and row leaves commits without rows: they are replayed. A ref that is lost or
broken goes back to its last whole commit, with a gap row.
Invariant: after it every row has its commit and every tip is whole.
"""

from collections.abc import Collection, Sequence

from gitshadow.engine import vigil
from gitshadow.engine.desk import Desk
from gitshadow.engine.setup import root_worktree
from gitshadow.engine.workspace import Workspace
from gitshadow.errors import StoreError
from gitshadow.model import (
    GITLINK_MODE,
    Chain,
    EventKind,
    Oid,
)
from gitshadow.store.journal import events, meta, ops, prune, purge, sessions, state
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.repo import FORMAT_MARK

_GAPS = 200
_BOOT = "boot_id"
_BOOT_FILE = "/proc/sys/kernel/random/boot_id"


def mend(desk: Desk) -> None:
    """Bring journal and refs into agreement; root a worktree that has no tree yet."""
    ws = desk.workspace
    told = _check_tips(desk) if _rebooted(ws) else set[str]()
    _finish_forgetting(desk)
    _catch_up(desk, told)
    if ws.recorder.row.tree is None:
        root_worktree(ws)
    vigil.note_death(desk)
    finish_undo(desk)


def _finish_forgetting(desk: Desk) -> None:
    """Go on with a `purge` or `prune` that was interrupted; what it takes is imported only then."""
    if purge.under_way(desk.workspace.db) is not None:
        from gitshadow.engine import purging

        purging.finish(desk)
    if prune.under_way(desk.workspace.db) is not None:
        from gitshadow.engine import forgetting

        forgetting.finish(desk)


def repair(desk: Desk, *, deep: bool = False) -> None:
    """Check every tip whatever the journal thinks, and bring journal and refs into agreement.

    Args:
        desk: The worktree.
        deep: Whether what Git has packed is looked at too.
    """
    _catch_up(desk, _check_tips(desk, deep=deep))
    if desk.workspace.recorder.row.tree is None:
        root_worktree(desk.workspace)


def finish_undo(desk: Desk) -> None:
    """Finish or roll back an undo that was interrupted; undo is imported only then.

    Raises:
        StoreError, JournalError: that cannot be done now; the undo waits.
    """
    ws = desk.workspace
    if not ops.applying(ws.db, ws.layout.worktree):
        return
    from gitshadow.engine.undoing import UndoEngine
    from gitshadow.undo.run import recover

    recover(UndoEngine(desk, None))


def _catch_up(desk: Desk, told: Collection[str]) -> None:
    """Replay commits whose rows are missing; have the chains' rows follow their refs.

    Refs that were `told` of have their gap already.
    """
    ws = desk.workspace
    known = {chain.ref: chain for chain in sessions.chains(ws.db)}
    for ref in ws.repo.broken_refs(ws.repo.refs()):
        _mend_ref(desk, ref, known.get(ref))
    done = desk.pipeline.catch_up(told)
    if done.broken:
        _say_once(desk, [f"could not read {what}: {why}" for what, why in done.broken])


def _say_once(desk: Desk, notes: Sequence[str]) -> None:
    """Journal gaps that stay as they are until somebody mends the refs by hand."""
    gaps = EventFilter(kinds=[EventKind.GAP], limit=_GAPS)
    said = {row.note for row in events.rows(desk.workspace.db, gaps)}
    for note in notes:
        if note not in said:
            desk.pipeline.gap(note)


def _mend_ref(desk: Desk, ref: str, chain: Chain | None) -> None:
    """Set a ref whose file cannot be read to the last whole commit that the journal has."""
    repo = desk.workspace.repo
    whole = _last_whole(desk, chain.tip) if chain is not None else None
    if whole is None:
        repo.delete_ref(ref)
    else:
        repo.force_ref(ref, whole)
    desk.pipeline.gap(f"ref {ref} could not be read; it is as the journal has it")
    if chain is not None and whole != chain.tip:
        _forget_tree(desk.workspace)


# -- after power loss --------------------------------------------------------------------------


def _rebooted(ws: Workspace) -> bool:
    """Tell whether the machine started anew since the journal was last opened."""
    try:
        with open(_BOOT_FILE, encoding="ascii") as handle:
            boot = handle.read().strip()
    except OSError:
        return False
    known = meta.get(ws.db, _BOOT)
    if known != boot:
        with ws.db.write():
            meta.put(ws.db, _BOOT, boot)
    return known is not None and known != boot


def _check_tips(desk: Desk, *, deep: bool = False) -> set[str]:
    """Move each ref whose newest objects were lost back to its last whole commit; return those."""
    repo = desk.workspace.repo
    moved: set[str] = set()
    for ref, tip in repo.refs().items():
        whole = _last_whole(desk, tip, deep=deep)
        if whole == tip:
            continue
        moved.add(ref)
        if whole is None:
            repo.delete_ref(ref)
        else:
            repo.force_ref(ref, whole)
        how = "" if deep else " with the power"
        desk.pipeline.gap(
            f"objects of {ref} were lost{how}; it went back to its last whole commit"
        )
    if moved:
        repo.remove_empty_objects()
        _forget_tree(desk.workspace)
    return moved


def _last_whole(desk: Desk, tip: Oid, *, deep: bool = False) -> Oid | None:
    """Return the newest commit of a chain all of whose objects can be read, down to its root.

    What Git has packed was synced then, so nothing below a packed commit is looked at, unless
    `deep` asks for it.
    """
    repo = desk.workspace.repo
    whole: Oid | None = None
    at: Oid | None = tip
    while at is not None:
        try:
            info = repo.commit(at)
        except StoreError:
            at, whole = _parent_of_broken(desk, at), None
            continue
        if FORMAT_MARK not in info.message:  # the user's own: the chain ended above
            break
        parent = info.parents[0] if info.parents else None
        if not _is_whole(desk, info.tree, parent):
            whole = None
        elif whole is None:
            whole = at
        if not deep and not repo.is_loose(at):
            break
        at = parent
    return whole


def _parent_of_broken(desk: Desk, oid: Oid) -> Oid | None:
    """Return the commit before one that cannot be read, as the journal tells it."""
    return events.commit_before(desk.workspace.db, oid)


def _is_whole(desk: Desk, tree: Oid, parent: Oid | None) -> bool:
    """Tell whether everything that a commit adds to its parent can be read."""
    repo = desk.workspace.repo
    try:
        base = repo.commit(parent).tree if parent is not None else None
        for change in repo.diff(base, tree):
            if change.new is not None and change.new[0] != GITLINK_MODE:
                repo.read_blob(change.new[1])
    except StoreError:
        return False
    return True


def _forget_tree(ws: Workspace) -> None:
    """Have the worktree rooted anew: what was recorded of it may be lost."""
    with ws.states.consistent(), ws.db.write():
        state.clear(ws.db, ws.layout.worktree)
    ws.repo.trees.forget()
    ws.states.forget()
    ws.recorder.reset()
