"""The pins and the undo operations, each list on a screen of its own.

Invariant: files change only by a plan that was shown; deleting a pin asks first.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from gitshadow.errors import ShadowError
from gitshadow.messages.codec import decode
from gitshadow.messages.pins import PinRow
from gitshadow.render.document import Document, inner, rows, text
from gitshadow.render.report import report_lines
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time, pin_lines
from gitshadow.ui.dialogs import KeyHint, KeyLine, LineScreen, SureScreen
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.lines import Choices, Prose
from gitshadow.ui.plans import PlanScreen
from gitshadow.ui.ports import UiBackend, UndoIntent

_LIMIT = 1_000
_NO_PINS = "no pins yet: a saves the current state under a name, restore restores it"


class RowsScreen(ModalScreen[bool]):
    """List the rows of a verb's answer; the screen's answer is whether anything changed.

    Subclasses set what the class variables say, and show one row, an error and a note.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", show=False),
    ]
    DEFAULT_CSS = """
    RowsScreen > Vertical {
        width: 100%; height: 100%;
        background: $surface; border: round $primary; padding: 0 1;
    }
    RowsScreen.-ascii > Vertical { border: ascii $primary; }
    """
    HEADING: ClassVar[str]
    KEYS: ClassVar[tuple[KeyHint, ...]]
    VERB: ClassVar[str]
    PARAMS: ClassVar[Document] = {}
    ID: ClassVar[str]
    EMPTY: ClassVar[str]

    def __init__(self, engine: UiBackend) -> None:
        super().__init__()
        self._engine = engine
        self._rows: list[Mapping[str, object]] = []
        self._changed = False

    def note(self) -> Widget:
        """Return the widget below the list."""
        raise NotImplementedError

    def say(self, *lines: str) -> None:
        """Show lines below the list."""
        raise NotImplementedError

    def fail(self, error: ShadowError) -> None:
        """Show an error below the list."""
        raise NotImplementedError

    def lines(self, rows: list[Mapping[str, object]]) -> Iterable[str]:
        """Return a line for each row."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Make the list, the note below it, and the keys."""
        with Vertical() as border:
            border.border_title = self.HEADING
            yield Choices()
            yield self.note()
            yield KeyLine()

    def on_mount(self) -> None:
        """Ask for the rows."""
        self.set_class(not glyphs_of(self).unicode, "-ascii")
        self.query_one(KeyLine).show((*self.KEYS, KeyHint("Esc", "leave", "leave")))
        self.query_one(Choices).focus()
        self.reload()

    def reload(self, verb: str = "", params: Document | None = None) -> None:
        """Run a verb that changes something, if one is named, and ask for the rows again."""
        self.run_worker(self._reloaded(verb, params or {}), exclusive=True)

    async def _reloaded(self, verb: str, params: Document) -> None:
        if verb:
            if await self.answer(verb, params) is None:
                return
            self._changed = True
        document = await self.answer(self.VERB, self.PARAMS)
        if document is not None:
            self._rows = rows(document, "rows")
            self.query_one(Choices).show(self.lines(self._rows))
            self.say(*([] if self._rows else [self.EMPTY]))

    async def answer(self, verb: str, params: Document) -> Document | None:
        """Return a verb's answer; None after an error, which is shown."""
        self.say("...")
        try:
            return await asyncio.to_thread(self._engine.ask, verb, params)
        except ShadowError as error:
            self.fail(error)
            return None

    @property
    def chosen(self) -> str:
        """Return the id of the row under the cursor, nothing if there is none."""
        at = self.query_one(Choices).cursor
        return text(self._rows[at], self.ID) if at < len(self._rows) else ""

    def plan(self, wish: UndoIntent) -> None:
        """Show the plan of a wish."""
        self.app.push_screen(PlanScreen(self._engine, wish), self._planned)

    def _planned(self, report: Document | None) -> None:
        if report is not None:
            self._changed = True
            self.reload()

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(self._changed)


