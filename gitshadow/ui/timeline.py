"""The timeline as values: rows of the history as blocks, and blocks as the lines of a list.

Invariant: pure; a block keeps its key when more is written in it, and a session keeps its letter
as long as the UI runs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from string import ascii_uppercase
from typing import NamedTuple

from gitshadow.messages.history import HistoryRow
from gitshadow.messages.lists import PinRow
from gitshadow.messages.rows import EventRow
from gitshadow.messages.states import StatRow
from gitshadow.render.history import author_of
from gitshadow.render.text import local_time

YOU, UNKNOWN, NOBODY = "you", "unknown", ""
"""Lanes without a session of an agent: a person's, of unknown authors, and of no author."""

_LETTERS = "".join(letter for letter in ascii_uppercase if letter != "Y")
_FIXED: Mapping[str, str] = {YOU: "Y", UNKNOWN: "?", NOBODY: "-"}
FIRST_AGENT = 2
"""The column of the first session of an agent, after the two of people and unknown authors."""
_CHANGES = frozenset({"turn", "changes"})
_RARE = frozenset({"head", "gap", "coverage"})
_PIN = "pin"
_KNOWN_PROMPT = 400
"""A prompt of so many characters may be cut."""


class BlockKind(Enum):
    """What a block is."""

    CHANGES = "changes"
    """A turn, or a group of changes."""
    OP = "op"
    RARE = "rare"
    """A move of HEAD, a gap, or a change of what is recorded."""
    PIN = "pin"


class Block(NamedTuple):
    """One row of the history; a pin is a row of its own kind."""

    row: HistoryRow

    @property
    def key(self) -> str:
        """Return what identifies it, whatever is written in it later."""
        row = self.row
        name = _PIN if row.kind == _PIN else row.worktree
        return f"{name} {row.id}"

    @property
    def kind(self) -> BlockKind:
        """Return what it is."""
        if self.row.kind in _CHANGES:
            return BlockKind.CHANGES
        if self.row.kind in _RARE:
            return BlockKind.RARE
        return BlockKind.PIN if self.row.kind == _PIN else BlockKind.OP

    @property
    def ts(self) -> str:
        """Return the time of its end."""
        return self.row.ts or ""

    @property
    def lane(self) -> str:
        """Return its lane: an agent's session, or one of the three others."""
        if self.row.actor == "agent":
            return self.row.session or NOBODY
        if self.row.actor == "human":
            return YOU
        return UNKNOWN if self.row.actor else NOBODY

    @property
    def is_undone(self) -> bool:
        """Return whether all of its files are undone."""
        return 0 < self.row.files <= self.row.undone

    def holds(self, wanted: str) -> bool:
        """Return whether a text is in what is known of it, ignoring case."""
        row = self.row
        note = row.note if self.kind is BlockKind.RARE else ""
        small = wanted.lower()
        return any(small in text.lower() for text in (row.prompt, note, *row.paths))

    @property
    def is_whole(self) -> bool:
        """Return whether all its paths are known, and all of its prompt."""
        row = self.row
        is_cut = len(row.prompt) >= _KNOWN_PROMPT or row.files > len(row.paths)
        return not is_cut or row.kind == "head"


class DayLine(NamedTuple):
    """A line of the list that names the day of the blocks below it."""

    day: str
    block: None = None
    event: None = None

    @property
    def key(self) -> str:
        """Return what identifies this line."""
        return f"day {self.day}"


class TimelineLine(NamedTuple):
    """A line of the list that can be selected: a block, or an event of an opened block."""

    block: Block
    event: EventRow | None = None

    @property
    def key(self) -> str:
        """Return what identifies this line."""
        return self.block.key if self.event is None else f"event {self.event.seq}"


def moment_named(line: TimelineLine) -> str:
    """Return the name of the moment right after a line's newest event, as verbs take it."""
    if line.event is not None:
        return str(line.event.seq)
    row = line.block.row
    return row.id if row.kind == _PIN else str(row.seq)


def files_of(events: tuple[EventRow, ...]) -> tuple[StatRow, ...]:
    """Return the files that events changed, by name, each with its net change.

    Args:
        events: In any order of time; the oldest kind and the newest decide.
    """
    found: dict[str, StatRow] = {}
    for event in sorted(events, key=lambda one: one.seq):
        if not event.path:
            continue
        before = found.pop(event.old_path or event.path, None)
        found[event.path] = StatRow(
            event.path,
            _together(before, event),
            before.old_path if before else event.old_path,
        )
    return tuple(found[path] for path in sorted(found))


def _together(before: StatRow | None, event: EventRow) -> str:
    if before is None or before.kind == event.kind:
        return event.kind
    if event.kind == "delete":
        return "delete"
    return before.kind if before.kind in ("create", "rename") else event.kind


