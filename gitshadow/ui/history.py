"""The timeline as a list: blocks in their lanes, newest at the top.

Invariant: what is selected stays selected when rows come in above or below it.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.message import Message

from gitshadow import words
from gitshadow.messages.history import HistoryRow
from gitshadow.messages.lists import PinRow
from gitshadow.messages.rows import EventRow
from gitshadow.render.history import author_of, seconds_since
from gitshadow.render.text import local_time
from gitshadow.ui.data_source import HELD, PageWindow
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.lines import Listing
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
    blocks_of,
    lettered,
    lines_of,
    placed,
)

_NEAR = 40
"""With fewer lines than this between the screen and the end of the rows, more are fetched."""
_DARK = ("#e69f00", "#56b4e9", "#2fbf94", "#f0e442", "#e08fbd", "#ff8a4c")
_LIGHT = ("#8a5a00", "#00609c", "#006b4f", "#6b6200", "#8f3f6f", "#a83f00")
"""Colours that colour-blind people can distinguish; the letter has the same meaning."""
_WIDE, _MEDIUM = 100, 70
_AGES_S = 30.0
"""How often the ages on the screen are written again."""
_AGE, _MOST_WHO = 7, 14
_MOST_LINES = 9_999


# Each redraw formats the times of all loaded blocks.
_local = lru_cache(maxsize=4 * HELD)(local_time)


class History(Listing):
    """Show the timeline."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"line--more", "line--less"}
    DEFAULT_CSS = """
    History > .line--more { color: $text-success; }
    History > .line--less { color: $text-error; }
    """

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

    class Grown(Message):
        """A block that shows its events has more of them now."""

        def __init__(self, line: TimelineLine) -> None:
            super().__init__()
            self.line = line

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.window = PageWindow()
        self.pins: tuple[PinRow, ...] = ()
        self.opened: dict[str, Sequence[EventRow]] = {}
        self._opened_at: dict[str, int] = {}
        self.worktrees: Sequence[str] = ()
        self.letters: Mapping[str, str] = lettered({}, ())
        self.empty = "looking …"
        self._lines: list[TimelineLine | DayLine] = []
        self._places: dict[str, LanePosition] = {}
        self._lanes = FIRST_AGENT
        self._who, self._counts = 0, 0
        self._told = ""

    def hold(self, window: PageWindow) -> None:
        """Show other rows; the cursor stays on its line if that is still there."""
        self.window = window
        self._fold()
        for row in window.rows if self.opened else ():
            block = Block(row)
            if self._opened_at.get(block.key, row.seq) != row.seq:
                self._opened_at[block.key] = row.seq
                self.post_message(self.Grown(TimelineLine(block)))

    def pin(self, pins: Iterable[PinRow]) -> None:
        """Show other pins."""
        self.pins = tuple(pins)
        self._fold()

    def on_mount(self) -> None:
        """Keep the ages on the screen true."""
        self.set_interval(_AGES_S, self.refresh)

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
        today = time.strftime("%Y-%m-%d")
        self._lines = list(lines_of(blocks, self.opened, days, today))
        changes = [one.row for one in blocks if one.kind is BlockKind.CHANGES]
        self._who = max((len(author_of(row)) for row in changes), default=0)
        self._counts = max((len(_counts(row)) for row in changes), default=0)
        places = placed([block.lane for block in blocks], self._columns)
        # No wider than the lanes that there are: the prompts get the rest.
        self._lanes = max(FIRST_AGENT, *(1 + place.column for place in places), 0)
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

    def _draw_block(self, block: Block, width: int) -> Iterable[Segment]:
        glyphs, row = glyphs_of(self), block.row
        style = self.faint() if block.is_undone else Style.null()
        pieces = [
            Segment(f" {age_of(row.ts):>{_AGE}} ", self.faint()),
            *self._graph(block),
        ]
        if len(self.worktrees) > 1:
            longest = min(12, max(map(len, self.worktrees)))
            pieces.append(
                Segment(glyphs.fit(row.worktree, longest) + " ", self.faint())
            )
        if block.kind is BlockKind.CHANGES:
            pieces += self._draw_counts(block, width)
        mark = self._mark(block, width)
        used = sum(piece.cell_length for piece in pieces)
        room = max(0, width - used - len(mark))
        pieces.append(Segment(glyphs.fit(said_of(block), room), style))
        pieces.append(Segment(mark, self.faint()))
        return pieces

    def _draw_counts(self, block: Block, width: int) -> Iterable[Segment]:
        """Draw who wrote, how many files, and how many lines came and went."""
        row = block.row
        # On a narrow screen the letter alone names the author; the title explains it.
        if width >= _MEDIUM:
            who = min(self._who, _MOST_WHO)
            yield Segment(glyphs_of(self).fit(author_of(row), who) + "  ")
        yield Segment(f"{words.counted(row.files, 'file'):<8} ")
        is_crowded = width < _MEDIUM and len(self.worktrees) > 1
        if is_crowded or not self._counts:
            return
        added, _, removed = _counts(row).partition(" ")
        yield Segment(added, self._counted("more"))
        yield Segment(f" {removed}" if removed else "", self._counted("less"))
        yield Segment(" " * (self._counts + 2 - len(_counts(row))))

    def _counted(self, what: str) -> Style:
        return Style(color=self.get_component_rich_style(f"line--{what}").color)

    def _mark(self, block: Block, width: int) -> str:
        row, sign = block.row, glyphs_of(self).undone
        # Where there is little room the line above the files says it.
        shows_unsure = row.unsure and width >= _WIDE
        unsure = f" ({row.unsure} unsure)" if shows_unsure else ""
        if block.is_undone:
            return f" {sign} undone{unsure}"
        part = f" {sign} {row.undone}/{row.files}" if row.undone else ""
        return part + unsure

    def _draw_event(
        self, block: Block, event: EventRow, width: int
    ) -> Iterable[Segment]:
        glyphs = glyphs_of(self)
        graph = self._graph(block, event=True)
        clock = _local(event.ts or "")[11:19]
        used = sum(piece.cell_length for piece in graph) + _AGE + 2
        name = event.path or ""
        if event.old_path:
            name = f"{event.old_path} -> {name}"
        said = f"  {event.kind:<7} {name}"
        if event.confidence not in ("certain", "", None):
            said += f"  ({event.confidence})"
        faint = self.faint()
        return [
            Segment(f"{clock:>{_AGE + 1}} ", faint),
            *graph,
            Segment(glyphs.cut(said, width - used)),
        ]

    def _graph(self, block: Block, *, event: bool = False) -> list[Segment]:
        """Draw the lanes of a line: letters for blocks, bars where lanes continue."""
        glyphs, place = glyphs_of(self), self._places[block.key]
        beside = {*place.beside, *((place.column,) if event else ())}
        pieces = []
        for column in range(self._lanes):
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
        has_parts = block.row.files > 1 or block.key in self.opened
        sign = sign if has_parts and not event else " "
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
                agent = line.block.row.agent or "agent"
                found.setdefault(lane, lane if lane in (YOU, UNKNOWN) else agent)
        return sorted(found.items(), key=lambda item: self.letters[item[0]])

    def moved(self) -> None:
        """Report what is selected, and that the end of the loaded rows is near."""
        key = self.line.key if self.line else ""
        if key != self._told:
            self._told = key
            self.post_message(self.Selected())
        window, bottom = self.window, self.top + max(1, self.size.height)
        if window.older and bottom + _NEAR > len(self._lines):
            self.post_message(self.Wanting(older=True))
        elif window.newer and self.top < _NEAR:
            self.post_message(self.Wanting(older=False))

    def find(self, wanted: str, *, older: bool, here: bool) -> bool:
        """Go to the next block with a text; return False if only the backend can tell.

        With `here` the block under the cursor counts.
        """
        step, number = (1 if older else -1), self.cursor
        number += 0 if here else step
        while 0 <= number < len(self._lines):
            line = self._lines[number]
            if line.block is not None and line.event is None:
                if line.block.holds(wanted):
                    self.go(number)
                    return True
                if not line.block.is_whole:
                    return False
            number += step
        return False

    def seq_near(self, *, older: bool) -> int:
        """Return the number of the next row above the cursor, or below it."""
        step = -1 if older else 1
        number = self.cursor
        while 0 <= number < len(self._lines):
            block = self._lines[number].block
            if block is not None and block.row.seq:
                return block.row.seq
            number += step
        return self.window.newest + 1 if older else 0

    def update_events(self, key: str, events: Sequence[EventRow]) -> None:
        """Show other events of a block that shows its events; the cursor stays."""
        if key in self.opened:
            self.opened[key] = events
            self._fold()

    def open(self, block: Block, events: Sequence[EventRow]) -> None:
        """Show the events of a block, or hide them if there are none; the cursor stays."""
        if events:
            self.opened[block.key] = events
            self._opened_at[block.key] = block.row.seq
        else:
            self.opened.pop(block.key, None)
            self._opened_at.pop(block.key, None)
        self._fold()
        if self.block is not None and self.block.key == block.key:
            # What was opened is seen, as much of it as there is room for.
            last = self.cursor + len(events) - max(1, self.size.height) + 1
            self.scroll_to_line(max(self.top, min(self.cursor, last)))

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


