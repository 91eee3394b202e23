"""The pins and the undo operations, each list on a screen of its own.

Invariant: files change only by a plan that was shown; deleting a pin asks first.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from gitshadow.errors import ShadowError
from gitshadow.messages.backend import HistoryBackend
from gitshadow.messages.codec import Nothing, decode
from gitshadow.messages.lists import (
    OPS,
    PIN,
    PINS,
    UNPIN,
    OpsRequest,
    PinRequest,
    UnpinRequest,
)
from gitshadow.messages.rows import OpRow
from gitshadow.messages.states import SHOW, ShowRequest
from gitshadow.messages.undo import FileUndoAnswer, FileUndoRequest, UndoTarget
from gitshadow.render.report import report_lines
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time, pin_lines
from gitshadow.ui.dialogs import KeyHint, KeyLine, LineScreen, SureScreen
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.lines import Choices, Prose
from gitshadow.ui.plans import PlanScreen

_LIMIT = 1_000
_NO_PINS = "no pins yet: a saves the current state under a name, restore restores it"
_T = TypeVar("_T")


class ListedRow(NamedTuple):
    """A row of a list, and the id that verbs take."""

    id: str
    line: str


class RowsScreen(ModalScreen[bool]):
    """List the rows of a verb's answer; the screen's answer is whether anything changed.

    Subclasses set the class variables, fetch the rows, and show errors below them.
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
    EMPTY: ClassVar[str]

    def __init__(self, engine: HistoryBackend) -> None:
        super().__init__()
        self.engine = engine
        self._rows: Sequence[ListedRow] = ()
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

    def fetch(self) -> Sequence[ListedRow]:
        """Ask for the rows; called on a thread of its own."""
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

    def reload(self, change: Callable[[], object] | None = None) -> None:
        """Fetch the rows again, after a change if one is given."""
        self.run_worker(self._reloaded(change), exclusive=True)

    async def _reloaded(self, change: Callable[[], object] | None) -> None:
        if change is not None:
            if await self.answer(change) is None:
                return
            self._changed = True
        found = await self.answer(self.fetch)
        if found is not None:
            self._rows = found
            self.query_one(Choices).show(row.line for row in found)
            self.say(*([] if found else [self.EMPTY]))

    async def answer(self, question: Callable[[], _T]) -> _T | None:
        """Return the answer to a question; None after an error, which is shown."""
        self.say("...")
        try:
            return await asyncio.to_thread(question)
        except ShadowError as error:
            self.fail(error)
            return None

    @property
    def chosen(self) -> str:
        """Return the id of the row under the cursor, nothing if there is none."""
        at = self.query_one(Choices).cursor
        return self._rows[at].id if at < len(self._rows) else ""

    def plan(self, wish: FileUndoRequest) -> None:
        """Show the plan of an intent."""
        self.app.push_screen(PlanScreen(self.engine, wish), self._planned)

    def _planned(self, report: object) -> None:
        if report is not None:
            self._changed = True
            self.reload()

    def action_leave(self) -> None:
        """Go back; an answer that is still awaited has nowhere to be shown."""
        self.workers.cancel_node(self)
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

    def fetch(self) -> Sequence[ListedRow]:
        """Ask for the ops."""
        ops = self.engine.send(OPS, OpsRequest(_LIMIT)).rows
        return [ListedRow(op.id, _op_line(op)) for op in ops]

    def action_report(self) -> None:
        """Show what the op did to each file."""
        op = self.chosen
        if op:
            self.run_worker(self._report(op), exclusive=True)

    async def _report(self, op: str) -> None:
        shown = await self.answer(lambda: self.engine.send(SHOW, ShowRequest(op)))
        if shown is not None:
            report = decode(FileUndoAnswer, shown.report or {})
            lines = report_lines(report, View(colour=True), is_stored=True)
            self.say(*(lines if shown.report else ["no report"]))

    def action_begin(self, verb: str) -> None:
        """Plan to undo the op, or to redo what it undid."""
        op = self.chosen
        if op:
            self.plan(FileUndoRequest(verb, (UndoTarget(op),)))


def _op_line(op: OpRow) -> str:
    """Return an op in few columns; whether it is in effect comes before its target."""
    state = "undone" if op.undone_by else printable(op.status)
    # Month to minute: the year and the seconds would push the target off a narrow screen.
    when = local_time(op.ts or "")[len("2026-") : -len(":00")]
    kind, target = printable(op.kind), printable(op.target)
    return f"{printable(op.id)}  {when}  {kind:<8}  {state:<10}  {target}"


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
    EMPTY = _NO_PINS

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

    def fetch(self) -> Sequence[ListedRow]:
        """Ask for the pins."""
        found = self.engine.send(PINS, Nothing()).rows
        lines = pin_lines(found, View())
        return [
            ListedRow(row.name, line) for row, line in zip(found, lines, strict=True)
        ]

    def action_add(self) -> None:
        """Ask for a name and pin the current state."""

        def pin(name: str | None) -> None:
            if name:
                self.reload(lambda: self.engine.send(PIN, PinRequest(name)))

        self.app.push_screen(LineScreen("a name for the current state"), pin)

    def action_delete(self) -> None:
        """Delete the pin after a yes."""
        name = self.chosen

        def delete(sure: bool | None) -> None:
            if sure:
                self.reload(lambda: self.engine.send(UNPIN, UnpinRequest(name)))

        if name:
            asked = f"delete pin {printable(name)}? No file changes."
            self.app.push_screen(SureScreen(asked), delete)

    def action_restore(self) -> None:
        """Plan to restore the state of the pin."""
        if self.chosen:
            self.plan(FileUndoRequest("restore", pin=self.chosen))
