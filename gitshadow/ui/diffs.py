"""A patch on the screen: unified or side by side, with the colours of its language.

Invariant: no difference is told by colour alone, signs and words stay; what is drawn comes out of
`patches`, so that nothing of a file acts on the terminal.
"""

import asyncio
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.worker import WorkType

from gitshadow.ui import diff_rows, keys
from gitshadow.ui.diff_rows import Row, RowKind
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.lines import TextView
from gitshadow.ui.patch_parser import FilePatch, Patch, PatchHunk, PatchLine, parse
from gitshadow.ui.syntax import Tint, Tints, tints

SIDE_COLUMNS = 100
"""Side by side needs as many columns."""
_BOTH_NUMBERS = 80
_LARGE = 200_000
"""A patch of more characters is not parsed on the thread that draws."""
_PARTS = {" ": "diff--same", "-": "diff--less", "+": "diff--more"}


class DiffCursor(NamedTuple):
    """Hold where the cursor is; no hunk above the first one of a file."""

    file: FilePatch
    hunk: PatchHunk | None


class DiffView(TextView):
    """Show a patch."""

    DEFAULT_CSS = """
    DiffView { background: $surface; color: $foreground; }
    DiffView > .diff--file { text-style: bold; background: $panel; }
    DiffView > .diff--note { color: $text-muted; text-style: italic; }
    DiffView > .diff--hunk { color: $text-primary; background: $primary-muted; }
    DiffView > .diff--same { color: $foreground; }
    DiffView > .diff--more { color: $foreground; background: $success 18%; }
    DiffView > .diff--less { color: $foreground; background: $error 18%; }
    DiffView > .diff--none { background: $panel 50%; }
    DiffView > .diff--gutter { color: $text-muted; }
    DiffView > .diff--cursor { color: $text-accent; text-style: bold; }
    DiffView > .diff--comment { color: $text-muted; text-style: italic; }
    DiffView > .diff--keyword { color: $text-accent; }
    DiffView > .diff--name { color: $text-warning; }
    DiffView > .diff--number { color: $text-secondary; }
    DiffView > .diff--string { color: $text-success; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "diff--file",
        "diff--note",
        "diff--hunk",
        "diff--same",
        "diff--more",
        "diff--less",
        "diff--none",
        "diff--gutter",
        "diff--cursor",
        "diff--comment",
        "diff--keyword",
        "diff--name",
        "diff--number",
        "diff--string",
    }
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(keys.DIFF)

    side: reactive[bool] = reactive(False)
    """Whether it is to be side by side, where there is room."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._patch = Patch()
        self._rows: list[Row] = []
        self._tints: dict[tuple[int, int], Tints] = {}
        self._untinted: list[tuple[int, int]] = []
        self._digits = 1
        self._beside = False

    # -- what is shown -----------------------------------------------------------------------

    def show(self, patch: str, *, title: str) -> None:
        """Show the text of a patch; an empty one shows nothing.

        Args:
            patch: As `show` and `diff` answer it.
            title: What the border says, if there is one.
        """
        self.border_title = Content(glyphs_of(self).text(title))
        self.workers.cancel_group(self, "parse")
        if len(patch) < _LARGE:
            self.show_patch(parse(patch) if patch else None)
        else:

            async def read() -> None:
                self.show_patch(await asyncio.to_thread(parse, patch))

            # As a function: one that is cancelled before it begins leaves no coroutine behind.
            work: WorkType[None] = read
            self.run_worker(work, group="parse")

    def show_patch(self, patch: Patch | None) -> None:
        """Show a patch; None shows nothing at all."""
        self.workers.cancel_group(self, "tints")
        self._patch = patch or Patch()
        self._tints, self._untinted = {}, []
        numbers = (
            max(line.old or 0, line.new or 0)
            for file in self._patch.files
            for hunk in file.hunks
            for line in hunk.lines[-1:]
        )
        self._digits = max(2, len(str(max(numbers, default=0))))
        self.shift = 0
        self._arrange(empty=patch is None)
        self.changed()

    @property
    def line(self) -> int | None:
        """Return the number that the line at the cursor has now, or had; None elsewhere."""
        row = self._rows[self.cursor] if self._rows else None
        number = None if row is None else row.left if row.right is None else row.right
        if row is None or number is None:
            return None
        line = self._hunk(row).lines[number]
        return line.old if line.new is None else line.new

    @property
    def place(self) -> DiffCursor | None:
        """Return where the cursor is; None where nothing is shown."""
        if not self._patch.files:
            return None
        row = self._rows[self.cursor]
        file = self._patch.files[row.file]
        return DiffCursor(file, file.hunks[row.hunk] if row.hunk >= 0 else None)

    def _arrange(self, *, empty: bool = False) -> None:
        self._beside = self.side and self.size.width >= SIDE_COLUMNS
        rows = diff_rows.side_by_side if self._beside else diff_rows.unified
        self._rows = [] if empty else rows(self._patch)

    def _rearrange(self) -> None:
        """Arrange anew and stay at the same line."""
        if not self._rows:
            return
        here = self._rows[self.cursor]
        self._arrange()
        same = (at for at, row in enumerate(self._rows) if _meets(row, here))
        self.changed(next(same, 0))

    def watch_side(self) -> None:
        """Arrange the lines the other way."""
        self._rearrange()

    def on_resize(self) -> None:
        """Go back to one column where two have no room any more."""
        if self._beside != (self.side and self.size.width >= SIDE_COLUMNS):
            self._rearrange()

    # -- keys --------------------------------------------------------------------------------

    def action_toggle_side(self) -> None:
        """Show both sides beside each other, or one column again."""
        self.side = not self.side
        if self.side and not self._beside:
            self.notify(f"side by side needs {SIDE_COLUMNS} columns")

    def action_next(self, by: int) -> None:
        """Go to the next hunk, or the one before."""
        self._go_to(RowKind.HUNK, by)

    def action_next_file(self, by: int) -> None:
        """Go to the next file, or the one before."""
        self._go_to(RowKind.FILE, by)

    def _go_to(self, kind: RowKind, by: int) -> None:
        row = self.cursor + by
        while 0 <= row < len(self._rows):
            if self._rows[row].kind is kind:
                self.go(row)
                self.scroll_to_line(max(0, row - 1))
                return
            row += by

    # -- drawing -----------------------------------------------------------------------------

    def row_count(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    def said(self, row: int) -> str:
        """Return what a row says, of both sides."""
        shown = self._rows[row]
        sides = {shown.left, shown.right} - {None}
        lines = self._hunk(shown).lines if sides else ()
        return shown.text + "\n".join(lines[at].text for at in sides if at is not None)

    def draw(self, row: int, width: int) -> Iterator[Segment]:
        """Draw one row: a mark where the cursor is, and what the row holds."""
        shown = self._rows[row]
        glyphs = glyphs_of(self)
        mark = "▌" if glyphs.unicode else ">"
        is_here = row == self.cursor and self.has_focus
        yield Segment(mark if is_here else " ", self._style("diff--cursor"))
        if shown.kind is not RowKind.LINE:
            style = self._style(f"diff--{shown.kind.name.lower()}")
            said = glyphs.cut(shown.text, max(1, width - 1))
            yield from self._filled([Segment(said, style)], width - 1, style)
        elif self._beside:
            yield from self._two(shown, width - 1)
        else:
            yield from self._one(shown, width - 1)

    def _one(self, row: Row, width: int) -> Iterator[Segment]:
        number = row.left if row.right is None else row.right
        line = self._hunk(row).lines[number or 0]
        said = [line.old, line.new]
        if width < _BOTH_NUMBERS:
            said = [line.old if line.new is None else line.new]
        yield from self._line(row, number or 0, said, width)

    def _two(self, row: Row, width: int) -> Iterator[Segment]:
        half = (width - 1) // 2
        yield from self._half(row, row.left, half, old=True)
        yield Segment(glyphs_of(self).bar)
        yield from self._half(row, row.right, width - half - 1, old=False)

    def _half(
        self, row: Row, number: int | None, width: int, *, old: bool
    ) -> Iterator[Segment]:
        if number is None:
            yield Segment(" " * width, self._style("diff--none"))
            return
        line = self._hunk(row).lines[number]
        yield from self._line(row, number, [line.old if old else line.new], width)

    def _line(
        self, row: Row, number: int, said: list[int | None], width: int
    ) -> Iterator[Segment]:
        """Draw a line in so many cells: its numbers, its sign, its text."""
        line = self._hunk(row).lines[number]
        base = self._style(_PARTS[line.sign])
        numbers = "".join(f"{one or '':>{self._digits}} " for one in said)
        yield Segment(numbers, base + self._style("diff--gutter"))
        yield Segment(line.sign, base + Style(bold=line.sign != " "))
        room = max(0, width - len(numbers) - 1)
        yield from self.shifted(self._text(row, number, line, base), room, base)

    def _text(
        self, row: Row, number: int, line: PatchLine, base: Style
    ) -> Iterator[Segment]:
        glyphs = glyphs_of(self)
        at = 0
        for tint in self._tint(row, number):
            yield Segment(glyphs.text(line.text[at : tint.start]), base)
            style = base + self._colour(f"diff--{tint.kind}")
            yield Segment(glyphs.text(line.text[tint.start : tint.end]), style)
            at = tint.end
        yield Segment(glyphs.text(line.text[at:]), base)
        note = base + self._style("diff--note")
        if line.left_out:
            yield Segment(f" [{line.left_out} more characters]", note)
        if not line.ended:
            yield Segment(" [no newline at the end]", note)

    def _filled(
        self, parts: list[Segment], width: int, style: Style
    ) -> Iterator[Segment]:
        used = sum(part.cell_length for part in parts)
        yield from parts
        yield Segment(" " * max(0, width - used), style)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(name)

    def _colour(self, name: str) -> Style:
        """Return a style without its background, which the sign of the line gives."""
        found = self.get_component_rich_style(name, partial=True)
        return Style(color=found.color, italic=found.italic)

    def _hunk(self, row: Row) -> PatchHunk:
        return self._patch.files[row.file].hunks[row.hunk]

    # -- colours of the language -------------------------------------------------------------

    def _tint(self, row: Row, number: int) -> list[Tint]:
        """Return the tints of a line; what has none yet gets them a moment later."""
        key = row.file, row.hunk
        found = self._tints.get(key)
        if found is None:
            if key not in self._untinted:
                self._untinted.append(key)
                self.call_later(self._begin_tinting)
            return []
        return list(found[number])

    def _begin_tinting(self) -> None:
        busy = any(one.group == "tints" and one.node is self for one in self.workers)
        if self._untinted and not busy:
            self.run_worker(self._tint_hunks(), group="tints")

    async def _tint_hunks(self) -> None:
        while self._untinted:
            key = self._untinted[-1]  # what was asked for last is on the screen
            file = self._patch.files[key[0]]
            found = await asyncio.to_thread(_tints_of, file.path, file.hunks[key[1]])
            self._tints[key] = found
            self._untinted.remove(key)
            self.refresh()


def _meets(row: Row, here: Row) -> bool:
    if (row.kind, row.file, row.hunk) != (here.kind, here.file, here.hunk):
        return False
    lines = {row.left, row.right} & {here.left, here.right} - {None}
    return bool(lines) or here.kind is not RowKind.LINE


def _tints_of(path: str, hunk: PatchHunk) -> Tints:
    """Return the tints of a hunk's lines; both its sides are read as they were."""
    found: list[list[Tint]] = [[] for _ in hunk.lines]
    for other in "+-":
        side = [at for at, line in enumerate(hunk.lines) if line.sign != other]
        texts = [hunk.lines[at].text for at in side]
        for at, tinted in zip(side, tints(path, texts), strict=True):
            found[at] = list(tinted)
    return found
