"""Search all objects for texts, and rewrite shadow history without what was purged.

The search reads every object, reachable or not; an object too large to be read is counted.
Rewriting writes objects only; who moves refs and rows has the maps of what became of what.
Invariant: the same history and salt give the same objects, and what is clean stays as it is, so
it can be done again after a crash.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gitshadow.model import GITLINK_MODE, TREE_MODE, Oid, RepoPath
from gitshadow.store.git import Git
from gitshadow.store.purged import holds, is_purged, stand_in
from gitshadow.store.repo import Repo
from gitshadow.store.trees import Entry

_MOST_BYTES = 256 * 1024 * 1024


class Gone(NamedTuple):
    """Say what is to go.

    `paths` may be directories; `blobs` go wherever they stand; `messages` has for commits of ours
    what they are to say instead; `parents` are commits of the user's on which nothing of ours is
    to stand any more.
    """

    paths: tuple[RepoPath, ...]
    blobs: frozenset[Oid]
    messages: Mapping[Oid, bytes]
    parents: frozenset[Oid]


class Rewriter:
    """Map commits, trees and contents to what stands for them.

    `blobs` are the contents that were found, with what stands for each; `commits` what changed.
    """

    def __init__(self, repo: Repo, gone: Gone, salt: bytes) -> None:
        self._repo = repo
        self._gone = gone
        self._salt = salt
        self._trees: dict[Oid, Oid] = {}
        self._inner: dict[Oid, dict[RepoPath, Entry]] = {}
        self._purged: dict[Oid, bool] = {}
        self.blobs: dict[Oid, Oid] = {}
        self.commits: dict[Oid, Oid] = {}

    def stands_for(self, path: RepoPath | None, oid: Oid) -> Oid | None:
        """Return what a row that names a content at a path is to name; None for the same."""
        goes = oid in self._gone.blobs or (path is not None and self._covers(path))
        return self.blobs.get(oid) if goes else None

    def _covers(self, path: RepoPath) -> bool:
        return any(
            path == one or path.startswith(one + b"/") for one in self._gone.paths
        )

    def touches(self, tip: Oid) -> set[Oid]:
        """Return the objects of a chain that are to go: contents, and commits for their words.

        Nothing is written.

        Raises:
            StoreError: an object could not be read.
        """
        found: set[Oid] = set()
        for info in self._repo.chain(tip):
            found.update(oid for _, oid in self._places(info.tree).values())
            if info.oid in self._gone.messages:
                found.add(info.oid)
        return found

    def tip(self, tip: Oid) -> Oid:
        """Return what stands for a commit of ours, with all that it stands on.

        Raises:
            StoreError: an object could not be read or written.
        """
        for info in self._repo.chain(tip):
            kept = (one for one in info.parents if one not in self._gone.parents)
            parents = tuple(self.commits.get(one, one) for one in kept)
            tree, message = self.tree(info.tree), self._gone.messages.get(info.oid)
            same = (tree, parents) == (info.tree, info.parents)
            if message is not None or not same:
                new = self._repo.recommit(info.oid, tree, parents, message)
                self.commits[info.oid] = new
        return self.commits.get(tip, tip)

    def tree(self, tree: Oid) -> Oid:
        """Return what stands for a tree."""
        if tree not in self._trees:
            places = self._places(tree)
            changes: dict[RepoPath, Entry | None] = {
                path: (mode, self._cleared(oid)) for path, (mode, oid) in places.items()
            }
            new = self._repo.trees.splice(tree, changes) if changes else tree
            self._trees[tree] = new
        return self._trees[tree]

    def _cleared(self, oid: Oid) -> Oid:
        if oid not in self.blobs:
            self.blobs[oid] = self._repo.write_blob(stand_in(oid, self._salt))
        return self.blobs[oid]

    def _places(self, tree: Oid) -> dict[RepoPath, Entry]:
        """Return the entries of a tree whose content is to go."""
        found = dict(self._holding(tree)) if self._gone.blobs else {}
        for path in self._gone.paths:
            entry = self._repo.entry(tree, path)
            if entry is None:
                continue
            inner = {path: entry}
            if entry[0] == TREE_MODE:
                below = self._repo.flat(entry[1])
                inner = {RepoPath(path + b"/" + p): e for p, e in below.items()}
            found |= {p: e for p, e in inner.items() if self._is_content(e)}
        return found

    def _is_content(self, entry: Entry) -> bool:
        mode, oid = entry
        if mode == GITLINK_MODE:
            return False
        if oid not in self._purged:
            self._purged[oid] = is_purged(self._repo.read_blob(oid))
        return not self._purged[oid]

    def _holding(self, tree: Oid) -> Mapping[RepoPath, Entry]:
        """Return where in a tree the contents stand; one that chains share is read once."""
        if tree not in self._inner:
            found: dict[RepoPath, Entry] = {}
            for name, entry in self._repo.trees.listing(tree):
                if entry[0] == TREE_MODE:
                    below = self._holding(entry[1])
                    found |= {RepoPath(name + b"/" + p): e for p, e in below.items()}
                elif entry[1] in self._gone.blobs:
                    found[RepoPath(name)] = entry
            self._inner[tree] = found
        return self._inner[tree]


class Holding(NamedTuple):
    """The objects that contain a text; a tree has it in the name of a file."""

    blobs: frozenset[Oid] = frozenset()
    commits: frozenset[Oid] = frozenset()
    trees: frozenset[Oid] = frozenset()
    unsearched: int = 0


def search(git: Git, repo: Repo, forms: Sequence[bytes]) -> Holding:
    """Return every object that holds one of the forms of some texts.

    Raises:
        StoreError: an object could not be read.
    """
    found: dict[str, set[Oid]] = {"blob": set(), "commit": set(), "tree": set()}
    unsearched = 0
    for oid, kind, size in git.all_objects():
        if size > _MOST_BYTES:
            unsearched += 1
        elif kind in found and holds(repo.raw(oid), forms):
            found[kind].add(oid)
    return Holding(
        frozenset(found["blob"]),
        frozenset(found["commit"]),
        frozenset(found["tree"]),
        unsearched,
    )
