"""Lines of text that are read, not chosen among: plans, reports, prompts.

Invariant: what comes in has passed `render.style`; colour escapes are its own, and become styles.
"""

from collections.abc import Iterable, Iterator

from rich.segment import Segment
from rich.text import Text
from textual import events

from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.line_view import LineView


class Prose(LineView):
    """Show lines, wrapped to the width; keys scroll."""

    DEFAULT_CSS = """
    Prose { background: $surface; color: $foreground; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Text] = []
        self._rows: list[Text] = []

    def show(self, lines: Iterable[str]) -> None:
        """Show other lines, from their first on."""
        self._lines = [self._text(line) for line in lines]
        self._wrap()
        self.scroll_to(y=0, animate=False, immediate=True)

    def _text(self, line: str) -> Text:
        found = Text.from_ansi(line)
        glyphs = glyphs_of(self)
        return found if glyphs.unicode else Text(glyphs.text(found.plain))

    def _wrap(self) -> None:
        width = max(10, self.columns)
        self._rows = []
        for line in self._lines:
            fits = line.cell_len <= width
            self._rows += [line] if fits else line.wrap(self.app.console, width)
        self.changed(self.cursor)

    def on_resize(self, event: events.Resize) -> None:
        """Wrap anew."""
        del event
        self._wrap()

    def row_count(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    def said(self, row: int) -> str:
        """Return the text of a row."""
        return self._rows[row].plain

    def draw(self, row: int, width: int, *, standing: bool) -> Iterator[Segment]:
        """Draw one row."""
        del width, standing
        base = self.rich_style
        for part in self._rows[row].render(self.app.console):
            style = base if part.style is None else base + part.style
            yield Segment(part.text, style)

    def go(self, row: int) -> None:
        """Show a row."""
        self.cursor = row
        self.scroll_to(y=row, animate=False, immediate=True)

    # Nothing to stand on: the keys move what is seen.

    def show_cursor(self) -> None:
        """Leave the rows where they are."""

    def action_step(self, by: int) -> None:
        """Scroll by some rows."""
        self.scroll_to(y=self.scroll_y + by, animate=False, immediate=True)

    def action_page(self, by: int) -> None:
        """Scroll by some screens."""
        self.action_step(by * max(1, self.size.height - 1))

    def action_first(self) -> None:
        """Scroll to the begin."""
        self.action_step(-len(self._rows))

    def action_last(self) -> None:
        """Scroll to the end."""
        self.action_step(len(self._rows))
