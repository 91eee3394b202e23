"""What was undone, redone and restored, newest first, with the report of each.

Invariant: an op is taken back or brought forward by its plan alone.
"""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from gitshadow.errors import ShadowError
from gitshadow.render.document import Document, inner, rows, text
from gitshadow.render.report import report_lines
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time
from gitshadow.ui.choices import Choices
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.key_hints import KeyHint, KeyLine
from gitshadow.ui.plans import PlanScreen
from gitshadow.ui.ports import UiBackend, UndoIntent
from gitshadow.ui.text_view import Prose

_KEYS = (
    KeyHint("Enter", "its report", "report"),
    KeyHint("r", "redo it", "begin('redo')"),
    KeyHint("u", "undo it", "begin('undo')"),
    KeyHint("Esc", "leave", "leave"),
)
_LIMIT = 1_000


class OpsScreen(ModalScreen[bool]):
    """List the ops; the answer says whether anything was changed."""

    DEFAULT_CSS = """
    OpsScreen > Vertical {
        width: 100%; height: 100%;
        background: $surface; border: round $primary; padding: 0 1;
    }
    OpsScreen Prose { height: 1fr; border-top: solid $primary; }
    OpsScreen.-ascii > Vertical { border: ascii $primary; }
    OpsScreen.-ascii Prose { border-top: ascii $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "report", show=False, priority=True),
        Binding("r", "begin('redo')", show=False),
        Binding("u", "begin('undo')", show=False),
        Binding("escape,q", "leave", show=False),
    ]

    def __init__(self, engine: UiBackend) -> None:
        super().__init__()
        self._engine = engine
        self._ops: list[Mapping[str, object]] = []
        self._changed = False

    def compose(self) -> ComposeResult:
        """Lay the list above the report of one of them."""
        with Vertical() as border:
            border.border_title = "undone, redone, restored"
            yield Choices()
            yield Prose()
            yield KeyLine()

    def on_mount(self) -> None:
        """Ask for the ops."""
        self.set_class(not glyphs_of(self).unicode, "-ascii")
        self.query_one(KeyLine).show(_KEYS)
        self.query_one(Choices).focus()
        self._ask()

    def _ask(self) -> None:
        self.run_worker(self._asked(), exclusive=True)

    async def _asked(self) -> None:
        document = await self._answer("ops", {"limit": _LIMIT})
        if document is None:
            return
        self._ops = rows(document, "rows")
        self.query_one(Choices).show(map(_line, self._ops))
        self.query_one(Prose).show([] if self._ops else ["nothing has been undone yet"])

    async def _answer(self, verb: str, params: Document) -> Document | None:
        """Return what the engine says; None where that is an error, which is shown."""
        self.query_one(Prose).show(["..."])
        try:
            return await asyncio.to_thread(self._engine.ask, verb, params)
        except ShadowError as error:
            said = [f"error: {printable(error.message)}"]
            said += [f"hint: {printable(error.hint)}"] if error.hint else []
            self.query_one(Prose).show(said)
            return None

    def _chosen(self) -> str:
        """Return the op that the cursor is on, nothing where there is none."""
        at = self.query_one(Choices).cursor
        return text(self._ops[at], "id") if at < len(self._ops) else ""

    def action_report(self) -> None:
        """Show what the op did to each file."""
        op = self._chosen()
        if op:
            self.run_worker(self._show(op), exclusive=True)

    async def _show(self, op: str) -> None:
        document = await self._answer("show", {"id": op})
        if document is not None:
            report = inner(document, "report")
            lines = report_lines(report, View(colour=True)) if report else ["no report"]
            self.query_one(Prose).show(lines)

    def action_begin(self, verb: str) -> None:
        """Plan to take the op back, or to bring forward what it took back."""
        op = self._chosen()
        if op:
            wish = UndoIntent(verb, targets=(op,))
            self.app.push_screen(PlanScreen(self._engine, wish), self._done)

    def _done(self, report: Document | None) -> None:
        if report is not None:
            self._changed = True
            self._ask()

    def action_leave(self) -> None:
        """Go back to where one came from."""
        self.dismiss(self._changed)


def _line(row: Mapping[str, object]) -> str:
    """Return an op in few columns; whether it still holds comes before what it was about."""
    state = "undone" if text(row, "undone_by") else printable(text(row, "status"))
    when = local_time(text(row, "ts"))[len("2026-") : -len(":00")]
    kind, target = printable(text(row, "kind")), printable(text(row, "target"))
    return f"{printable(text(row, 'id'))}  {when}  {kind:<8}  {state:<10}  {target}"
