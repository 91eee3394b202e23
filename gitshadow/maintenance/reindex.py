"""`reindex`: the journal built anew from the refs alone, the old one set aside.

Invariant: the new journal replaces the old one in one rename, after it was built whole; the old
one is never changed.
"""

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import NamedTuple

from gitshadow.errors import NotInitialisedError, StoreError
from gitshadow.model import GITLINK_MODE, FileState, FileVersion, Oid, RepoPath, StatKey
from gitshadow.recording import ingest
from gitshadow.recording.workspace import make_state_dirs, save_modes
from gitshadow.store import machine, refs
from gitshadow.store.commit_rows import KnownModes
from gitshadow.store.files import digest
from gitshadow.store.journal import events, sessions, state
from gitshadow.store.journal.db import Db, is_damaged
from gitshadow.store.journal.salvage import Salvaged, salvage
from gitshadow.store.journal.state import WorktreeRow
from gitshadow.store.layout import Layout, recorded
from gitshadow.store.lock import WriterLock
from gitshadow.store.replay import Tail, is_foreign, read_tail, rebuild
from gitshadow.store.repo import Repo

LOCK_S = 20.0
_SIDE_FILES = ("", "-wal", "-shm")


class Reindexed(NamedTuple):
    """Say what came back; `unreadable` are refs with the reason."""

    events: int
    sessions: int
    salvaged: int
    damaged: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...]
    set_aside: str | None


def reindex(layout: Layout) -> Reindexed:
    """Build the journal of a repository from its refs.

    Raises:
        LockedError: another process is recording, in this worktree or in a linked one, or an
            agent program has a turn at work.
        StoreError, JournalError: it could not be built; the old journal stands.
    """
    make_state_dirs(layout)
    with ExitStack() as held:
        # Linked worktrees write to the same journal, which is about to be replaced.
        for one in recorded(layout):
            held.enter_context(WriterLock(one.lock)).acquire(LOCK_S)
        # So do agent programs; none of them may begin or be at work.
        for path in (layout.sagas_lock, *layout.saga_locks()):
            held.enter_context(WriterLock(path)).acquire(LOCK_S)
        repo = Repo.open(layout)
        held.callback(repo.close)
        return _reindex(layout, repo)


def refuse_unrecorded(layout: Layout) -> None:
    """Refuse a repository in which nothing was recorded, and of which no ref here tells either.

    A state directory that was lost is built anew; but nobody who never said `init` is recorded.

    Raises:
        NotInitialisedError: it is such a one.
    """
    if layout.initialised or os.path.isdir(os.path.dirname(layout.wt_dir)):
        return
    repo = Repo.open(layout)
    try:
        if any(_own_chains(repo, machine.ours(layout))):
            return
    finally:
        repo.close()
    raise NotInitialisedError(
        f"cannot rebuild a journal: nothing has ever been recorded in {layout.root}",
        hint="git agent-undo init",
    )


def _own_chains(repo: Repo, ours: Collection[str]) -> Iterator[Tail]:
    for ref, tip in repo.refs().items():
        if refs.is_apart(ref) or not refs.is_chain(ref):
            continue
        with suppress(StoreError):
            tail = read_tail(repo, ref, tip)
            if tail is not None and not is_foreign(tail, ours):
                yield tail


def _reindex(layout: Layout, repo: Repo) -> Reindexed:
    fresh = layout.journal + ".new"
    _remove(fresh)
    db = Db.open(fresh, create=True)
    try:
        with db.write():
            rebuilt = rebuild(db, repo, machine.ours(layout))
            for worktree, (tree, modes) in rebuilt.worktrees.items():
                save_modes(db, worktree, modes.plain)
                if worktree == layout.worktree:
                    _take_over(layout, repo, db, tree, modes)
            saved = Salvaged()
            if os.path.exists(layout.journal) and not os.path.islink(layout.journal):
                saved = salvage(db, layout.journal)
            events.raise_next(db, saved.next_seq)
        count, known = events.count(db), len(sessions.all_sessions(db))
        db.fold()
    finally:
        db.close()
    aside = _set_aside(layout)
    os.replace(fresh, layout.journal)
    ingest.move(layout, repo, rebuilt.foreign)
    return Reindexed(
        count, known, saved.rows, tuple(saved.damaged), rebuilt.broken, aside
    )


def _take_over(
    layout: Layout, repo: Repo, db: Db, tree: Oid, known: KnownModes
) -> None:
    """Store the newest tree and the states it stands for; the next walk reads every file."""
    head_ref, head = repo.head()
    row = WorktreeRow(
        id=layout.worktree,
        path=os.fsencode(layout.root),
        tree=tree,
        head=head,
        head_ref=head_ref,
    )
    state.put_worktree(db, row)
    state.put_many(db, layout.worktree, _states(repo, tree, known))


def _states(repo: Repo, tree: Oid, known: KnownModes) -> Mapping[RepoPath, FileState]:
    found: dict[RepoPath, FileState] = {}
    for path, entry in repo.flat(tree).items():
        # Of content that was lost nothing is known: the next walk stores what is on the disk.
        if entry[0] == GITLINK_MODE or not repo.has(entry[1]):
            continue
        data = repo.read_blob(entry[1])
        version = FileVersion(entry[1], known.of(path, entry))
        stat = StatKey(len(data), 0, 0, 0)
        found[path] = FileState(version, digest(data), stat, 0, True)
    return found


def _set_aside(layout: Layout) -> str | None:
    """Keep the old journal under a name that says why; its own name stays taken all the time."""
    if not os.path.lexists(layout.journal):
        return None
    why = "damaged" if is_damaged(layout.journal) else "before-reindex"
    number = 1
    while os.path.lexists(f"{layout.journal}.{why}-{number}"):
        number += 1
    aside = f"{layout.journal}.{why}-{number}"
    try:
        if os.path.islink(layout.journal):
            os.rename(layout.journal, aside)
        else:
            os.link(layout.journal, aside)
    except OSError:  # a file system without hard links
        shutil.copyfile(layout.journal, aside)
        os.chmod(aside, 0o600)
    for suffix in ("-wal", "-shm"):
        if os.path.exists(layout.journal + suffix):
            os.rename(layout.journal + suffix, aside + suffix)
    return aside


def _remove(path: str) -> None:
    for suffix in _SIDE_FILES:
        if os.path.lexists(path + suffix):
            os.unlink(path + suffix)
