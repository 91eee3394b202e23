"""One entry of ours: what it looks like in each agent's file, and what is wrong with one.

Invariant: values in, values out; `merge.py` and `toml.py` know where in a text they stand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gitshadow.hookfiles import invocation
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.jsonc import Path
from gitshadow.hookfiles.placement import (
    Agent,
    EntryShape,
    EventRegistration,
    InstallScope,
)

COVERING: Mapping[str | None, tuple[object, ...]] = {
    "*": ("*", "", None, ".*"),
    ".*": (".*", "", None),
    "": ("", None, ".*"),
    None: (None, ""),
}
"""Which matchers do for the one that is wanted; `*` alone is no regular expression."""
_LEAST_MS = 1000
_MOST_S = 600


class Want(NamedTuple):
    """Say whose entries are wanted, how they look, and what they run."""

    agent: str
    shape: EntryShape
    command: str


def want(
    agent: Agent, scope: InstallScope, around: InstallEnvironment, shape: EntryShape
) -> Want:
    """Return the entries that an installation is to have in a file of that form."""
    text = (
        invocation.for_user(agent.name, around.executable)
        if scope is InstallScope.USER
        else invocation.for_project(agent.name)
    )
    return Want(agent.name, shape, text)


@dataclass(frozen=True, slots=True)
class HookEntry:
    """Hold one handler of ours as a file has it.

    `base` are the names on the way to its event; `group` is None in flat lists.
    """

    event: str
    path: Path
    data: Mapping[str, object]
    group: Mapping[str, object] | None = None
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
    """Tell whether an entry of ours can stay as it is."""
    return fault(entry, want) is None


def fault(entry: HookEntry, want: Want) -> str | None:
    """Say what is wrong with an entry of ours; None where nothing is."""
    event = event_of(want.shape, entry.event)
    if event is None:
        return f"{entry.event} is not an event to register"
    if entry.command != want.command:
        return "another command"
    if event.flat != (entry.group is None) or entry.base in want.shape.former:
        return "in an unknown format"
    if entry.matcher not in COVERING[event.matcher]:
        return "a matcher that excludes some tools"
    if entry.data.get("async") is True:
        return "asynchronous: late events claim other authors' changes"
    return _timeout_fault(entry.data.get("timeout"), want.shape)


def _timeout_fault(timeout: object, shape: EntryShape) -> str | None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        return None
    if shape.milliseconds and timeout < _LEAST_MS:
        return f"a timeout of {timeout} milliseconds: wrong unit"
    if not shape.milliseconds and timeout > _MOST_S:
        return f"a timeout of {timeout} seconds: wrong unit"
    return None


def handler(event: EventRegistration, want: Want) -> dict[str, object]:
    """Return the handler of one event."""
    shape = want.shape
    data: dict[str, object] = {}
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


def item(event: EventRegistration, want: Want) -> dict[str, object]:
    """Return what stands in an event's list: a handler, or a group that holds one."""
    data = handler(event, want)
    if event.flat:
        return data
    group: dict[str, object] = {}
    if event.matcher is not None:
        group["matcher"] = event.matcher
    return {**group, "hooks": [data]}


def _dashed(name: str) -> str:
    spaced = "".join(f"-{char.lower()}" if char.isupper() else char for char in name)
    return spaced.lstrip("-")


def whole(want: Want) -> dict[str, object]:
    """Return what stands in a file that holds nothing but our entries."""
    data: dict[str, object] = {
        event.name: [item(event, want)] for event in want.shape.events
    }
    for name in reversed(want.shape.base):
        data = {name: data}
    return {**want.shape.top, **data}


def event_of(shape: EntryShape, name: str) -> EventRegistration | None:
    """Return an event that is to be registered by its name."""
    return next((event for event in shape.events if event.name == name), None)
