"""Rewriting shadow history so that some paths hold nothing that was purged.

Objects alone are written; who moves refs and rows has the maps of what became of what.
Invariant: the same history and salt give the same objects, and what is clean stays as it is, so
it can be done again after a crash.
"""

from collections.abc import Collection

from gitshadow.model import GITLINK_MODE, TREE_MODE, Oid, RepoPath
from gitshadow.store.purged import is_purged, stand_in
from gitshadow.store.repo import Repo
from gitshadow.store.trees import Entry


class Rewriter:
    """Map commits, trees and contents to what stands for them; paths may be directories.

    `blobs` are the contents that were found, with what stands for each; `commits` what changed.
    """

    def __init__(self, repo: Repo, paths: Collection[RepoPath], salt: bytes) -> None:
        self._repo = repo
        self._paths = sorted(paths)
        self._salt = salt
        self._trees: dict[Oid, Oid] = {}
        self.blobs: dict[Oid, Oid] = {}
        self.commits: dict[Oid, Oid] = {}

    def covers(self, path: RepoPath) -> bool:
        """Tell whether a path is one of those, or lies below one."""
        return any(path == one or path.startswith(one + b"/") for one in self._paths)

    def tip(self, tip: Oid) -> Oid:
        """Return what stands for a commit of ours, with all that it stands on.

        Raises:
            StoreError: an object could not be read or written.
        """
        for info in self._repo.chain(tip):
            parents = tuple(self.commits.get(one, one) for one in info.parents)
            tree = self.tree(info.tree)
            if (tree, parents) != (info.tree, info.parents):
                self.commits[info.oid] = self._repo.recommit(info.oid, tree, parents)
        return self.commits.get(tip, tip)

    def tree(self, tree: Oid) -> Oid:
        """Return what stands for a tree."""
        if tree not in self._trees:
            changes = self._changes(tree)
            new = self._repo.trees.splice(tree, changes) if changes else tree
            self._trees[tree] = new
        return self._trees[tree]

    def _changes(self, tree: Oid) -> dict[RepoPath, Entry | None]:
        found: dict[RepoPath, Entry | None] = {}
        for path in self._paths:
            entry = self._repo.entry(tree, path)
            if entry is None:
                continue
            inner = {path: entry}
            if entry[0] == TREE_MODE:
                below = self._repo.flat(entry[1])
                inner = {RepoPath(path + b"/" + p): e for p, e in below.items()}
            found |= {p: (e[0], self._cleared(e)) for p, e in inner.items()}
        return found

    def _cleared(self, entry: Entry) -> Oid:
        mode, oid = entry
        if mode == GITLINK_MODE:
            return oid
        if oid not in self.blobs:
            if is_purged(self._repo.read_blob(oid)):
                return oid
            self.blobs[oid] = self._repo.write_blob(stand_in(oid, self._salt))
        return self.blobs[oid]
