"""Repair refs, objects and rows after a crash, before anything else happens.

A crash between ref and row leaves commits without rows: they are replayed. A ref that is lost or
broken is reset to its last whole commit, with a gap row. A daemon that was killed leaves its
marker, which becomes a gap. Git and libgit2 create `<ref>.lock` for the moment in which they write
a ref; a killed process leaves it, and nobody can write the ref until it is removed.
Invariant: afterwards every row has its commit and every tip is whole. The marker is read under the
writer lock, so it belongs to no living daemon. A lock is removed only if it is old, or if no
process has it open and no git runs in this repository.
"""

import os
import time
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from gitshadow.errors import ShadowError
from gitshadow.maintenance.object_check import make_whole
from gitshadow.maintenance.setup import root_worktree
from gitshadow.model import EventKind, Gap
from gitshadow.platform import current
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
from gitshadow.store.refs import REF_PREFIX

_MARKER = "watched:"
_ON, _OFF, _MOVED = "yes", "no", "moved"
_KILLED_NOTE = (
    "the daemon was killed: since the previous row, only the last state of each file"
    " was recorded"
)
_MOVED_NOTE = (
    "the worktree was moved or replaced while the daemon ran: since the previous row,"
    " only the last state of each file was recorded"
)
STALE_S = 60.0
_LOCK_POLL_S = 0.05
# libgit2 closes a lock right before it renames it, which takes much less time than this.
_RENAMED_S = 0.2
_LOOKS, _LOOK_AGAIN_S = 20, 0.005
_GAPS = 200
_BOOT = "boot_id"  # as in the journals of earlier versions
_NUMBERS, _IS_SHARED = "pid_namespace", "pid_namespaces"


def mark_running(context: RecorderContext) -> None:
    """Note that this process watches from now on."""
    _write_marker(context, _ON)


def mark_stopped(context: RecorderContext) -> None:
    """Note that this process stops of its own accord; a lost worktree is no error."""
    with suppress(ShadowError):
        _write_marker(context, _OFF)


def note_move(context: RecorderContext) -> None:
    """Note that this process stops because its worktree is elsewhere, or no more.

    The journal is written through open files, which follow it to its new place.
    """
    with suppress(ShadowError):
        _write_marker(context, _MOVED)


def _write_marker(context: RecorderContext, value: str) -> None:
    with context.workspace.db.write():
        meta.put(context.workspace.db, _marker_key(context), value)


def _marker_key(context: RecorderContext) -> str:
    return _MARKER + context.workspace.layout.worktree


class RefLock(NamedTuple):
    """One lock file: how old it is, and the processes that have it open."""

    path: str
    age_s: float
    holders: tuple[int, ...] = ()

    @property
    def is_stale(self) -> bool:
        """Return whether nobody can be holding it any more."""
        return self.age_s > STALE_S

    def describe(self) -> str:
        """Return which it is, how old, and who holds it."""
        who = " and ".join(f"process {pid}" for pid in self.holders)
        said = f"{who} has it open" if who else "no process has it open"
        name = os.path.basename(self.path)
        return f"{name} is {max(self.age_s, 0):.0f} seconds old, {said}"


def ref_locks(ws: Workspace) -> list[RefLock]:
    """Return the lock files of our refs, by path."""
    top = os.path.join(ws.layout.common_dir, REF_PREFIX)
    paths = sorted(
        os.path.join(directory, name)
        for directory, _, names in os.walk(top)
        for name in names
        if name.endswith(".lock")
    )
    if not paths:
        return []
    now = time.time()
    real = {path: os.path.realpath(path) for path in paths}
    holders = current().process_facts().holders(real.values())
    found: list[RefLock] = []
    for path in paths:
        with suppress(OSError):
            age_s = now - os.lstat(path).st_mtime
            found.append(RefLock(path, age_s, holders.get(real[path], ())))
    return found


