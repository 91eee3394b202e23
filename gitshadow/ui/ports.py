"""What the UI needs from the outside: answers, plans, and their application.

Invariant: no call is made on the thread that draws; each may take seconds.
"""

from typing import Protocol

from gitshadow.messages.codec import A, Q, Verb
from gitshadow.messages.undo import FileUndoAnswer, FileUndoRequest


class UiBackend(Protocol):
    """Answer the UI: the daemon if one runs, else this process."""

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