class OpsScreen(RowsScreen):
    """List what was undone, redone and restored, newest first, with the report of each."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "report", show=False, priority=True),
        Binding("r", "begin('redo')", show=False),
        Binding("u", "begin('undo')", show=False),
    ]
    DEFAULT_CSS = """
    OpsScreen Prose { height: 1fr; border-top: solid $primary; }
    OpsScreen.-ascii Prose { border-top: ascii $primary; }
    """
    HEADING = "undone, redone, restored"
    KEYS = (
        KeyHint("Enter", "its report", "report"),
        KeyHint("r", "redo it", "begin('redo')"),
        KeyHint("u", "undo it", "begin('undo')"),
    )
    VERB, PARAMS, ID = "ops", {"limit": _LIMIT}, "id"
    EMPTY = "nothing has been undone yet"

    def note(self) -> Widget:
        """Return the widget of reports."""
        return Prose()

    def say(self, *lines: str) -> None:
        """Show lines in place of a report."""
        self.query_one(Prose).show(lines)

    def fail(self, error: ShadowError) -> None:
        """Show an error in place of a report."""
        hint = [f"hint: {printable(error.hint)}"] if error.hint else []
        self.say(f"error: {printable(error.message)}", *hint)

    def lines(self, rows: list[Mapping[str, object]]) -> Iterable[str]:
        """Return a line for each op."""
        return map(_op_line, rows)

    def action_report(self) -> None:
        """Show what the op did to each file."""
        op = self.chosen
        if op:
            self.run_worker(self._report(op), exclusive=True)

    async def _report(self, op: str) -> None:
        document = await self.answer("show", {"id": op})
        if document is not None:
            report = inner(document, "report")
            lines = report_lines(report, View(colour=True)) if report else ["no report"]
            self.say(*lines)

    def action_begin(self, verb: str) -> None:
        """Plan to undo the op, or to redo what it undid."""
        op = self.chosen
        if op:
            self.plan(UndoIntent(verb, targets=(op,)))


def _op_line(row: Mapping[str, object]) -> str:
    """Return an op in few columns; whether it is in effect comes before its target."""
    state = "undone" if text(row, "undone_by") else printable(text(row, "status"))
    when = local_time(text(row, "ts"))[len("2026-") : -len(":00")]
    kind, target = printable(text(row, "kind")), printable(text(row, "target"))
    return f"{printable(text(row, 'id'))}  {when}  {kind:<8}  {state:<10}  {target}"


class PinsScreen(RowsScreen):
    """List the pins: create one, restore one, delete one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "restore", show=False, priority=True),
        Binding("a", "add", show=False),
        Binding("x,delete", "delete", show=False),
    ]
    DEFAULT_CSS = """
    PinsScreen { align: center middle; }
    PinsScreen > Vertical { max-width: 100; max-height: 24; }
    PinsScreen #said { height: auto; color: $text-warning; }
    """
    HEADING = "pins"
    KEYS = (
        KeyHint("Enter", "restore", "restore"),
        KeyHint("a", "pin the current state", "add"),
        KeyHint("x", "delete", "delete"),
    )
    VERB, ID, EMPTY = "pins", "name", _NO_PINS

    def note(self) -> Widget:
        """Return the widget of errors."""
        return Static(id="said", markup=False)

    def say(self, *lines: str) -> None:
        """Show lines below the pins."""
        said = glyphs_of(self).text("\n".join(lines))
        self.query_one("#said", Static).update(said)

    def fail(self, error: ShadowError) -> None:
        """Show an error below the pins."""
        hint = f"; {error.hint}" if error.hint else ""
        self.say(f"{error.message}{hint}")

    def lines(self, rows: list[Mapping[str, object]]) -> Iterable[str]:
        """Return a line for each pin."""
        return pin_lines([decode(PinRow, row) for row in rows], View())

    def action_add(self) -> None:
        """Ask for a name and pin the current state."""

        def pin(name: str | None) -> None:
            if name:
                self.reload("pin", {"name": name})

        self.app.push_screen(LineScreen("a name for the current state"), pin)

    def action_delete(self) -> None:
        """Delete the pin after a yes."""
        name = self.chosen

        def delete(sure: bool | None) -> None:
            if sure:
                self.reload("unpin", {"name": name})

        if name:
            asked = f"delete pin {printable(name)}? No file changes."
            self.app.push_screen(SureScreen(asked), delete)

    def action_restore(self) -> None:
        """Plan to restore the state of the pin."""
        if self.chosen:
            self.plan(UndoIntent("restore", pin=self.chosen))