def outwait(ws: Workspace, seconds: float) -> None:
    """Wait for locks that are young to go, at most so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if all(one.is_stale for one in ref_locks(ws)):
            return
        time.sleep(_LOCK_POLL_S)


def drop_left(ws: Workspace) -> None:
    """Remove the locks that a killed process left, so that its refs can be written at once.

    libgit2 keeps a lock open until it renames it. Git closes its locks early, so nothing is removed
    while a git runs in this repository.
    """
    left = _unheld(ws)
    if not left:
        return
    # A process of another container that has a lock open may not be seen from here; in a sandbox
    # that does not show even its own, none is.
    machine = current().machine_facts()
    if not machine.sees_all_processes() and (
        machine.pid_namespace() is None or meta.get(ws.db, _IS_SHARED)
    ):
        young = {one.path for one in ref_locks(ws) if not one.is_stale}
        left = {lock for lock in left if lock[0] not in young}
    time.sleep(_RENAMED_S)
    # Asked twice: libgit2 closes a lock right before it renames it, so one that nobody has open
    # may still be in use.
    left &= _unheld(ws)
    if left and not any(
        _is_git_here(ws, pid) for pid in current().process_facts().pids()
    ):
        for path, _ in left:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _unheld(ws: Workspace) -> set[tuple[str, int]]:
    """Return path and inode of each lock that no process has open."""
    found: set[tuple[str, int]] = set()
    for lock in ref_locks(ws):
        with suppress(OSError):
            if not lock.holders:
                found.add((lock.path, os.lstat(lock.path).st_ino))
    return found


def _is_git_here(ws: Workspace, pid: int) -> bool:
    """Return whether a process is a git that may work in this repository."""
    facts = current().process_facts()
    # A process that starts or ends has no variables for a moment (its memory is not there yet, or
    # no more). One that never shows any is another user's, or one that macOS protects.
    for _ in range(_LOOKS):
        found = facts.stat(pid)
        if found is None or found.dead or not found.name.startswith("git"):
            return False
        place, variables = facts.directory(pid), facts.environment(pid)
        if place is not None and variables:
            break
        time.sleep(_LOOK_AGAIN_S)
    else:
        # It cannot be looked at, so it counts as one in this repository.
        return True
    told = b"\0".join((*facts.command_line(pid), variables))
    tops = {ws.layout.root, ws.layout.common_dir}
    tops |= {os.path.realpath(top) for top in tops}
    return any(f"{place}/".startswith(f"{top}/") for top in tops) or any(
        os.fsencode(top) in told for top in tops
    )


def mend(context: RecorderContext, *, rooting: bool = True) -> None:
    """Bring journal and refs into agreement; root a worktree that has no tree yet.

    Without `rooting`, one of which nothing was ever recorded is left to the caller.
    """
    ws, marker = context.workspace, _marker_key(context)
    # One statement, because every command without a daemon asks for these.
    keys = (_BOOT, _NUMBERS, purge.UNDER_WAY, prune.UNDER_WAY, marker)
    stored = meta.get_many(ws.db, keys)
    _note_numbers(ws, stored.get(_NUMBERS))
    # A ref with a lock cannot be written, so locks come first. Rows are replayed from whole
    # commits, so objects come next. An undo reads rows and files, so it is last.
    drop_left(ws)
    rebooted = _rebooted(ws, stored.get(_BOOT))
    # All that the power may have taken is tested; the boot counts as seen when that is done.
    told = make_whole(context, thorough=rebooted, power=rebooted)
    if rebooted:
        _remember_boot(ws)
    # What a `purge` or `prune` takes that was interrupted is imported only then.
    if purge.UNDER_WAY in stored:
        from gitshadow.maintenance import purge as purging

        purging.finish(context)
    if prune.UNDER_WAY in stored:
        from gitshadow.maintenance import prune as forgetting

        forgetting.finish(context)
    _catch_up(context, told)
    if rooting or not is_fresh(ws):
        _root(context, told)
    # A daemon ended without a word, or lost its worktree.
    note = {_ON: _KILLED_NOTE, _MOVED: _MOVED_NOTE}.get(stored.get(marker, ""))
    if note is not None:
        context.pipeline.gap(note)
        _write_marker(context, _OFF)
    finish_undo(context)


def is_fresh(ws: Workspace) -> bool:
    """Return whether nothing of this worktree was ever recorded."""
    return (
        ws.recorder.row.tree is None
        and not sessions.chains(ws.db, ws.layout.worktree)
        and not ops.applying(ws.db, ws.layout.worktree)
    )


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
    refs alone would not restore them.
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

    Refs in `told` have their gap already.
    """
    done = context.pipeline.catch_up(told)
    if not done.broken:
        return
    # The damage remains until somebody repairs the refs by hand, and is a gap once.
    gaps = EventFilter(kinds=[EventKind.GAP], limit=_GAPS)
    rows = events.rows(context.workspace.db, gaps)
    said = {row.note for row in rows if isinstance(row, Gap)}
    for what, why in done.broken:
        if (note := f"could not read {what}: {why}") not in said:
            context.pipeline.gap(note)


def _note_numbers(ws: Workspace, known: str | None) -> None:
    """Forget the processes of living sessions if their numbers are those of another container.

    `known` is the namespace of the numbers in the journal.
    """
    # Here they would belong to other processes or none, and the sessions would count as ended.
    own = current().machine_facts().pid_namespace() or ""
    if known == own:
        return
    with ws.db.write():
        if known is not None:
            sessions.forget_processes(ws.db)
            meta.put(ws.db, _IS_SHARED, "several")
        meta.put(ws.db, _NUMBERS, own)


def _rebooted(ws: Workspace, known: str | None) -> bool:
    """Whether the machine started since all was whole; `known` is the boot of that time."""
    # Recording does not wait for the disk, so a write can only be lost when the machine stops.
    # The boot id differs after each start.
    if known is None:
        _remember_boot(ws)
    boot = current().machine_facts().boot()
    return None not in (known, boot) and known != boot


def _remember_boot(ws: Workspace) -> None:
    boot = current().machine_facts().boot()
    if boot is not None:
        with ws.db.write():
            meta.put(ws.db, _BOOT, boot)
