"""Purging: shadow history without the content of some paths, rewritten as a whole.

Objects are written first, then rows, then refs; a note stands from before the first until after the
last, and whoever opens the repository next goes on from it.
Invariant: nothing of the user's is touched: where their commits or index hold the content, that is
said and left.
"""

import secrets
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from gitshadow.engine.desk import Desk
from gitshadow.engine.workspace import Workspace
from gitshadow.errors import LockedError, StoreError
from gitshadow.model import Oid, RepoPath
from gitshadow.store import refs
from gitshadow.store.git import OF_THE_USER, Git
from gitshadow.store.journal import purge as journal
from gitshadow.store.layout import recorded
from gitshadow.store.lock import WriterLock
from gitshadow.store.packing import Packer
from gitshadow.store.repo import Repo
from gitshadow.store.rewriting import Rewriter

_LOCK_S = 20.0
_SALT_BYTES = 16
_MOST_COMMITS = 20
_FETCHED = refs.REF_PREFIX + "fetched/"


class Purged(NamedTuple):
    """Say what was done: the names of the files, how many contents, which refs moved."""

    names: tuple[RepoPath, ...]
    contents: int
    rewritten: tuple[str, ...]


class Remains(NamedTuple):
    """Say where contents that were purged still are.

    `waiting` counts objects that nothing of ours reaches: Git's next gc takes them, but for those
    that the user's commits or index hold (`commits`, `staged`). `history` are other names in our
    history that have the same content, `fetched` refs of other machines.
    """

    waiting: int = 0
    commits: tuple[tuple[Oid, RepoPath], ...] = ()
    staged: tuple[RepoPath, ...] = ()
    history: tuple[RepoPath, ...] = ()
    fetched: tuple[str, ...] = ()


def purge(desk: Desk, paths: Sequence[RepoPath]) -> Purged:
    """Rewrite the history without the content of paths, under every name they ever had.

    Raises:
        LockedError: another worktree is being recorded, or somebody packs.
        StoreError, JournalError: it stopped there; `finish` goes on.
    """
    ws = desk.workspace
    with ExitStack() as held:
        for one in recorded(ws.layout):
            if one.worktree != ws.layout.worktree:
                held.enter_context(WriterLock(one.lock)).acquire(_LOCK_S)
        packer = Packer(ws.layout, Git(ws.layout, dict(ws.environ)))
        held.enter_context(packer.alone(_LOCK_S))
        names = journal.names_of(ws.db, paths)
        salt = secrets.token_bytes(_SALT_BYTES)
        with ws.db.write():
            journal.begin(ws.db, names, salt)
        return _purge(desk, packer, names, salt)


def finish(desk: Desk) -> None:
    """Do again what a crash interrupted."""
    ws = desk.workspace
    noted = journal.under_way(ws.db)
    if noted is None:
        return
    packer = Packer(ws.layout, Git(ws.layout, dict(ws.environ)))
    with suppress(LockedError), packer.alone(_LOCK_S):
        _purge(desk, packer, *noted)


def _purge(
    desk: Desk, packer: Packer, names: Sequence[RepoPath], salt: bytes
) -> Purged:
    ws = desk.workspace
    rewriter = Rewriter(ws.repo, names, salt)
    moved = _rewritten(ws.repo, rewriter)
    tree = ws.recorder.row.tree
    new_tree = rewriter.tree(tree) if tree is not None and ws.repo.has(tree) else tree
    _rename(ws, rewriter)
    for ref, (old, new) in moved.items():
        ws.repo.move_ref(ref, old, new)
    _release(ws, packer, rewriter)
    shutil.rmtree(ws.layout.pages_dir, ignore_errors=True)
    ws.states.forget()
    ws.repo.refresh()
    if new_tree is not None:
        ws.recorder.set_tree(new_tree, ws.recorder.row.head, ws.recorder.row.head_ref)
    with ws.db.write():
        journal.end(ws.db)
    return Purged(tuple(names), len(rewriter.blobs), tuple(sorted(moved)))


def _rewritten(repo: Repo, rewriter: Rewriter) -> dict[str, tuple[Oid, Oid]]:
    """Write what stands for each ref of ours, and for what is shown of it; nothing moves yet."""
    own = {
        ref: tip
        for ref, tip in repo.refs().items()
        if not refs.is_apart(ref) and not ref.startswith(_FETCHED)
    }
    own |= repo.refs(refs.EXPOSED_PREFIX)
    found = {ref: (tip, rewriter.tip(tip)) for ref, tip in own.items()}
    return {ref: pair for ref, pair in found.items() if pair[0] != pair[1]}


def _rename(ws: Workspace, rewriter: Rewriter) -> None:
    def tree_of(tree: Oid) -> Oid:
        try:
            return rewriter.tree(tree)
        except StoreError:  # a worktree that is gone, with its objects
            return tree

    with ws.db.write():
        journal.rename(ws.db, rewriter.covers, rewriter.blobs, rewriter.commits)
        journal.rename_trees(ws.db, tree_of)
        known = {*journal.awaited(ws.db), *rewriter.blobs}
        journal.await_gone(ws.db, sorted(known))


def _release(ws: Workspace, packer: Packer, rewriter: Rewriter) -> None:
    """Let Git have every pack in which anything old lies, and look at all refs anew."""
    gone = {*journal.awaited(ws.db), *rewriter.commits}
    for pack in packer.packs.ours():
        if packer.packs.holds_any(pack, gone):
            packer.packs.release(pack)
    packer.forget()


def remains(ws: Workspace) -> Remains:
    """Search every object for what was purged; what is found nowhere is not asked for again."""
    there = ws.git.sizes(journal.awaited(ws.db))
    with ws.db.write():
        journal.await_gone(ws.db, sorted(there))
    if not there:
        return Remains()
    users = ws.git.holding(there, *OF_THE_USER)
    found = {
        (commit, path)
        for oid, path in users
        for commit in ws.git.commits_with(oid, _MOST_COMMITS)
    }
    own = (f"--exclude={_FETCHED}*", f"--glob={refs.REF_PREFIX}*")
    fetched = ws.repo.refs(_FETCHED)
    return Remains(
        len(there),
        tuple(sorted(found)),
        tuple(ws.git.staged_as(there)),
        tuple(sorted({path for _, path in ws.git.holding(there, *own)})),
        tuple(sorted(ref for ref in fetched if ws.git.holding(there, ref))),
    )
