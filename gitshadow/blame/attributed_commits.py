"""Commits that speak: they name an agent, others claim lines of them, or they were made here.

What was committed here since recording began was to be seen being written.
Invariant: a path that is not listed has no line of such a commit, also under its earlier names, so
nobody need ask `git blame` which class its lines are of.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gitshadow.attribution.commits import AUTHOR_PATTERNS, MESSAGE_PATTERN
from gitshadow.blame.classification import Crediting
from gitshadow.blame.git_history import GitPast
from gitshadow.model import Oid, RepoPath
from gitshadow.store.git import Git


@dataclass(slots=True)
class Speaking:
    """Answer for one repository; remembers what it found of each commit that was asked for."""

    git: Git
    crediting: Crediting
    past: GitPast
    _paths: dict[Oid, frozenset[RepoPath]] = field(default_factory=dict)

    def paths(self, tip: Oid) -> frozenset[RepoPath]:
        """Return the paths that may have a line of a speaking commit, up to a commit."""
        if tip not in self._paths:
            by_words = self.git.commits_saying(tip, MESSAGE_PATTERN)
            by_name = self.git.commits_by(tip, AUTHOR_PATTERNS)
            named = [
                [oid for oid in oids if self.crediting.agent_of(oid)]
                for oids in (by_words, by_name)
            ]
            every = (*named, self._claimed(tip), self.past.made_since(tip))
            found = set().union(*(self._reached(tip, oids) for oids in every))
            self._paths[tip] = frozenset(found)
        return self._paths[tip]

    def _claimed(self, tip: Oid) -> list[Oid]:
        claimed = self.crediting.claimed()
        if not claimed:
            return []
        every = reversed(self.git.commits_between(None, tip))
        return [oid for oid in every if oid in claimed]

    def _reached(self, tip: Oid, speaking: list[Oid]) -> set[RepoPath]:
        if not speaking:
            return set()
        # In topological order no other of them stands under the last one.
        renames = self.git.renames(speaking[-1], tip)
        return _followed(self.git.touched(speaking), renames)


def _followed(
    paths: Iterable[RepoPath], renames: Iterable[tuple[RepoPath, RepoPath]]
) -> set[RepoPath]:
    """Return paths with all names that they may have got since."""
    names: dict[RepoPath, set[RepoPath]] = {}
    for old, new in renames:
        names.setdefault(old, set()).add(new)
    found: set[RepoPath] = set()
    todo = set(paths)
    while todo:
        found |= todo
        later = [names.get(path, set()) for path in todo]
        todo = set().union(*later) - found
    return found
