"""The timeline as values: events folded into blocks, and blocks into the lines of a list.

Invariant: pure; a block is where its newest event is, its key stays the same when older events of
it come in, and a session keeps its letter as long as the UI runs.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from string import ascii_uppercase
from typing import NamedTuple

from gitshadow.messages.lists import PinRow
from gitshadow.messages.rows import EventRow, OpRow
from gitshadow.messages.states import StatRow
from gitshadow.render.text import local_time

YOU, UNKNOWN, NOBODY = "you", "unknown", ""
"""Lanes without a session of an agent: a person's, of unknown authors, and of no author."""

_LETTERS = "".join(letter for letter in ascii_uppercase if letter != "Y")
_FIXED: Mapping[str, str] = {YOU: "Y", UNKNOWN: "?", NOBODY: "-"}
FIRST_AGENT = 2
"""The column of the first session of an agent, after the two of people and unknown authors."""


class BlockKind(Enum):
    """What a block is."""

    BURST = "burst"
    OP = "op"
    LOOSE = "loose"
    """Events outside a burst: what Git switched, moves of HEAD, gaps, coverage."""
    PIN = "pin"


class Block(NamedTuple):
    """Events that are shown as one: those that were loaded, newest first."""

    key: str
    kind: BlockKind
    events: tuple[EventRow, ...]
    pin: PinRow | None = None

    @property
    def head(self) -> EventRow:
        """Return the newest event."""
        return self.events[0]

    @property
    def ts(self) -> str:
        """Return the time of its end."""
        return (self.pin.ts if self.pin else self.head.ts) or ""

    @property
    def lane(self) -> str:
        """Return its lane: an agent's session, or one of the three others."""
        if self.pin is not None:
            return NOBODY
        return lane_of(self.head)

    @property
    def target(self) -> str:
        """Return the id that names it to the verbs."""
        if self.pin is not None:
            return self.pin.name
        return self.head.op or self.head.burst or str(self.head.seq)

    @property
    def switched(self) -> int:
        """Return how many files Git switched by the move of HEAD that it is."""
        return self.head.files or 0 if self.events else 0

    @property
    def prompt(self) -> str:
        """Return the beginning of its prompt."""
        return next((one.prompt for one in self.events if one.prompt), "") or ""

    def holds(self, wanted: str) -> bool:
        """Return whether a text is in its prompt or in a path, ignoring case."""
        if self.pin is not None:
            return wanted.lower() in self.pin.name.lower()
        paths = ({one.path, one.old_path} for one in self.events)
        texts = {self.prompt}.union(*paths)
        return any(text and wanted.lower() in text.lower() for text in texts)

    def files(self) -> tuple[StatRow, ...]:
        """Return the files that it changed, as far as it is loaded."""
        return files_of(self.events)


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


class UndoMarks(NamedTuple):
    """What ops undid: each op by the id, or the event's number, that it undid."""

    undone: Mapping[str, OpRow] = {}
    ops: Mapping[str, OpRow] = {}

    def of(self, block: Block) -> OpRow | None:
        """Return the op in effect that undid a block, the whole of it or a part."""
        if block.pin is not None:
            return None
        # An undo of the burst, turn or session comes before one of single events.
        whole = self._of_head(block.head)
        if whole is not None:
            return whole
        for event in block.events:
            if str(event.seq) in self.undone:
                return self.undone[str(event.seq)]
        return None

    def part_of(self, block: Block) -> tuple[int, int] | None:
        """Return how many files of a block are undone, of how many; None if it is none or all."""
        # Paths are counted, not events: one file can be written many times in a block.
        paths = {event.path for event in block.events if event.path}
        left = {
            event.path
            for event in block.events
            if event.path and str(event.seq) not in self.undone
        }
        some = len(left) < len(paths) and self._of_head(block.head) is None
        return (len(paths) - len(left), len(paths)) if left and some else None

    def _of_head(self, head: EventRow) -> OpRow | None:
        """Return the op that undid everything that an event belongs to."""
        for id in (head.op, head.burst, head.turn):
            if id and id in self.undone:
                return self.undone[id]
        session = self.undone.get(head.session or "")
        if session is None or head.op:
            return None
        return session if (session.ts or "") >= (head.ts or "") else None


def moment_named(line: TimelineLine) -> str:
    """Return the name of the moment right after a line's newest event, as verbs take it."""
    if line.event is not None:
        return str(line.event.seq)
    pin = line.block.pin
    return pin.name if pin else str(line.block.head.seq)


