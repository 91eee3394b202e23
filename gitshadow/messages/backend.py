"""Who answers about one worktree: what the terminal UI and the language server ask."""

from collections.abc import Sequence
from typing import Protocol

from gitshadow.messages.codec import A, Q, Verb
from gitshadow.messages.undo import FileUndoAnswer, FileUndoRequest


class HistoryBackend(Protocol):
    """Answer typed requests: the daemon if one runs, else this process."""

    def send(self, verb: Verb[Q, A], request: Q, /) -> A:
        """Return a verb's answer.

        Raises:
            ShadowError: what the verb raised, with its hint.
        """
        ...

    def plan(self, request: FileUndoRequest, /) -> FileUndoAnswer:
        """Return the plan of an undo, with its token; nothing is changed.

        Raises:
            ShadowError: it cannot be planned.
        """
        ...

    def apply(self, request: FileUndoRequest, token: str, /) -> FileUndoAnswer:
        """Apply exactly the plan that was shown, or nothing; return the report.

        Raises:
            RefusedError: files changed since the plan; nothing was changed.
            ShadowError: it failed, or another undo is running.
        """
        ...

    def mark(self) -> object:
        """Return a value that differs after every change of the journal; cheap."""
        ...

    def worktrees(self) -> Sequence[str]:
        """Return the names of the recorded worktrees of the repository, this one first."""
        ...

    def there(self, worktree: str, /) -> "HistoryBackend":
        """Return what answers in another worktree.

        Raises:
            UsageError: it is gone.
        """
        ...