def age_of(stamp: str | None) -> str:
    """Return how long ago it was, in few characters; an old day is the date of its line."""
    seconds = seconds_since(stamp, time.time())
    if seconds is None:
        return "-"
    if seconds < 24 * 3600:
        return words.ago(seconds).removesuffix(" ago").replace("just now", "now")
    return _local(stamp or "")[11:16]


def said_of(block: Block) -> str:
    """Return the text of a block's line after its lanes and counts."""
    row = block.row
    names = ", ".join(row.paths)
    if row.files > len(row.paths):
        names += ", ..."
    if block.kind is BlockKind.CHANGES:
        return row.prompt or names
    if block.kind is BlockKind.PIN:
        return f"pin {row.id}"
    files = words.counted(row.files, "file")
    if block.kind is BlockKind.OP:
        return f"{row.kind} {row.note}: {files}  ({author_of(row)})"
    if row.kind == "head":
        return f"git switched {files}: {row.note}" if row.files else f"git: {row.note}"
    return f"{row.kind}: {row.note or (names if row.files == 1 else files)}"


def _counts(row: HistoryRow) -> str:
    """Return how many lines came and went: `+3 -1`; empty if they were not counted."""
    if row.added is None or row.removed is None:
        return ""
    return f"{_short(row.added, '+')} {_short(row.removed, '-')}"


def _short(count: int, sign: str) -> str:
    return f"{sign}{count}" if count <= _MOST_LINES else f"{sign}{count // 1000}k"
