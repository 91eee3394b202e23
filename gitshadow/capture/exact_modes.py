"""The exact permissions of covered files: those that the modes of a Git tree do not say.

Invariant: what is noted here equals the state table, or is read from it anew.
"""

from collections.abc import Mapping

from gitshadow.capture.chains import DEFAULT_MODES
from gitshadow.capture.commit_plan import is_odd
from gitshadow.capture.states import StateTable
from gitshadow.model import RepoPath


class Modes:
    """Hold what 100644 and 100755 stand for in one worktree, and which files differ."""

    def __init__(self, states: StateTable) -> None:
        self._states = states
        self._odd: dict[RepoPath, int] | None = None
        self.plain = DEFAULT_MODES

    def use(self, plain: tuple[int, int]) -> None:
        """Say what 100644 and 100755 stand for."""
        self.plain = plain
        self._odd = None

    def forget(self) -> None:
        """Read the state table again before the next answer."""
        self._odd = None

    def odd(self) -> Mapping[RepoPath, int]:
        """Return the exact mode of each file whose Git mode does not say it."""
        return self._loaded()

    def note(self, path: RepoPath, mode: int) -> None:
        """Follow a file that has a mode now."""
        if is_odd(mode, self.plain):
            self._loaded()[path] = mode
        else:
            self._loaded().pop(path, None)

    def drop(self, path: RepoPath) -> None:
        """Follow a file that is gone."""
        self._loaded().pop(path, None)

    def _loaded(self) -> dict[RepoPath, int]:
        if self._odd is None:
            self._odd = {
                path: mode
                for path, mode in self._states.all().modes()
                if is_odd(mode, self.plain)
            }
        return self._odd
