"""What the UI needs from the outside: answers, plans, and their application.

Invariant: no call is made on the thread that draws; each may take seconds.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from gitshadow.render.document import Document


class UndoIntent(NamedTuple):
    """What to undo, redo or restore; ids and paths as documents spell them.

    `targets` are ids, `paths` are targets that are always paths, `only` limits both. `offer` asks
    for the hunks of each item of a plan, `choice` is the answer: `of` is the token of the plan that
    was shown, `taken` the numbers of the parts by the number of their item.
    """

    verb: str
    targets: Sequence[str] = ()
    paths: Sequence[str] = ()
    only: Sequence[str] = ()
    at: int | str | None = None
    pin: str | None = None
    include_low: bool = False
    on_conflict: str = "skip"
    offer: bool = False
    choice: Mapping[str, object] | None = None


class UiBackend(Protocol):
    """Answer the UI: the daemon if one runs, else this process."""

    def ask(self, verb: str, params: Mapping[str, object], /) -> Document:
        """Return a verb's document.

        Raises:
            ShadowError: what the verb raised, with its hint.
        """
        ...

    def plan(self, wish: UndoIntent, /) -> Document:
        """Return the plan of an intent, with its token; nothing is changed.

        Raises:
            ShadowError: it cannot be planned.
        """
        ...

    def apply(self, wish: UndoIntent, token: str, /) -> Document:
        """Apply exactly the plan that was shown, or nothing; return the report.

        Raises:
            RefusedError: files changed since the plan; nothing was changed.
            ShadowError: it failed, or another undo is running.
        """
        ...

    def mark(self) -> object:
        """Return a value that differs after every change of the journal; cheap."""
        ...
