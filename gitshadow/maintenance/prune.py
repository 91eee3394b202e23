"""Prune: the chosen sessions are deleted in small steps; a crash leaves nothing half deleted.

Tombstones first, then refs, then rows. What Git has of it goes with the user's next gc: packs of
ours that hold any of it lose their `.keep`, and nothing else is done to objects.
Invariant: the journal names no object that only a dropped ref held.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from gitshadow.errors import LockedError, StoreError
from gitshadow.maintenance.retention import RetentionLimits, RetentionUnit, units
from gitshadow.model import Chain, Oid
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.sharing.remotes import is_ours
from gitshadow.store import artifacts, marks
from gitshadow.store.git import Git
from gitshadow.store.journal import corrections, pins, sessions, state
from gitshadow.store.journal import prune as journal
from gitshadow.store.layout import pages_about
from gitshadow.store.lock import WriterLock
from gitshadow.store.packs import Packer
from gitshadow.store.refs import exposed_ref

_ROWS = 2_000
_Chains = dict[str, list[Chain]]


def forget(
    context: RecorderContext, going: Sequence[RetentionUnit], *, wait_s: float
) -> Iterator[None]:
    """Drop units; every step between two `yield`s is short.

    Raises:
        LockedError: somebody packs here and did not end in time; nothing was dropped.
        StoreError, JournalError: it stopped there; `finish` goes on.
    """
    ws = context.workspace
    ids = [one for unit in going for one in unit.ids]
    programs = [one for unit in going for one in unit.programs]
    if not ids and not programs:
        return
    packer = Packer(ws.layout, Git(ws.layout, dict(ws.environ)))
    # A packer that is at work could put dropped objects into a new pack of ours, and Git's gc
    # keeps those.
    with packer.alone(wait_s):
        chains = {one: sessions.chains_of(ws.db, one) for one in ids}
        now_ns = ws.clock.now_ns()
        with ws.db.write():
            # Tombstones before refs: the start-up repair would take a ref that is gone without one
            # for damage.
            journal.begin(ws.db, programs)
            for one in ids:
                journal.bury(ws.db, one, now_ns, chains[one])
        _release(ws, packer, chains, programs)
        _drop_refs(ws, chains)
    yield
    yield from _drop_rest(context, ids, programs)


def finish(context: RecorderContext) -> None:
    """Go on with what a crash interrupted."""
    ws = context.workspace
    programs = journal.under_way(ws.db)
    if programs is None:
        return
    ids = journal.buried(ws.db)
    chains = {one: sessions.chains_of(ws.db, one) for one in ids}
    packer = Packer(ws.layout, Git(ws.layout, dict(ws.environ)))
    # If somebody packs, the old packs keep these objects for now; the refs go all the same.
    with suppress(LockedError), packer.alone(0.0):
        _release(ws, packer, chains, programs)
    _drop_refs(ws, chains)
    for _ in _drop_rest(context, ids, programs):
        pass


def units_of(ws: Workspace) -> list[RetentionUnit]:
    """Return what there is to forget, oldest first."""
    known, programs = sessions.all_sessions(ws.db), journal.programs(ws.db)
    held = corrections.held(ws.db)
    return units(known, programs, pins.list_pins(ws.db), ws.clock.now_ns(), held)


def refs_of(ws: Workspace, going: Sequence[RetentionUnit]) -> list[str]:
    """Return the refs that go with units."""
    chains = (sessions.chains_of(ws.db, one) for unit in going for one in unit.ids)
    own = [chain.ref for found in chains for chain in found]
    programs = (name for unit in going for name in unit.programs)
    return [*own, *(artifacts.artifact_ref(name) for name in programs)]


def limits_of(ws: Workspace) -> RetentionLimits:
    """Return the limits of the settings."""
    config = ws.config
    return RetentionLimits(
        config.retention_age_ns, config.retention_count, config.retention_size_bytes
    )


def _release(
    ws: Workspace, packer: Packer, chains: _Chains, programs: Sequence[str]
) -> None:
    """Give Git the packs that contain anything of it."""
    commits = {chain.tip for found in chains.values() for chain in found}
    for name in chains:
        commits.update(Oid(oid) for oid in journal.commits_of(ws.db, name))
    for name in programs:
        tip = ws.repo.ref(artifacts.artifact_ref(name))
        commits.update(one.oid for one in (ws.repo.chain(tip) if tip else ()))
    for pack in packer.packs.ours():
        with suppress(StoreError):
            if packer.packs.holds_any(pack, commits):
                packer.packs.release(pack)


def _drop_refs(ws: Workspace, chains: _Chains) -> None:
    for found in chains.values():
        for chain in found:
            shown = ws.repo.ref(exposed_ref(chain.ref))
            if shown is not None and is_ours(ws.repo, shown):
                ws.repo.delete_ref(exposed_ref(chain.ref))
            if ws.repo.ref(chain.ref) is not None:
                ws.repo.delete_ref(chain.ref)
    for page in pages_about(ws.layout, frozenset(chains)):
        with suppress(OSError):
            os.unlink(page)
    # Refs before rows: commits whose rows are missing are replayed at the next start.
    with ws.db.write():
        for session in chains:
            journal.drop_chains(ws.db, session)


def _drop_rest(
    context: RecorderContext, ids: Sequence[str], programs: Sequence[str]
) -> Iterator[None]:
    ws = context.workspace
    for session in ids:
        gone = False
        while not gone:
            with ws.db.write():
                # Few rows per transaction, so that the daemon can answer requests in between.
                gone = journal.drop_some(ws.db, session, _ROWS)
            yield
    for name in programs:
        with ws.db.write():
            journal.drop_program(ws.db, name)
        ref = artifacts.artifact_ref(name)
        if ws.repo.ref(ref) is not None:
            ws.repo.delete_ref(ref)
        yield
    _tidy(context)
    with ws.db.write():
        journal.end(ws.db)


def _tidy(context: RecorderContext) -> None:
    """Drop marks, caches and states that name deleted sessions."""
    ws = context.workspace
    marks.drop_orphans(ws.repo, journal.tombstones(ws.db))
    context.claimant.forget()
    ws.repo.refresh()
    for row in state.worktrees(ws.db):
        if _is_held(ws, row.tree):
            continue
        if row.id == ws.layout.worktree:
            with ws.db.write():
                ws.states.take_out()
        else:
            _take_out_elsewhere(ws, row.id)


def _is_held(ws: Workspace, tree: Oid | None) -> bool:
    """Return whether a live ref or HEAD holds exactly what a worktree held last."""
    if tree is None:
        return True
    held = {chain.tree for chain in sessions.chains(ws.db)}
    _, head = ws.repo.head()
    if head is not None:
        held.add(ws.repo.commit(head).tree)
    return tree in held


def _take_out_elsewhere(ws: Workspace, worktree: str) -> None:
    """Drop the file states of another worktree, unless its daemon runs and checks them itself."""
    lock = WriterLock(os.path.join(ws.layout.state_dir, "wt", worktree, "lock"))
    try:
        lock.acquire(0)
    except (LockedError, OSError):
        return
    with lock, ws.db.write():
        state.drop_states(ws.db, worktree)
