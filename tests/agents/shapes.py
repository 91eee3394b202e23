"""What differs between two versions of an agent's payloads: `python -m tests.agents.shapes DIR`.

A shape says of each event, and of each tool in it, which fields come with which types and words.
The adapter's own reading of both versions decides whether something is lost that it needs.
"""

import dataclasses
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent
from tests.agents.recording import FIXTURES, RecordedTurn, load

Step = Mapping[str, object]
Turns = Mapping[str, RecordedTurn]

_TOOL_KEYS = ("tool_name", "toolName", "tool")
_WORD = re.compile(r"[A-Za-z][A-Za-z_-]{0,29}")
_MOST_WORDS = 6
_COMMON = 3
_GONE, _NEW = "- gone", "+ new"
_TYPES = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    list: "list",
    dict: "object",
    type(None): "null",
}


@dataclass
class Field:
    """One field of an event: the types it came with, and its values where they are words."""

    types: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)

    @property
    def is_choice(self) -> bool:
        """Return whether its values are few single words, as those of a fixed list are."""
        return self.types == {"string"} and 0 < len(self.words) <= _MOST_WORDS


@dataclass(frozen=True)
class Difference:
    """What is different in one event; `lost` are parts that the adapter no longer finds."""

    event: str
    lines: Sequence[str]
    lost: Sequence[str] = ()


def compare(agent: str, old: Turns, new: Turns) -> list[Difference]:
    """Return the differences between the payloads of two versions, by event and tool."""
    before, after = _by_event(old), _by_event(new)
    found: list[Difference] = []
    for event in sorted(before.keys() | after.keys()):
        if event not in after:
            lost = _read(agent, before[event])
            # A tool has gone: another one has its work. An event has nothing in its place.
            alone = not any(_plain(one) == _plain(event) for one in after)
            found.append(Difference(event, [_GONE], ("all",) if lost and alone else ()))
        elif event not in before:
            found.append(Difference(event, [_NEW]))
        else:
            lines = list(_field_lines(_shape(before[event]), _shape(after[event])))
            lost = _read(agent, before[event]) - _read(agent, after[event])
            if lines or lost:
                found.append(Difference(event, lines, tuple(sorted(lost))))
    return found


def report(differences: Sequence[Difference]) -> str:
    """Return differences as lines to read; what many events have in common comes once."""
    by_line: dict[str, list[str]] = {}
    for one in differences:
        for line in _lines(one):
            by_line.setdefault(line, []).append(one.event)
    common = {
        line: events
        for line, events in by_line.items()
        if len(events) >= _COMMON and line not in (_GONE, _NEW)
    }
    groups: dict[str, list[str]] = {}
    for line, events in common.items():
        groups.setdefault(f"{len(events)} events: {', '.join(events)}", []).append(line)
    for one in differences:
        own = [line for line in _lines(one) if line not in common]
        if own:
            groups[one.event] = own
    lines = [
        line
        for head, below in groups.items()
        for line in (f"  {head}", *(f"    {one}" for one in below))
    ]
    return "".join(f"{line}\n" for line in lines) or "  no differences\n"


def _lines(one: Difference) -> list[str]:
    return [
        *one.lines,
        *(f"! the adapter no longer finds: {part}" for part in one.lost),
    ]


def _plain(event: str) -> str:
    return event.partition(" ")[0]


def _by_event(turns: Turns) -> dict[str, list[Step]]:
    """Return the hook calls by event and tool."""
    found: dict[str, list[Step]] = {}
    for step in (one for turn in turns.values() for one in turn.steps):
        if "event" in step:
            tool = next(_tools(step["payload"]), "")
            found.setdefault(f"{step['event']} {tool}".strip(), []).append(step)
    return found


def _tools(payload: object) -> Iterator[str]:
    """Yield the names of tools in a payload, the outermost first."""
    if not isinstance(payload, dict):
        return
    for key in _TOOL_KEYS:
        if isinstance(payload.get(key), str):
            yield payload[key]
    for key in ("tool_call", "tool_result", "event", "input"):
        inner = payload.get(key)
        if isinstance(inner, dict):
            yield from _tools(inner)
            if key.startswith("tool_") and isinstance(inner.get("name"), str):
                yield inner["name"]


def _shape(calls: Sequence[Step]) -> dict[str, Field]:
    found: dict[str, Field] = {}
    for call in calls:
        for path, value in _fields(call["payload"]):
            one = found.setdefault(path, Field())
            one.types.add(_TYPES[type(value)])
            if isinstance(value, str):
                one.words.add(value)
    for one in found.values():
        if not all(map(_WORD.fullmatch, one.words)):
            one.words.clear()
    return found


def _fields(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(inner, f"{path}[]")


def _field_lines(old: Mapping[str, Field], new: Mapping[str, Field]) -> Iterator[str]:
    """Yield what is different in the fields of one event, of objects the outermost."""
    for path in sorted(old.keys() | new.keys()):
        parent = re.sub(r"(\.[^.\[]+|\[\])$", "", path)
        if path not in new:
            if parent == path or parent in new:
                yield f"- {path} ({_types(old[path])})"
        elif path not in old:
            if parent == path or parent in old:
                yield f"+ {path} ({_types(new[path])})"
        elif old[path].types != new[path].types:
            yield f"~ {path}: {_types(old[path])} is now {_types(new[path])}"
        elif old[path].is_choice and new[path].is_choice:
            words = sorted(old[path].words ^ new[path].words)
            signs = {word: "+" if word in new[path].words else "-" for word in words}
            if signs:
                listed = " ".join(f"{sign}{word}" for word, sign in signs.items())
                yield f"= {path}: {listed}"


def _types(one: Field) -> str:
    return " or ".join(sorted(one.types))


def _read(agent: str, calls: Sequence[Step]) -> set[str]:
    """Return which parts of an event our adapter finds in at least one of some payloads."""
    found: set[str] = set()
    for call in calls:
        given = call["environment"]
        assert isinstance(given, dict)
        raw = json.dumps(call["payload"]).encode()
        event = registry.parse(agent, raw, given)
        if isinstance(event, HookEvent):
            found.add(event.phase.value)
            found |= {
                one.name
                for one in dataclasses.fields(event)
                if getattr(event, one.name) not in (None, (), 0, False, "other")
            }
            found |= {"call_id of the host"} if _has_own_id(event) else set()
    return found


def _has_own_id(event: HookEvent) -> bool:
    return event.call_id is not None and not event.call_derived


def main(new: Path, names: Sequence[str]) -> int:
    """Print what is different from the stored payloads; return 1 if an adapter lost something."""
    lost = 0
    stored = [one.name for one in FIXTURES.iterdir() if one.is_dir()]
    sent = [one.name for one in new.iterdir()] if new.is_dir() else []
    for name in sorted(names or {*stored, *sent}):
        if name not in sent:
            print(
                f"{name}: sent nothing: it is not installed, or its first turn failed"
            )
            continue
        if name not in stored:
            print(f"{name}: nothing is stored to compare with")
            continue
        abouts = [_about(FIXTURES / name), _about(new / name)]
        versions = [f"{one['version']} ({one['recorded']})" for one in abouts]
        found = compare(name, load(name), load(name, new))
        lost += any(one.lost for one in found)
        print(f"{name} {versions[0]} -> {versions[1]}\n{report(found)}", end="")
    return int(lost > 0)


def _about(directory: Path) -> Mapping[str, object]:
    found = json.loads((directory / "about.json").read_text())
    assert isinstance(found, dict)
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
