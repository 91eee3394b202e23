"""The index files with which `git commit` makes commits, and what a crash leaves of them.

`git commit` moves HEAD with such a file; the worktree's own index follows afterwards. The name has
the parent, so that the next verb can tell whether the commit was made before its maker died.
Invariant: a file is deleted by its maker, when its commit is adopted, or after a day.
"""

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.recording.workspace import Workspace
from gitshadow.staging.graft import Writes
from gitshadow.staging.index import IndexFile

_PREFIX, _SUFFIX = "commit-", ".index"
_UNBORN = "unborn"
_STALE_S = 86_400.0


class AbandonedCommit(NamedTuple):
    """A commit that was made, but not adopted; `path` is the index file it was made from."""

    parent: Oid | None
    commit: Oid
    path: str


def prepare(ws: Workspace, parent: Oid | None, writes: Writes) -> str:
    """Make an index file with a commit's tree and some changes; return its path.

    Raises:
        StoreError: git could not do it; no file is left.
    """
    name = f"{_PREFIX}{parent or _UNBORN}-{secrets.token_hex(4)}{_SUFFIX}"
    path = f"{ws.layout.wt_dir}/{name}"
    index = IndexFile(ws, path)
    # With the stat of unchanged files, git commit need not read them all again.
    with suppress(FileNotFoundError):
        shutil.copyfile(f"{ws.layout.git_dir}/index", path)
    try:
        index.read_tree(ws.repo.commit(parent).tree if parent else None)
        index.write(writes)
    except BaseException:
        drop(path)
        raise
    return path


def drop(path: str) -> None:
    """Delete an index file and its lock."""
    for name in (path, f"{path}.lock"):
        with suppress(FileNotFoundError):
            os.unlink(name)


def abandoned(ws: Workspace) -> Iterator[AbandonedCommit]:
    """Yield the commits whose maker died before the index followed; delete what is too old."""
    head = ws.repo.head()[1]
    for name in sorted(os.listdir(ws.layout.wt_dir)):
        if not name.startswith(_PREFIX) or not name.endswith(_SUFFIX):
            continue
        path = f"{ws.layout.wt_dir}/{name}"
        parent = name.removeprefix(_PREFIX).partition("-")[0]
        if head is not None and _is_of(ws, head, parent, path):
            yield AbandonedCommit(
                None if parent == _UNBORN else Oid(parent), head, path
            )
        elif _age_s(path) > _STALE_S:
            drop(path)


def _is_of(ws: Workspace, head: Oid, parent: str, path: str) -> bool:
    """Return whether HEAD is the commit that was made with an index file."""
    info = ws.repo.commit(head)
    if list(info.parents) != ([] if parent == _UNBORN else [parent]):
        return False
    try:
        return IndexFile(ws, path).write_tree() == info.tree
    except StoreError:
        return False


def _age_s(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0
