"""Uninstall: remove our refs, `.keep` files, copies of refs and the state directory.

Objects stay until Git's own gc: nothing but refs and our own files is removed.
Invariant: after it nothing of ours is in the repository but objects that nothing reaches.
"""

import os
import shutil
from contextlib import ExitStack, suppress
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.sharing.remotes import is_ours
from gitshadow.store import refs
from gitshadow.store.disk import own_bytes
from gitshadow.store.layout import Layout, recorded
from gitshadow.store.lock import WriterLock
from gitshadow.store.packs import Packs
from gitshadow.store.repo import Repo

_LOCK_S = 10.0


class There(NamedTuple):
    """What we have in a repository: refs, refs that expose them, packs, own bytes."""

    refs: tuple[str, ...]
    shown: tuple[str, ...]
    packs: int
    state_bytes: int


def look(layout: Layout) -> There:
    """Return what we have in a repository.

    Raises:
        StoreError, UnsupportedError: the repository cannot be read.
    """
    repo = Repo.open(layout)
    try:
        found = repo.refs()
        own = sorted({*found, *repo.broken_refs()})
        shown = repo.refs(refs.EXPOSED_PREFIX).items()
        ours = sorted(name for name, tip in shown if is_ours(repo, tip))
    finally:
        repo.close()
    packs = len(Packs(layout.objects_dir, layout.packing_dir).ours())
    return There(tuple(own), tuple(ours), packs, own_bytes(layout.state_dir))


def leave(layout: Layout) -> There:
    """Remove everything of ours from a repository; return what it was.

    The daemons must have been stopped.

    Raises:
        LockedError: another process records in a worktree, or an agent program has a turn.
        StoreError, UnsupportedError: it failed; a second call removes the rest.
    """
    there = look(layout)
    # All writer locks are held until the end: a process that records would create refs again.
    with ExitStack() as held:
        if os.path.isdir(layout.wt_dir):
            for one in recorded(layout):
                held.enter_context(WriterLock(one.lock)).acquire(_LOCK_S)
        if os.path.isdir(layout.sagas_dir):
            for path in (layout.sagas_lock, *layout.saga_locks()):
                held.enter_context(WriterLock(path)).acquire(_LOCK_S)
        repo = Repo.open(layout)
        try:
            for name in (*there.shown, *there.refs):
                repo.delete_ref(name)
        finally:
            repo.close()
        packs = Packs(layout.objects_dir, layout.packing_dir)
        for pack in packs.ours():
            packs.release(pack)
        try:
            if os.path.isdir(layout.state_dir):
                shutil.rmtree(layout.state_dir)
        except OSError as error:
            raise StoreError(
                f"could not remove {layout.state_dir}: {error.strerror}"
            ) from error
        for prefix in (refs.REF_PREFIX, refs.EXPOSED_PREFIX):
            for top in ("", "logs"):
                _drop_empty(os.path.join(layout.common_dir, top, prefix))
    return there


def _drop_empty(directory: str) -> None:
    """Remove the empty directories of one of our namespaces."""
    # rmdir refuses a directory with content, so no ref that Git makes at this time is lost.
    for top, _, _ in os.walk(directory, topdown=False):
        with suppress(OSError):
            os.rmdir(top)
    with suppress(OSError):  # `refs/remotes`, where ours were the first
        os.rmdir(os.path.dirname(directory.rstrip("/")))
