"""The timeline as a list: blocks in their lanes, newest at the top.

Invariant: what is selected stays selected when rows come in above or below it.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip

from gitshadow import words
from gitshadow.messages.lists import PinRow
from gitshadow.messages.rows import EventRow
from gitshadow.render.text import local_time
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.lines import Listing
from gitshadow.ui.paging import HELD, PageWindow
from gitshadow.ui.timeline import (
    FIRST_AGENT,
    NOBODY,
    UNKNOWN,
    YOU,
    Block,
    BlockKind,
    DayLine,
    LanePosition,
    TimelineLine,
    UndoMarks,
    blocks_of,
    lettered,
    lines_of,
    placed,
)

_NEAR = 60
"""With fewer lines than this between the screen and the end of the rows, more are fetched."""
_DARK = ("#e69f00", "#56b4e9", "#2fbf94", "#f0e442", "#e08fbd", "#ff8a4c")
_LIGHT = ("#8a5a00", "#00609c", "#006b4f", "#6b6200", "#8f3f6f", "#a83f00")
"""Colours that colour-blind people can distinguish; the letter has the same meaning."""
_WIDE, _MEDIUM = 100, 70


# Each redraw formats the times of all loaded blocks.
_local = lru_cache(maxsize=4 * HELD)(local_time)


class History(Listing):
    """Show the timeline."""

    class Selected(Message):
        """Another block, or another event of it, is under the cursor."""

    class Wanting(Message):
        """The end of the loaded rows is near."""

        def __init__(self, older: bool) -> None:
            super().__init__()
            self.older = older

    class Jumping(Message):
        """The other end of the history is wanted, which is not loaded."""

        def __init__(self, oldest: bool) -> None:
            super().__init__()
            self.oldest = oldest

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.window = PageWindow()
        self.marks = UndoMarks()
        self.pins: tuple[PinRow, ...] = ()
        self.opened: set[str] = set()
        self.letters: Mapping[str, str] = lettered({}, ())
        self.empty = "looking …"
        self._lines: list[TimelineLine | DayLine] = []
        self._places: dict[str, LanePosition] = {}
        self._told = ""

    def hold(self, window: PageWindow) -> None:
        """Show other rows; the cursor stays on its line if that is still there."""
        self.window = window
        self._fold()

    def mark(self, marks: UndoMarks, pins: Iterable[PinRow]) -> None:
        """Show other marks and pins."""
        self.marks, self.pins = marks, tuple(pins)
        self._fold()

    @property
    def line(self) -> TimelineLine | None:
        """Return the line under the cursor."""
        line = self._lines[self.cursor] if self.cursor < len(self._lines) else None
        return None if isinstance(line, DayLine) else line

    @property
    def block(self) -> Block | None:
        """Return the block under the cursor."""
        return self.line.block if self.line else None

    def select(self, key: str) -> bool:
        """Put the cursor on the line with a key; return whether there is one."""
        for number, line in enumerate(self._lines):
            if line.key == key:
                self.go(number)
                return True
        return False

    def find(self, wanted: str, *, older: bool, here: bool = False) -> bool:
        """Go to the next block whose prompt or files contain a text; return whether one is loaded.

        With `here` the block under the cursor counts.
        """
        step, number = (1 if older else -1), self.cursor
        if not here:
            number += step
        while 0 <= number < len(self._lines):
            line = self._lines[number]
            if line.block and not line.event and line.block.holds(wanted):
                self.go(number)
                return True
            number += step
        return False

    def select_event(self, seq: int) -> bool:
        """Put the cursor on the block of an event; return whether it is loaded."""
        for number, line in enumerate(self._lines):
            if line.block and any(event.seq == seq for event in line.block.events):
                self.go(number)
                return True
        return False

    def _fold(self) -> None:
        """Make the lines again, and put the cursor where it was."""
        selected = self.line
        # The selected line stays at its place on the screen when new changes come in above it.
        offset, at_top = self.cursor - self.top, self.top == 0
        # Newer pins belong above rows that are not loaded.
        blocks = blocks_of(self.window.rows, self.pins if not self.window.newer else ())
        days = {block.key: _local(block.ts)[:10] for block in blocks}
        self.letters = lettered(
            self.letters, [block.lane for block in reversed(blocks)]
        )
        self._lines = list(lines_of(blocks, self.opened, days))
        places = placed([block.lane for block in blocks], self._columns)
        self._places = {
            block.key: place for block, place in zip(blocks, places, strict=True)
        }
        self._return_to(selected, offset, at_top=at_top)

    def _return_to(
        self, selected: TimelineLine | None, offset: int, *, at_top: bool
    ) -> None:
        keys = {line.key: number for number, line in enumerate(self._lines)}
        wanted = [selected.key] if selected else []
        wanted += [selected.block.key] if selected else []
        cursor = next((keys[key] for key in wanted if key in keys), 0)
        is_seen = at_top and cursor < max(1, self.size.height)
        self.changed(cursor, 0 if is_seen else cursor - offset)

    @property
    def _columns(self) -> int:
        width = self.size.width or _MEDIUM
        return FIRST_AGENT + (6 if width >= _WIDE else 4 if width >= _MEDIUM else 2)

    def row_count(self) -> int:
        """Return how many lines there are; without rows, one with a note."""
        return len(self._lines) or 1

    def can_stop(self, row: int) -> bool:
        """Return whether a line is no day."""
        return not self._lines or self._lines[row].block is not None

    def draw(self, row: int, width: int) -> Iterable[Segment]:
        """Draw a day, a block or an event."""
        glyphs = glyphs_of(self)
        if not self._lines:
            return [Segment(" " + glyphs.cut(self.empty, width - 1), self.faint())]
        line = self._lines[row]
        if isinstance(line, DayLine):
            said = f"{glyphs.rule * 2} {line.day} "
            return [Segment((said + glyphs.rule * width)[:width], self.faint())]
        if line.event is not None:
            return self._draw_event(line.block, line.event, width)
        return self._draw_block(line.block, width)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen; after the last one, that there are older changes."""
        if self._lines and self.top + y == len(self._lines) and self.window.older:
            glyphs, width = glyphs_of(self), self.size.width
            said = glyphs.cut(f" {glyphs.more} older changes: down", width)
            shown = Segment(said, self._base + self.faint())
            return Strip([shown]).adjust_cell_length(width, self._base)
        return super().render_line(y)

    def _draw_block(self, block: Block, width: int) -> Iterable[Segment]:
        glyphs = glyphs_of(self)
        undone, part = self.marks.of(block), self.marks.part_of(block)
        time = _local(block.ts)[11:]
        pieces = [Segment(f" {time} "), *self._graph(block)]
        mark = f" {glyphs.undone} undone" if undone else ""
        if part is not None:
            mark = f" {glyphs.undone} {part[0]}/{part[1]}"
        used = sum(len(piece.text) for piece in pieces)
        room = max(0, width - used - len(mark))
        style = self.faint() if undone and not part else Style.null()
        pieces.append(Segment(glyphs.fit(self.said_of(block), room), style))
        pieces.append(Segment(mark, self.faint()))
        return pieces

    def said_of(self, block: Block) -> str:
        """Return the text of a block's line after its lanes."""
        if block.pin is not None:
            return f"pin {block.pin.name}"
        head = block.head
        files = len({event.path for event in block.events if event.path})
        more = "+" if self._goes_on(block) else ""
        counted = f"{files}{more} {'file' if files == 1 and not more else 'files'}"
        who = who_of(head)
        if block.kind is BlockKind.OP:
            op = self.marks.ops.get(head.op or "")
            return f"{op.kind if op else 'restore'}: {counted}  ({who})"
        if block.kind is BlockKind.LOOSE:
            note = head.note or ("" if head.path else head.reason)
            said = note or (head.path if files == 1 else counted)
            if head.files:
                return f"git switched {words.counted(head.files, 'file')}: {said}"
            return f"{'git switched' if head.switched else head.kind}: {said}"
        said = block.prompt or _names(block)
        return f"{who:<11} {counted:<8} {said}"

    def _goes_on(self, block: Block) -> bool:
        """Return whether a block may have more events than are loaded."""
        window = self.window
        below = window.older and block.events[-1] is window.rows[-1]
        return below or (window.newer and block.events[0] is window.rows[0])

    def _draw_event(
        self, block: Block, event: EventRow, width: int
    ) -> Iterable[Segment]:
        glyphs = glyphs_of(self)
        graph = self._graph(block, event=True)
        time = _local(event.ts or "")[11:]
        used = sum(len(piece.text) for piece in graph) + 10
        name = event.path or ""
        if event.old_path:
            name = f"{event.old_path} -> {name}"
        said = f"  {event.kind:<7} {name}"
        if event.confidence not in ("certain", "", None):
            said += f"  ({event.confidence})"
        faint = self.faint()
        return [
            Segment(f" {time} ", faint),
            *graph,
            Segment(glyphs.cut(said, width - used)),
        ]

    def _graph(self, block: Block, *, event: bool = False) -> list[Segment]:
        """Draw the lanes of a line: letters for blocks, bars where lanes continue."""
        glyphs, place = glyphs_of(self), self._places[block.key]
        beside = {*place.beside, *((place.column,) if event else ())}
        pieces = []
        for column in range(self._columns):
            if column == place.column and not event:
                letter = self.letters[block.lane]
                pieces.append(Segment(letter + " ", self.colour(block.lane)))
            else:
                pieces.append(
                    Segment(
                        (glyphs.bar if column in beside else " ") + " ", self.faint()
                    )
                )
        sign = glyphs.opened if block.key in self.opened else glyphs.closed
        sign = sign if len(block.events) > 1 and not event else " "
        if place.column < 0 and not event:
            sign = self.letters[NOBODY]
        pieces.append(Segment(sign + " ", self.faint()))
        return pieces

    def colour(self, lane: str) -> Style:
        """Return the style of a lane; its letter identifies it too."""
        if lane == YOU:
            return Style(bold=True)
        if lane in (UNKNOWN, NOBODY):
            return self.faint()
        palette = _DARK if self.app.current_theme.dark else _LIGHT
        number = ord(self.letters[lane].upper()) - ord("A")
        return Style(color=palette[number % len(palette)], bold=True)

    def legend(self) -> list[tuple[str, str]]:
        """Return the lanes on the screen, each with its meaning, in order."""
        found: dict[str, str] = {}
        for line in self._lines[self.top : self.top + max(1, self.size.height)]:
            if line.block is not None and line.block.lane != NOBODY:
                lane = line.block.lane
                agent = line.block.head.agent or "agent"
                found.setdefault(lane, lane if lane in (YOU, UNKNOWN) else agent)
        return sorted(found.items(), key=lambda item: self.letters[item[0]])

    def moved(self) -> None:
        """Report what is selected, and that the end of the loaded rows is near."""
        key = self.line.key if self.line else ""
        if key != self._told:
            self._told = key
            self.post_message(self.Selected())
        window, bottom = self.window, self.top + max(1, self.size.height)
        near = 1 if window.is_heavy else _NEAR
        if window.is_full:
            return
        if window.older and bottom + near > len(self._lines):
            self.post_message(self.Wanting(older=True))
        elif window.newer and self.top < near:
            self.post_message(self.Wanting(older=False))

    def go(self, row: int, step: int = 1) -> None:
        """Put the cursor on a line; beyond the ends ask for more, however much is loaded."""
        if self.window.is_full and row >= self.row_count() and self.window.older:
            self.post_message(self.Wanting(older=True))
        elif self.window.is_full and row <= 0 and self.window.newer:
            self.post_message(self.Wanting(older=False))
        super().go(row, step)

    def kept(self, *, older: bool) -> int:
        """Return the row that stays when a page comes in: what the screen shows is not dropped.

        Args:
            older: Whether the page comes in below, so that rows above go, or the other way.
        """
        bottom = self.top + max(1, self.size.height) + _NEAR
        near = (
            self._lines[max(0, self.top - _NEAR) :] if older else self._lines[:bottom]
        )
        # A pin has no events, so it keeps no row loaded.
        blocks = [one.block for one in near if one.block and one.block.events]
        if not blocks:
            return 0
        if older:
            return max(block.head.seq for block in blocks)
        return min(block.events[-1].seq for block in blocks)

    def toggle(self) -> None:
        """Show the events of the block under the cursor, or hide them."""
        if self.block is None or len(self.block.events) < 1:
            return
        key = self.block.key
        self.opened ^= {key}
        self._fold()
        self.select(key)

    def along(self, step: int) -> bool:
        """Go to the next block of the same lane; return whether one is loaded."""
        lane = self.block.lane if self.block else ""
        number = self.cursor + step
        while 0 <= number < len(self._lines):
            line = self._lines[number]
            if line.block and not line.event and line.block.lane == lane:
                self.go(number)
                return True
            number += step
        return False

    def action_first(self) -> None:
        """Go to the newest block of all."""
        if self.window.newer:
            self.post_message(self.Jumping(oldest=False))
        else:
            super().action_first()

    def action_last(self) -> None:
        """Go to the oldest block of all."""
        if self.window.older:
            self.post_message(self.Jumping(oldest=True))
        else:
            super().action_last()

    def on_resize(self) -> None:
        """Lay the lanes out again: a narrow screen has fewer."""
        self._fold()


def who_of(event: EventRow) -> str:
    """Return who wrote, in one word or two."""
    if event.confidence == "ambiguous":
        return "ambiguous"
    if event.actor == "agent":
        return event.agent or "agent"
    return {"human": "you", "unknown": "you?"}.get(event.actor or "", "-")


def _names(block: Block) -> str:
    names = [row.path for row in block.files()]
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
