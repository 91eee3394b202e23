"""Parts of dialogues: a line to type into, a question with yes or no, the keys at the foot."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.style import Style
from textual.widgets import Input, Static

from gitshadow.ui.glyphs import glyphs_of

_BETWEEN = "  "


class KeyHint(NamedTuple):
    """A key, what it does in a word or two, and the screen's action."""

    key: str
    says: str
    action: str


class KeyLine(Static):
    """Show the keys that do something now; a click on one does the same.

    Only our own words may come in: they can be markup.
    """

    DEFAULT_CSS = """
    KeyLine {
        height: auto; color: $text-muted;
        link-color: $text-muted; link-style: none;
        link-color-hover: $text; link-background-hover: $primary-muted;
    }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._keys: Sequence[KeyHint] = ()

    def show(self, keys: Iterable[KeyHint]) -> None:
        """Show other keys."""
        self._keys = tuple(keys)
        self._lay_out(self.size.width)

    def on_resize(self, event: events.Resize) -> None:
        """Break the line for the new width."""
        self._lay_out(event.size.width)

    def _lay_out(self, width: int) -> None:
        """Break between keys, never within the words of one."""
        said, column = Content(""), 0
        # textual also breaks lines at no-break spaces, so the lines are broken here.
        for key in self._keys:
            words = f"{key.key} {key.says}"
            if column:
                fits = column + len(_BETWEEN) + len(words) <= width
                said += Content(_BETWEEN if fits else "\n")
                column = column + len(_BETWEEN) if fits else 0
            click = Style.from_meta({"@click": f"screen.{key.action}"})
            said += Content.styled(words, click)
            column += len(words)
        self.update(said)


class LineScreen(ModalScreen[str | None]):
    """Ask for one line at the foot of the screen; the answer is None after Esc."""

    BINDINGS: ClassVar = [Binding("escape,ctrl+c", "dismiss", show=False)]
    DEFAULT_CSS = """
    LineScreen { background: transparent; align: left bottom; }
    LineScreen > Static { height: 1; background: $panel; color: $text-muted; }
    LineScreen > Input, LineScreen > Input:focus {
        height: 1; border: none; padding: 0 1; background: $boost;
    }
    """

    def __init__(self, says: str, typed: str = "") -> None:
        super().__init__()
        self._says, self._typed = says, typed

    def compose(self) -> ComposeResult:
        """Make the line, and above it what is to be typed."""
        yield Static(Content(f" {self._says}"))
        # A filter is mostly changed at its end; a selected text would be lost with the first key.
        yield Input(self._typed, select_on_focus=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer with what was typed."""
        self.dismiss(event.value)


class SureScreen(ModalScreen[bool]):
    """Ask whether to do something; every key but `y` means no."""

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
        Binding("y", "dismiss(True)", show=False),
        Binding("n,escape,q,enter", "dismiss(False)", show=False),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Make the question, and below it the answers."""
        with Vertical():
            yield Static(glyphs_of(self).text(self._question), markup=False)
            yield KeyLine()

    def on_mount(self) -> None:
        """Show the answers."""
        self.set_class(not glyphs_of(self).unicode, "-ascii")
        yes = KeyHint("y", "yes", "dismiss(True)")
        self.query_one(KeyLine).show([yes, KeyHint("n", "no", "dismiss(False)")])
