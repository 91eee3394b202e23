"""Git over trees, as far as histories need it: two branches, their commits and one stash.

The index is always that of HEAD: a commit takes everything. Where Git would refuse, or would take
more than a few lines to follow, nothing happens. Histories on the engine run the real git; the
model is for those that are too many for that. `tests.blame.tokens` models another side of Git,
commits with their parents, which blame asks for.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from gitshadow.model import git_mode
from tests.undo.histories import Entry, Tree, base, is_free


def committed(entry: Entry | None) -> Entry | None:
    """Return what Git keeps of an entry: whether it can be executed, no other permission."""
    return entry and (git_mode(entry[0]), entry[1])


@dataclass(slots=True)
class Branches:
    """Hold what is committed and stashed."""

    commits: tuple[list[Tree], list[Tree]] = field(
        default_factory=lambda: ([{}, base()], [{}, base()])
    )
    branch: int = 0
    stash: dict[bytes, tuple[Entry, Entry | None]] = field(default_factory=dict)

    @property
    def head(self) -> Tree:
        """Return the tree of HEAD."""
        return self.commits[self.branch][-1]

    @property
    def words(self) -> Mapping[str, str]:
        """Return what Git's log of HEAD says of each command that moves it."""
        return {
            "commit": "commit: x",
            "amend": "commit (amend): y",
            "switch": "checkout: moving from one to another",
            "reset": "reset: moving to HEAD~1",
        }

    def act(self, verb: str, tree: Tree) -> Tree | None:
        """Do what a git command does; return the tree then, None where it does nothing."""
        if verb in ("commit", "amend"):
            return self._commit(tree, amend=verb == "amend")
        if verb == "switch":
            return self._switch(tree)
        if verb in ("reset", "discard"):
            return self._reset(tree, 1 + (verb == "reset"))
        return self._pop(tree) if self.stash else self._stash(tree)

    def _commit(self, tree: Tree, *, amend: bool) -> Tree:
        made = {path: (git_mode(mode), data) for path, (mode, data) in tree.items()}
        if amend:
            self.commits[self.branch].pop()
        self.commits[self.branch].append(made)
        return tree

    def _switch(self, tree: Tree) -> Tree | None:
        old, new = self.head, self.commits[1 - self.branch][-1]
        paths = {path for path in {*old, *new} if old.get(path) != new.get(path)}
        if any(committed(tree.get(path)) != old.get(path) for path in paths):
            return None
        after = _with(tree, paths, new)
        if after is not None:
            self.branch = 1 - self.branch
        return after

    def _reset(self, tree: Tree, back: int) -> Tree | None:
        """Do `reset --hard` to one of the last commits."""
        line = self.commits[self.branch]
        if len(line) < back:
            return None
        new = line[-back]
        tracked = {*self.head, *new}
        paths = {one for one in tracked if committed(tree.get(one)) != new.get(one)}
        after = _with(tree, paths, new)
        if after is not None:
            del line[len(line) - back + 1 :]
        return after

    def _stash(self, tree: Tree) -> Tree | None:
        head = self.head
        dirty = {path for path in head if committed(tree.get(path)) != head[path]}
        after = _with(tree, dirty, head) if dirty else None
        if after is not None:
            self.stash = {path: (head[path], tree.get(path)) for path in dirty}
        return after

    def _pop(self, tree: Tree) -> Tree | None:
        kept, head = self.stash, self.head
        for path, (was, _) in kept.items():
            if head.get(path) != was or committed(tree.get(path)) != was:
                return None
        goal = {path: entry for path, (_, entry) in kept.items() if entry is not None}
        after = _with(tree, kept, goal)
        if after is not None:
            self.stash = {}
        return after


def _with(tree: Tree, paths: Collection[bytes], goal: Tree) -> Tree | None:
    """Return a tree in which these paths are as in another; None where something bars them."""
    after = {path: entry for path, entry in tree.items() if path not in paths}
    for path in sorted(set(paths) & goal.keys()):
        if not is_free(after, path):
            return None
        after[path] = goal[path]
    return after
