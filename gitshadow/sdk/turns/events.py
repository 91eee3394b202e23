"""The events of a session that count, and the messages that a model gets.

A rewind hides all events from its target up to itself and deletes none. All code that needs the
live events (requests, the last turn, readers) asks here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.values import JsonObject
from gitshadow.store.journal.saga_rows import Marker, NewEvent, SessionEvent

Role = Literal["user", "assistant", "call", "result", "system"]
_ROLES: tuple[Role, ...] = ("user", "assistant", "call", "result", "system")


class HiddenRange(NamedTuple):
    """A closed range of event numbers that a rewind hid, and its marker."""

    first: int
    last: int
    by: int


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    A `call` and its `result` have the id, the tool and, the former, the arguments as JSON.
    """

    role: Role
    text: str
    call_id: str | None = None
    tool: str | None = None


def creation(session: str, state: JsonObject, ts_ns: int) -> NewEvent:
    """Return the event that every session's history begins with: the state it was made with."""
    return NewEvent(
        session=session,
        invocation="created",
        author="system",
        kind="created",
        ts_ns=ts_ns,
        delta={
            json_values.storable(key): json_values.faithful(value, key)
            for key, value in state.items()
        },
    )


def hidden(markers: Iterable[Marker]) -> list[HiddenRange]:
    """Return what rewinds hid, oldest first; `markers` come newest first.

    A marker that a later one hid hides nothing: rewinding before a rewind undoes it.
    """
    found: list[HiddenRange] = []
    for marker in markers:
        if is_live(marker.seq, found):
            last = marker.seq if marker.last is None else marker.last
            ranges = [(marker.first, last)]
            if last < marker.seq:
                ranges.append((marker.seq, marker.seq))
            found += [HiddenRange(*gap, marker.seq) for gap in _without(ranges, found)]
    return sorted(found)


def _without(
    ranges: Iterable[tuple[int, int]], out: Sequence[HiddenRange]
) -> list[tuple[int, int]]:
    """Return ranges without what is out already."""
    found = list(ranges)
    for gap in out:
        found = [
            part
            for first, last in found
            for part in (
                (first, min(last, gap.first - 1)),
                (max(first, gap.last + 1), last),
            )
            if part[0] <= part[1]
        ]
    return found


def is_live(seq: int, out: Sequence[HiddenRange]) -> bool:
    """Return whether an event counts."""
    return not any(gap.first <= seq <= gap.last for gap in out)


def live(
    events: Iterable[SessionEvent], markers: Iterable[Marker]
) -> list[SessionEvent]:
    """Return the events that count, in order."""
    out = hidden(markers)
    return [event for event in events if is_live(event.seq, out)]


def messages(events: Iterable[SessionEvent]) -> list[Message]:
    """Return the messages among live events; a call without its result is left out."""
    found = [_message(event) for event in events if event.kind in _ROLES]
    # Providers refuse a conversation in which a call has no result.
    answered = {one.call_id for one in found if one.role == "result"}
    return [one for one in found if one.role != "call" or one.call_id in answered]


def _message(event: SessionEvent) -> Message:
    body = json_values.readable(event.body)
    role = next(role for role in _ROLES if role == event.kind)
    call, tool = body.get("call_id"), body.get("tool")
    return Message(
        role,
        event.text,
        None if call is None else str(call),
        None if tool is None else str(tool),
    )
