"""Proof that a tree can be published: every entry is in the object store.

A remembered oid may name a blob that the user's gc removed after its last session was dropped;
libgit2 takes a tree with a missing blob without a word, and the user's next gc exits 128 for ever.
Invariant: what is shared with a live tip or with HEAD is present because it is reachable; only the
rest is looked for.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import GITLINK_MODE, FileState, Oid, RepoPath, git_mode
from gitshadow.store.files import WorkFiles, blob_oid
from gitshadow.store.repo import Repo
from gitshadow.store.trees import Entry


class Proven(NamedTuple):
    """Hold a tree that can be published; `lost` are paths whose bytes are nowhere any more."""

    tree: Oid
    lost: tuple[RepoPath, ...] = ()


def prove(
    repo: Repo,
    files: WorkFiles,
    tree: Oid,
    live: Oid | None,
    states: Mapping[RepoPath, FileState],
) -> Proven:
    """Return a tree with the same files, every object of which is in the store.

    Args:
        repo: The object store.
        files: The worktree, to store again what is missing.
        tree: The tree to publish.
        live: A tree that a live ref or HEAD reaches; None where there is none.
        states: What the covered paths hold, to build the tree anew if parts of it are gone.
    """
    try:
        changes = repo.diff(live, tree)
    except StoreError:
        repo.trees.forget()
        return _rebuild(repo, files, live, states)
    entries = {c.path: c.new for c in changes if c.new is not None}
    lost = _missing(repo, files, entries)
    if lost:
        tree = repo.trees.splice(tree, dict.fromkeys(lost))
    return Proven(tree, tuple(lost))


def _rebuild(
    repo: Repo, files: WorkFiles, live: Oid | None, states: Mapping[RepoPath, FileState]
) -> Proven:
    carried: dict[RepoPath, Entry | None] = {
        path: entry
        for path, entry in (repo.flat(live).items() if live is not None else ())
        if entry[0] == GITLINK_MODE
    }
    entries: dict[RepoPath, Entry] = {
        path: (git_mode(state.version.mode), state.version.oid)
        for path, state in states.items()
    }
    lost = _missing(repo, files, entries)
    for path in lost:
        del entries[path]
    return Proven(repo.trees.splice(None, carried | entries), tuple(lost))


def _missing(
    repo: Repo, files: WorkFiles, entries: Mapping[RepoPath, Entry]
) -> list[RepoPath]:
    """Store what is missing again from the disk; return what is not there either."""
    lost: list[RepoPath] = []
    for path, (mode, oid) in entries.items():
        if mode == GITLINK_MODE or repo.has(oid):
            continue
        try:
            reading = files.read(path)
        except OSError:
            reading = None
        if reading is None or blob_oid(reading.data) != oid:
            lost.append(path)
        else:
            repo.write_blob(reading.data)
    return lost
