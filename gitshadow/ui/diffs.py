"""A patch on the screen: unified or side by side, with syntax highlighting.

Invariant: no difference is shown by colour alone: signs and words show it too. Every line of a
patch is in one row, or, as context side by side, on both sides of one.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, StrEnum, auto
from functools import cache
from os.path import basename
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from textual.binding import BindingType
from textual.content import Content, Span
from textual.highlight import HighlightTheme, highlight
from textual.reactive import reactive

from gitshadow.render.hunks import PatchHunk, PatchLine
from gitshadow.ui import keys
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.lines import TextView
from gitshadow.ui.patches import FilePatch, Patch, paired

SIDE_COLUMNS = 100
"""Side by side needs as many columns."""
_BOTH_NUMBERS = 80
_PARTS = {" ": "diff--same", "-": "diff--less", "+": "diff--more"}
_TINTED_LINES = 2_000
_TINTED_CHARACTERS = 60_000
# A longer line is no source text, and the lexers' regular expressions that look ahead can take
# time that grows with its square.
_LINE_CHARACTERS = 500


_BY_NAME: Mapping[str, str] = {
    "makefile": "make",
    "dockerfile": "docker",
    "cmakelists.txt": "cmake",
}


class TokenKind(StrEnum):
    """The kind of a part of a line that gets a colour."""

    COMMENT = "comment"
    KEYWORD = "keyword"
    NAME = "name"
    NUMBER = "number"
    STRING = "string"


class Tint(NamedTuple):
    """Where in a line a part of a kind begins and ends."""

    start: int
    end: int
    kind: TokenKind


Tints = Sequence[Sequence[Tint]]


class _Kinds(HighlightTheme):
    """Return the kind of each type of token that gets a colour."""

    STYLES = {  # noqa: RUF012 (so declared where it is inherited from)
        ("Comment",): TokenKind.COMMENT,
        ("Keyword",): TokenKind.KEYWORD,
        ("Literal", "Number"): TokenKind.NUMBER,
        ("Literal", "String"): TokenKind.STRING,
        ("Name", "Class"): TokenKind.NAME,
        ("Name", "Function"): TokenKind.NAME,
        ("Name", "Tag"): TokenKind.NAME,
    }


def tints(path: str, lines: Sequence[str]) -> Tints:
    """Return the tints of each line, by the type of file that a path names.

    Unknown types and long texts have none. It is too slow for the thread that draws.
    """
    nothing: list[list[Tint]] = [[] for _ in lines]
    too_many = len(lines) > _TINTED_LINES or sum(map(len, lines)) > _TINTED_CHARACTERS
    if too_many or any(len(line) > _LINE_CHARACTERS for line in lines):
        return nothing
    language = _language(basename(path))
    if language == "default":
        return nothing
    # The lines are highlighted as one text, because strings and comments go over several lines.
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line) + 1)
    for span in highlight("\n".join(lines), language=language, theme=_Kinds).spans:
        if span.style in list(TokenKind):
            _spread(nothing, begins, span)
    return nothing


def _spread(found: list[list[Tint]], begins: Sequence[int], span: Span) -> None:
    """Add a span to each of the lines that it is in."""
    kind = TokenKind(str(span.style))
    row = bisect_right(begins, span.start) - 1
    while row < len(found) and begins[row] < span.end:
        start, end = max(span.start, begins[row]), min(span.end, begins[row + 1] - 1)
        if start < end:
            _add(found[row], Tint(start - begins[row], end - begins[row], kind))
        row += 1


def _add(tinted: list[Tint], tint: Tint) -> None:
    """Add a tint, as one with the last where that goes on."""
    if tinted and (tinted[-1].end, tinted[-1].kind) == (tint.start, tint.kind):
        tint = Tint(tinted.pop().start, tint.end, tint.kind)
    tinted.append(tint)


@cache
def _language(name: str) -> str:
    """Return what reads a type of file; by its name alone, its content is not guessed at."""
    return _BY_NAME.get(name.lower()) or Syntax.guess_lexer(name)


class RowKind(Enum):
    """What a row shows."""

    FILE = auto()
    NOTE = auto()
    HUNK = auto()
    LINE = auto()


class Row(NamedTuple):
    """One row: its text, or the numbers of its lines in a hunk."""

    kind: RowKind
    text: str = ""
    file: int = 0
    hunk: int = -1
    left: int | None = None
    right: int | None = None


def unified(patch: Patch) -> list[Row]:
    """Return the rows of a patch, a line after the other."""
    return list(_rows(patch, side=False))


def side_by_side(patch: Patch) -> list[Row]:
    """Return the rows of a patch, what was there on the left, what is there on the right."""
    return list(_rows(patch, side=True))


def _rows(patch: Patch, *, side: bool) -> Iterator[Row]:
    for number, file in enumerate(patch.files):
        yield from _file_rows(number, file, side=side)
    if patch.left_out:
        yield Row(RowKind.NOTE, f"{patch.left_out} more lines are not shown")
    elif not patch.files:
        yield Row(RowKind.NOTE, "no content to show")


def _file_rows(number: int, file: FilePatch, *, side: bool) -> Iterator[Row]:
    yield Row(RowKind.FILE, file.title, number)
    for note in file.notes:
        yield Row(RowKind.NOTE, note, number)
    for at, hunk in enumerate(file.hunks):
        yield Row(RowKind.HUNK, hunk.head, number, at)
        lines = _beside(hunk) if side else _after_each_other(hunk.lines)
        for left, right in lines:
            yield Row(RowKind.LINE, "", number, at, left, right)


def _after_each_other(
    lines: Sequence[PatchLine],
) -> Iterator[tuple[int | None, int | None]]:
    for at, line in enumerate(lines):
        yield (None if line.sign == "+" else at), (None if line.sign == "-" else at)


def _beside(hunk: PatchHunk) -> Iterator[tuple[int | None, int | None]]:
    numbered = [line._replace(text=str(at)) for at, line in enumerate(hunk.lines)]
    for left, right in paired(numbered):
        yield _number(left), _number(right)


def _number(line: PatchLine | None) -> int | None:
    return None if line is None else int(line.text)


class DiffCursor(NamedTuple):
    """Where the cursor is; without a hunk above the first one of a file."""

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
    """Whether to show it side by side if there is room."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._patch = Patch()
        self._rows: list[Row] = []
        self._tints: dict[tuple[int, int], Tints] = {}
        self._untinted: list[tuple[int, int]] = []
        self._digits = 1
        self._beside = False

    def show(self, patch: Patch | None, *, title: str = "") -> None:
        """Show a patch; None shows nothing at all.

        Args:
            patch: What to show.
            title: The text of the border, if there is one.
        """
        self.border_title = Content(glyphs_of(self).text(title))
        # The colours of the patch before would come in at the same numbers of files and hunks.
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
        rows = side_by_side if self._beside else unified
        self._rows = [] if empty else rows(self._patch)

    def _rearrange(self) -> None:
        """Arrange the rows again and stay at the same line."""
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
        """Return to one column if there is no room for two."""
        # Only if the layout changes: rows are made from the whole patch.
        if self._beside != (self.side and self.size.width >= SIDE_COLUMNS):
            self._rearrange()

    def action_toggle_side(self) -> None:
        """Show both sides side by side, or one column again."""
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
            # What was asked for last is on the screen.
            key = self._untinted[-1]
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
    # A string or comment that is opened in a removed line must not colour the added ones.
    for other in "+-":
        side = [at for at, line in enumerate(hunk.lines) if line.sign != other]
        texts = [hunk.lines[at].text for at in side]
        for at, tinted in zip(side, tints(path, texts), strict=True):
            found[at] = list(tinted)
    return found
