"""Lines to choose among, and a question with yes or no.

Invariant: what comes in has passed `render.style`; a key that is not yes means no.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.key_hints import KeyHint, KeyLine
from gitshadow.ui.line_view import LineView


class Choices(LineView):
    """Show lines, one of which the cursor is on."""

    DEFAULT_CSS = """
    Choices { background: $surface; color: $foreground; height: 1fr; }
    Choices > .choices--cursor { background: $primary-muted; text-style: bold; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"choices--cursor"}

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[str] = ()

    def show(self, lines: Iterable[str]) -> None:
        """Show other lines; the cursor stays where it was."""
        self._lines = list(lines)
        self.changed(self.cursor)

    def row_count(self) -> int:
        """Return how many lines there are."""
        return len(self._lines)

    def said(self, row: int) -> str:
        """Return the text of a line."""
        return self._lines[row]

    def draw(self, row: int, width: int, *, standing: bool) -> Iterator[Segment]:
        """Draw one line."""
        style = self.rich_style
        if standing:
            style = self.get_component_rich_style("choices--cursor")
        said = glyphs_of(self).text(self._lines[row])
        yield Segment("> " if standing else "  ", style)
        yield from self.shifted([Segment(said, style)], max(0, width - 2), style)


class SureScreen(ModalScreen[bool]):
    """Ask whether something is to be done."""

    DEFAULT_CSS = """
    SureScreen { align: center middle; }
    SureScreen > Vertical {
        width: auto; max-width: 100%; height: auto;
        background: $surface; border: heavy $warning; padding: 0 1;
    }
    SureScreen.-ascii > Vertical { border: ascii $warning; }
    SureScreen Static { width: auto; max-width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q,enter", "answer(False)", show=False),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Lay the answers below the question."""
        with Vertical():
            yield Static(glyphs_of(self).text(self._question), markup=False)
            yield KeyLine()

    def on_mount(self) -> None:
        """Show the answers."""
        self.set_class(not glyphs_of(self).unicode, "-ascii")
        yes, no = (
            KeyHint("y", "yes", "answer(True)"),
            KeyHint("n", "no", "answer(False)"),
        )
        self.query_one(KeyLine).show([yes, no])

    def action_answer(self, yes: bool) -> None:
        """Give the answer."""
        self.dismiss(yes)
