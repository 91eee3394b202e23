"""Events folded into blocks: a burst, an op, a move of HEAD, a gap; and into the lines of a list.

Invariant: pure; a block stands where its newest event stands, and its key stays the same when
older events of it come in.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from gitshadow.ui.rows import EventRow, FileRow, OpRow, PinRow, files_of

YOU, UNKNOWN, NOBODY = "you", "unknown", ""
"""Lanes that are no session of an agent: a person's, nobody's known, and none at all."""


class BlockKind(Enum):
    """Say what a block is."""

    BURST = "burst"
    OP = "op"
    LOOSE = "loose"
    """Events of no burst: what Git switched, moves of HEAD, gaps, coverage."""
    PIN = "pin"


class Block(NamedTuple):
    """Hold what is shown as one: the events of it that were loaded, newest first."""

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
        return self.pin.ts if self.pin else self.head.ts

    @property
    def lane(self) -> str:
        """Return the lane that it lies in: an agent's session, or one of the three others."""
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
    def prompt(self) -> str:
        """Return the beginning of what its agent had been told."""
        return next((one.prompt for one in self.events if one.prompt), "")

    def holds(self, wanted: str) -> bool:
        """Tell whether a text is in its prompt or in a path, whatever the case of letters."""
        if self.pin is not None:
            return wanted.lower() in self.pin.name.lower()
        texts = {self.prompt}.union(*((one.path, one.old_path) for one in self.events))
        return any(wanted.lower() in text.lower() for text in texts)

    def files(self) -> tuple[FileRow, ...]:
        """Return the files that it changed, as far as it is loaded."""
        return files_of(self.events)


class TimelineLine(NamedTuple):
    """Hold one line of the list: a day, a block, or one of the events of an opened block."""

    block: Block | None = None
    event: EventRow | None = None
    day: str = ""

    @property
    def key(self) -> str:
        """Return what tells this line from the others."""
        if self.event is not None:
            return f"event {self.event.seq}"
        return self.block.key if self.block else f"day {self.day}"


class UndoMarks(NamedTuple):
    """Say what ops took back: the op by the id, or the number, that it took back."""

    undone: Mapping[str, OpRow] = {}
    ops: Mapping[str, OpRow] = {}

    def of(self, block: Block) -> OpRow | None:
        """Return the op in effect that took a block back, the whole of it or a part."""
        if block.pin is not None:
            return None
        head = block.head
        for id in (head.op, head.burst, head.turn):
            if id and id in self.undone:
                return self.undone[id]
        session = self.undone.get(head.session)
        if session is not None and session.ts >= head.ts and not head.op:
            return session
        for event in block.events:
            if str(event.seq) in self.undone:
                return self.undone[str(event.seq)]
        return None

    def part_of(self, block: Block) -> tuple[int, int] | None:
        """Return how many files of a block are undone, of how many; None: not just some."""
        paths = {event.path for event in block.events if event.path}
        left = {
            event.path
            for event in block.events
            if event.path and str(event.seq) not in self.undone
        }
        some = len(left) < len(paths) and self._of_head(block.head) is None
        return (len(paths) - len(left), len(paths)) if left and some else None

    def _of_head(self, head: EventRow) -> OpRow | None:
        """Return the op that took back all that an event belongs to."""
        for id in (head.op, head.burst, head.turn):
            if id and id in self.undone:
                return self.undone[id]
        session = self.undone.get(head.session)
        if session is not None and session.ts >= head.ts and not head.op:
            return session
        return None


def lane_of(event: EventRow) -> str:
    """Return the lane of an event."""
    if event.actor == "agent" and event.confidence != "ambiguous":
        return event.session
    if event.actor == "human":
        return YOU
    return UNKNOWN if event.actor else NOBODY


def marks_of(ops: Iterable[OpRow]) -> UndoMarks:
    """Return what the ops in effect took back; of two the newest counts."""
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
        for id in op.undoes or _begun(op):
            undone.setdefault(id, op)
    return UndoMarks(undone, known)


def _begun(op: OpRow) -> list[str]:
    """Return what an undo took back a part of, hunks of it, which it does not list."""
    return op.target.split() if op.kind in ("undo", "oops") else []


def blocks_of(
    events: Sequence[EventRow], pins: Sequence[PinRow] = ()
) -> tuple[Block, ...]:
    """Fold events into blocks.

    Args:
        events: Newest first.
        pins: In any order; those older than the oldest event are left out.

    Returns:
        The blocks, newest first.
    """
    found: dict[str, list[EventRow]] = {}
    loose = ""
    for event in events:
        key = _key(event)
        if key is None:
            if not loose or not _belongs(found[loose][-1], event):
                loose = f"{BlockKind.LOOSE.value} {event.seq}"
            key = loose
        else:
            loose = ""
        found.setdefault(key, []).append(event)
    blocks = [Block(key, _kind(key), tuple(mine)) for key, mine in found.items()]
    return tuple(_with_pins(blocks, pins, events[-1].ts if events else ""))


def lines_of(
    blocks: Iterable[Block], opened: Collection[str], day_of: Mapping[str, str]
) -> Iterator[TimelineLine]:
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
            yield TimelineLine(day=day)
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
    """Tell whether two events of no burst, one right behind the other, are one thing."""
    alike = (last.kind, last.session, last.switched) == (
        event.kind,
        event.session,
        event.switched,
    )
    return (alike or (last.switched and event.switched)) and bool(event.path)


def _with_pins(
    blocks: Sequence[Block], pins: Sequence[PinRow], oldest: str
) -> Iterator[Block]:
    waiting = sorted((pin for pin in pins if pin.ts >= oldest), key=lambda pin: pin.ts)
    for block in blocks:
        while waiting and waiting[-1].ts >= block.ts:
            yield _pinned(waiting.pop())
        yield block
    yield from (_pinned(pin) for pin in reversed(waiting))


def _pinned(pin: PinRow) -> Block:
    return Block(f"{BlockKind.PIN.value} {pin.name}", BlockKind.PIN, (), pin)