def lane_of(event: EventRow) -> str:
    """Return the lane of an event."""
    if event.actor == "agent" and event.confidence != "ambiguous":
        return event.session or NOBODY
    if event.actor == "human":
        return YOU
    return UNKNOWN if event.actor else NOBODY


def marks_of(ops: Iterable[OpRow]) -> UndoMarks:
    """Return what the ops in effect undid; of two the newest counts."""
    undone: dict[str, OpRow] = {}
    known: dict[str, OpRow] = {}
    for op in ops:
        known[op.id] = op
        if (
            op.undone_by
            or op.status in ("applying", "rolled_back")
            or op.kind == "redo"
        ):
            continue
        # The ops come newest first, so `setdefault` keeps the newest one that counts.
        for id in op.undoes or _begun(op):
            undone.setdefault(id, op)
    return UndoMarks(undone, known)


def _begun(op: OpRow) -> list[str]:
    """Return the target of an undo of some hunks, which `undoes` does not list."""
    return op.target.split() if op.kind in ("undo", "oops") else []


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
    events: Sequence[EventRow], pins: Sequence[PinRow] = ()
) -> tuple[Block, ...]:
    """Fold events into blocks.

    Args:
        events: Newest first.
        pins: In any order; pins older than the oldest event are left out.

    Returns:
        The blocks, newest first.
    """
    found: dict[str, list[EventRow]] = {}
    loose = ""
    for event in events:
        key = _key(event)
        if key is None:
            # A checkout switches hundreds of files: they are one block, not one line each.
            if not loose or not _belongs(found[loose][-1], event):
                loose = f"{BlockKind.LOOSE.value} {event.seq}"
            key = loose
        else:
            loose = ""
        found.setdefault(key, []).append(event)
    blocks = [Block(key, _kind(key), tuple(mine)) for key, mine in found.items()]
    return tuple(_with_pins(blocks, pins, events[-1].ts or "" if events else ""))


def lines_of(
    blocks: Iterable[Block], opened: Collection[str], day_of: Mapping[str, str]
) -> Iterator[TimelineLine | DayLine]:
    """Yield the lines of a list: a line for each new day, the blocks, what is opened of them.

    Args:
        blocks: Newest first.
        opened: The keys of those that show their events.
        day_of: The local day of each block, by its key.
    """
    day = ""
    for block in blocks:
        if day_of[block.key] != day:
            day = day_of[block.key]
            yield DayLine(day)
        yield TimelineLine(block)
        if block.key in opened:
            yield from (TimelineLine(block, event) for event in block.events)


def _key(event: EventRow) -> str | None:
    if event.op:
        return f"{BlockKind.OP.value} {event.op}"
    if event.burst:
        return f"{BlockKind.BURST.value} {event.burst}"
    return None


def _kind(key: str) -> BlockKind:
    return BlockKind(key.partition(" ")[0])


def _belongs(last: EventRow, event: EventRow) -> bool:
    """Return whether two consecutive events outside a burst belong together."""
    alike = (last.kind, last.session, last.switched) == (
        event.kind,
        event.session,
        event.switched,
    )
    return (alike or (last.switched and event.switched)) and bool(event.path)


def _with_pins(
    blocks: Sequence[Block], pins: Sequence[PinRow], oldest: str
) -> Iterator[Block]:
    pinned = (_pinned(pin) for pin in pins)
    waiting = sorted(
        (pin for pin in pinned if pin.ts >= oldest), key=lambda pin: pin.ts
    )
    for block in blocks:
        while waiting and waiting[-1].ts >= block.ts:
            yield waiting.pop()
        yield block
    yield from reversed(waiting)


def _pinned(pin: PinRow) -> Block:
    return Block(f"{BlockKind.PIN.value} {pin.name}", BlockKind.PIN, (), pin)


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
    block = line.block
    if moment or block.pin is not None:
        return f"{listed} differ between {local_time(block.ts)} and now   R restores"
    if line.event is not None:
        one = line.event
        tool = f", {one.tool}" if one.tool else ""
        return f"write {one.seq}: {one.confidence or 'not attributed'}{tool}"
    named = {BlockKind.BURST: "burst", BlockKind.OP: "op"}.get(block.kind)
    said = f"{named} {block.target}" if named else f"event {block.target}"
    return f"{listed} of {said}" + (f": {block.prompt}" if block.prompt else "")
