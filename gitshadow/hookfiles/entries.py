"""One entry of gitshadow: its form in each agent's file, and what is wrong with one.

Invariant: values in, values out; `merge.py` and `toml.py` know their positions in a text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gitshadow.hookfiles import invocation
from gitshadow.hookfiles.jsonc import Path
from gitshadow.hookfiles.placement import EntryShape, EventRegistration
from gitshadow.model import JsonObject, JsonValue

COVERING: Mapping[str | None, tuple[object, ...]] = {
    "*": ("*", "", None, ".*"),
    ".*": (".*", "", None),
    "": ("", None, ".*"),
    None: (None, ""),
}
"""Which matchers can replace the one that is wanted; only `*` is not a regular expression."""
# A timeout beyond these limits is in the wrong unit: seconds where the agent reads milliseconds,
# or the reverse.
_LEAST_MS = 1000
_MOST_S = 600


class Want(NamedTuple):
    """Whose entries are wanted, their form, and the command that they run.

    `line` is the command of a status line of ours; it is added only if `adds_line`.
    """

    agent: str
    shape: EntryShape
    command: str
    line: str = ""
    adds_line: bool = False


@dataclass(frozen=True, slots=True)
class HookEntry:
    """One handler of gitshadow as it is in a file.

    Attributes:
        base: The names on the way to its event.
        group: None in flat lists.
    """

    event: str
    path: Path
    data: JsonObject
    group: JsonObject | None = None
    base: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Return the command's text."""
        return str(self.data.get("command"))

    @property
    def matcher(self) -> object:
        """Return the matcher that decides when it runs."""
        return (self.data if self.group is None else self.group).get("matcher")


def is_right(entry: HookEntry, want: Want) -> bool:
    """Return whether an entry can stay unchanged."""
    return fault(entry, want) is None


def fault(entry: HookEntry, want: Want) -> str | None:
    """Return what is wrong with an entry, None if it is right."""
    event = event_of(want.shape, entry.event)
    if event is None:
        return f"{entry.event} is not an event to register"
    if entry.command != want.command:
        return "another command"
    if event.flat != (entry.group is None):
        return "in an unknown format"
    if entry.matcher not in COVERING[event.matcher]:
        return "a matcher that excludes some tools"
    if entry.data.get("async") is True:
        return "asynchronous: late events claim other authors' changes"
    return _timeout_fault(entry.data.get("timeout"), want.shape)


def is_changed(entry: HookEntry, want: Want) -> bool:
    """Return whether a person changed the command of an entry that still reports."""
    # It does not replace our entry if it is for another event.
    is_wanted = event_of(want.shape, entry.event) is not None
    return is_wanted and invocation.is_changed(entry.command, want.agent)


def _timeout_fault(timeout: object, shape: EntryShape) -> str | None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        return None
    if shape.milliseconds and timeout < _LEAST_MS:
        return f"a timeout of {timeout} milliseconds: wrong unit"
    if not shape.milliseconds and timeout > _MOST_S:
        return f"a timeout of {timeout} seconds: wrong unit"
    return None


def handler(event: EventRegistration, want: Want) -> JsonObject:
    """Return the handler of one event."""
    shape = want.shape
    data: dict[str, JsonValue] = {}
    if shape.event_key is not None:
        data[shape.event_key] = event.name
    if event.flat and event.matcher is not None:
        data["matcher"] = event.matcher
    if shape.named:
        data["name"] = f"gitshadow-{_dashed(event.name)}"
    if shape.typed:
        data["type"] = "command"
    data["command"] = want.command
    if event.timeout is not None:
        data["timeout"] = event.timeout
    return {**data, **shape.extra}


def item(event: EventRegistration, want: Want) -> JsonObject:
    """Return the item of an event's list: a handler, or a group with one."""
    data = handler(event, want)
    if event.flat:
        return data
    matcher = {} if event.matcher is None else {"matcher": event.matcher}
    return {**matcher, "hooks": [data]}


def _dashed(name: str) -> str:
    spaced = "".join(f"-{char.lower()}" if char.isupper() else char for char in name)
    return spaced.lstrip("-")


def whole(want: Want) -> JsonObject:
    """Return the value of a file with only our entries."""
    data: JsonObject = {event.name: [item(event, want)] for event in want.shape.events}
    for name in reversed(want.shape.base):
        data = {name: data}
    return {**want.shape.top, **data}


def event_of(shape: EntryShape, name: str) -> EventRegistration | None:
    """Return the registration of an event, None if it is not registered."""
    return next((event for event in shape.events if event.name == name), None)
