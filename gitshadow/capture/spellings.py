"""Which recorded path, or path on the disk, is meant by another spelling.

A hook, a watcher and a person may name `README.MD` where the disk has `readme.md`. Where file
systems fold names that is one file, and only the spelling on the disk is recorded.
Invariant: where no directory folds names, every path is left as it is, without a look.
"""

from collections.abc import Collection, Iterable

from gitshadow.capture.states import StateTable
from gitshadow.model import RepoPath
from gitshadow.store.files import WorkFiles
from gitshadow.store.spelling import fold_key


class Spellings:
    """Find true spellings in one worktree."""

    def __init__(self, files: WorkFiles, states: StateTable) -> None:
        self._files = files
        self._states = states

    def true(self, path: RepoPath) -> RepoPath:
        """Return the path on the disk that is meant, else the recorded one, else the path."""
        if not self._files.folds or not path:
            return path
        spelled = self._files.spelled(path)
        if self._files.glance(spelled) is not None:
            return spelled
        return self._recorded(spelled) or spelled

    def every(self, paths: Iterable[RepoPath]) -> set[RepoPath]:
        """Return paths with all that may be meant by them, on the disk or recorded."""
        found = set(paths)
        if self._files.folds:
            for path in [one for one in found if one]:
                spelled = self._files.spelled(path)
                recorded = self._recorded(path)
                found.add(spelled)
                found.update(() if recorded is None else (recorded,))
        return found

    def trues(self, paths: Collection[RepoPath]) -> tuple[RepoPath, ...]:
        """Return `true` of each path, each once."""
        return tuple(dict.fromkeys(map(self.true, paths)))

    def _recorded(self, path: RepoPath) -> RepoPath | None:
        """Return the recorded file or directory that is meant by a path."""
        found = RepoPath(b"")
        for part in path.split(b"/"):
            exact = RepoPath(found + b"/" + part if found else part)
            alike = sorted(
                one
                for one in self._states.within(found)
                if fold_key(one) == fold_key(exact)
            )
            if not alike:
                return None
            found = exact if exact in alike else alike[0]
        return found
