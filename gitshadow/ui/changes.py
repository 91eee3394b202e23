"""What a plan would do to the lines of files, on a screen of its own.

Invariant: it is the plan that is asked about; nothing is changed here.
"""

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from gitshadow.render.document import rows, text
from gitshadow.ui.dialogs import KeyHint, KeyLine
from gitshadow.ui.diffs import DiffView
from gitshadow.ui.patch_parser import Patch, of_hunk
from gitshadow.undo.hunk_selection import hunk_of_json

_KEYS = (
    KeyHint("n", "next hunk", "pass_on('next(1)')"),
    KeyHint("N", "previous hunk", "pass_on('next(-1)')"),
    KeyHint("s", "side by side", "pass_on('toggle_side')"),
    KeyHint("Esc", "back to the plan", "leave"),
)


class ChangesScreen(ModalScreen[None]):
    """Show the changes that a plan would make."""

    DEFAULT_CSS = """
    ChangesScreen > Vertical { width: 100%; height: 100%; background: $surface; }
    ChangesScreen DiffView { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,d,enter", "leave", show=False)
    ]

    def __init__(self, plan: Mapping[str, object]) -> None:
        super().__init__()
        self._changes = patch_of(plan)

    def compose(self) -> ComposeResult:
        """Lay the changes above the keys."""
        with Vertical():
            yield DiffView()
            yield KeyLine()

    def on_mount(self) -> None:
        """Show the changes."""
        diff = self.query_one(DiffView)
        diff.show_patch(self._changes)
        diff.focus()
        self.query_one(KeyLine).show(_KEYS)

    async def action_pass_on(self, action: str) -> None:
        """Do what the key does in the diff."""
        await self.query_one(DiffView).run_action(action)

    def action_leave(self) -> None:
        """Go back to the plan."""
        self.dismiss(None)


def patch_of(plan: Mapping[str, object]) -> Patch:
    """Return the changes of a plan whose items have their hunks, a file after the other."""
    found: list[Patch] = []
    for item in rows(plan, "items"):
        hunks = map(hunk_of_json, rows(item, "hunks"))
        lines = [line for hunk in hunks for line in hunk.lines]
        found += [of_hunk(text(item, "path"), lines)] if lines else []
    return Patch(
        tuple(file for one in found for file in one.files),
        sum(one.left_out for one in found),
    )