def blocks_of(
    rows: Sequence[HistoryRow], pins: Sequence[PinRow] = ()
) -> tuple[Block, ...]:
    """Return the blocks of rows and pins, newest first.

    Args:
        rows: Newest first.
        pins: In any order; pins older than the oldest row are left out.
    """
    blocks = [Block(row) for row in rows]
    return tuple(_with_pins(blocks, pins, rows[-1].ts or "" if rows else ""))


def lines_of(
    blocks: Iterable[Block],
    opened: Mapping[str, Sequence[EventRow]],
    day_of: Mapping[str, str],
    today: str,
) -> Iterator[TimelineLine | DayLine]:
    """Yield the lines of a list: a line for each new day, the blocks, what is opened of them.

    Args:
        blocks: Newest first.
        opened: The events that are shown, by the keys of their blocks.
        day_of: The local day of each block, by its key.
        today: The day that needs no line if it is the first one.
    """
    day = today
    for block in blocks:
        if day_of[block.key] != day:
            day = day_of[block.key]
            yield DayLine(day)
        yield TimelineLine(block)
        shown = opened.get(block.key, ())
        yield from (TimelineLine(block, event) for event in shown)


def _with_pins(
    blocks: Sequence[Block], pins: Sequence[PinRow], oldest: str
) -> Iterator[Block]:
    pinned = (
        Block(HistoryRow(_PIN, pin.name, pin.ts, worktree=pin.worktree)) for pin in pins
    )
    waiting = sorted(
        (pin for pin in pinned if pin.ts >= oldest), key=lambda pin: pin.ts
    )
    for block in blocks:
        while waiting and waiting[-1].ts >= block.ts:
            yield waiting.pop()
        yield block
    yield from reversed(waiting)


class LanePosition(NamedTuple):
    """Where a block is: its column, and the columns of lanes that continue next to it."""

    column: int
    beside: tuple[int, ...]


def lettered(known: Mapping[str, str], lanes: Iterable[str]) -> dict[str, str]:
    """Return the letters of lanes: those that are known, and new ones in order of appearance.

    After all letters come those in lower case, and then `*` for every other lane.
    """
    # What was known comes first, so letters do not change when older pages come in.
    letters = {**_FIXED, **known}
    for lane in lanes:
        if lane not in letters:
            # Known letters are kept, so a session never changes its letter.
            number = len(letters) - len(_FIXED)
            letters[lane] = (_LETTERS + _LETTERS.lower())[number : number + 1] or "*"
    return letters


def placed(lanes: Sequence[str], columns: int) -> list[LanePosition]:
    """Arrange blocks in columns, as `git log --graph` does.

    Args:
        lanes: The lane of each block, newest first.
        columns: How many columns there are, with the two fixed ones; blocks without a
            free column are in the last one.

    Returns:
        A place for each block. The lane of a block without one is column -1.
    """
    # A lane keeps its column until its oldest loaded block, then the column is free for another.
    last = {lane: number for number, lane in enumerate(lanes)}
    at: dict[str, int] = {YOU: 0, UNKNOWN: 1}
    alive: dict[str, int] = {}
    found: list[LanePosition] = []
    for number, lane in enumerate(lanes):
        if lane == NOBODY:
            found.append(LanePosition(-1, tuple(sorted(set(alive.values())))))
            continue
        if lane not in alive:
            alive[lane] = at.get(lane, -1)
            if alive[lane] < 0:
                alive[lane] = _free(alive, columns)
        column = alive[lane]
        found.append(LanePosition(column, tuple(sorted({*alive.values()} - {column}))))
        if last[lane] == number:
            del alive[lane]
    return found


def _free(alive: Mapping[str, int], columns: int) -> int:
    taken = set(alive.values())
    for column in range(FIRST_AGENT, columns):
        if column not in taken:
            return column
    # More agents at once than columns: the rest share the last one, and keep their letters.
    return max(FIRST_AGENT, columns - 1)


def heading(line: TimelineLine, listed: str, *, moment: bool) -> str:
    """Return the heading above the files of a line: what changed them, or since when.

    Args:
        line: The selected line.
        listed: How many files are listed, in words.
        moment: Whether the differences from then to now are listed.
    """
    row = line.block.row
    if moment or row.kind == _PIN:
        return (
            f"{listed} differ between {local_time(line.block.ts)} and now   R restores"
        )
    if line.event is not None:
        one = line.event
        tool = f", {one.tool}" if one.tool else ""
        return f"write {one.seq}: {one.confidence or 'not attributed'}{tool}"
    kind = {"changes": "group", "head": "event", "coverage": "event"}.get(row.kind)
    unsure = f" ({row.unsure} unsure)" if row.unsure else ""
    named = f"{kind or row.kind} {row.id}"
    said = f"{listed}{unsure} of {named}, {local_time(line.block.ts)}"
    who = author_of(row)
    told = row.prompt or row.note
    return said + (f", {who}" if row.actor else "") + (f": {told}" if told else "")
