"""Pins on a screen: make one, restore one, delete one.

Invariant: a restore goes through its plan; deleting asks, and changes no file.
"""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from gitshadow.errors import ShadowError
from gitshadow.messages.codec import decode
from gitshadow.messages.pins import PinRow
from gitshadow.render.document import Document, rows, text
from gitshadow.render.style import View, printable
from gitshadow.render.text import pin_lines
from gitshadow.ui.choices import Choices, SureScreen
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.input_line import LineScreen
from gitshadow.ui.key_hints import KeyHint, KeyLine
from gitshadow.ui.plans import PlanScreen
from gitshadow.ui.ports import UiBackend, UndoIntent

_KEYS = (
    KeyHint("Enter", "restore", "restore"),
    KeyHint("a", "pin the current state", "add"),
    KeyHint("x", "delete", "delete"),
    KeyHint("Esc", "leave", "leave"),
)
_NONE = "no pins yet: a saves the current state under a name, restore restores it"


class PinsScreen(ModalScreen[bool]):
    """List the pins; the answer says whether anything was changed."""

    DEFAULT_CSS = """
    PinsScreen { align: center middle; }
    PinsScreen > Vertical {
        width: 100%; max-width: 100; height: 100%; max-height: 24;
        background: $surface; border: round $primary; padding: 0 1;
    }
    PinsScreen #said { height: auto; color: $text-warning; }
    PinsScreen.-ascii > Vertical { border: ascii $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "restore", show=False, priority=True),
        Binding("a", "add", show=False),
        Binding("x,delete", "delete", show=False),
        Binding("escape,q", "leave", show=False),
    ]

    def __init__(self, engine: UiBackend) -> None:
        super().__init__()
        self._engine = engine
        self._pins: list[Mapping[str, object]] = []
        self._changed = False

    def compose(self) -> ComposeResult:
        """Lay the list above what went wrong and the keys."""
        with Vertical() as border:
            border.border_title = "pins"
            yield Choices()
            yield Static(id="said", markup=False)
            yield KeyLine()

    def on_mount(self) -> None:
        """Ask for the pins."""
        self.set_class(not glyphs_of(self).unicode, "-ascii")
        self.query_one(KeyLine).show(_KEYS)
        self.query_one(Choices).focus()
        self._carry_out()

    def _carry_out(self, verb: str = "", name: str = "") -> None:
        """Run a verb, where one is given, and ask for the pins anew."""
        self.run_worker(self._carried_out(verb, name), exclusive=True)

    async def _carried_out(self, verb: str, name: str) -> None:
        self._say("...")
        try:
            if verb:
                await asyncio.to_thread(self._engine.ask, verb, {"name": name})
                self._changed = True
            document = await asyncio.to_thread(self._engine.ask, "pins", {})
        except ShadowError as error:
            hint = f"; {error.hint}" if error.hint else ""
            self._say(f"{error.message}{hint}")
            return
        self._pins = rows(document, "rows")
        self._say("" if self._pins else _NONE)
        self.query_one(Choices).show(
            pin_lines([decode(PinRow, row) for row in self._pins], View())
        )

    def _say(self, said: str) -> None:
        self.query_one("#said", Static).update(glyphs_of(self).text(said))

    def _chosen(self) -> str:
        """Return the pin that the cursor is on, nothing where there is none."""
        at = self.query_one(Choices).cursor
        return text(self._pins[at], "name") if at < len(self._pins) else ""

    def action_add(self) -> None:
        """Ask for a name and pin the present state."""

        def pin(name: str | None) -> None:
            if name:
                self._carry_out("pin", name)

        self.app.push_screen(LineScreen("a name for the current state"), pin)

    def action_delete(self) -> None:
        """Delete the pin after a yes."""
        name = self._chosen()

        def delete(sure: bool | None) -> None:
            if sure:
                self._carry_out("unpin", name)

        if name:
            asked = f"delete pin {printable(name)}? No file changes."
            self.app.push_screen(SureScreen(asked), delete)

    def action_restore(self) -> None:
        """Plan to bring back what was pinned."""
        name = self._chosen()
        if name:
            wish = UndoIntent("restore", pin=name)
            self.app.push_screen(PlanScreen(self._engine, wish), self._restored)

    def _restored(self, report: Document | None) -> None:
        self._changed = self._changed or report is not None

    def action_leave(self) -> None:
        """Go back to where one came from."""
        self.dismiss(self._changed)
