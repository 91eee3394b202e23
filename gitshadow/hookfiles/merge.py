"""Our entries in a user's JSON file: added, found and removed; text in, text out.

An entry is ours if its command is (`invocation.agent_of`); nothing else is ever changed. A right
entry stays, with the timeout that a user gave it; a wrong one is replaced. An entry whose command
a person changed is theirs, and no second one is added for its event.
Invariant: `take_out(put_in(text)) == text`, if `text` is given as the file before.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from gitshadow.errors import ShadowError
from gitshadow.hookfiles import invocation, jsonc
from gitshadow.hookfiles.entries import (
    COVERING,
    HookEntry,
    Want,
    event_of,
    handler,
    is_changed,
    is_right,
    item,
    whole,
)
from gitshadow.hookfiles.jsonc import ParsedText, Path, Value
from gitshadow.hookfiles.placement import EntryShape, EventRegistration
from gitshadow.model import JsonObject


def fresh(want: Want) -> str:
    """Return a file with only our entries."""
    return put_in("", want)


def put_in(text: str, want: Want) -> str:
    """Return the text with our entries; the same text if they are right already.

    Raises:
        ShadowError: it is not JSON, or the events have another type.
    """
    document = parse(text)
    if document.root is None:
        return _with_line(jsonc.fresh(text, whole(want)), want)
    _check_object(document.root, "the file")
    text = _without_stale(text, want)
    text = _with_map(text, want)
    for event in want.shape.events:
        text = _with_event(text, want, event)
    return _with_line(_with_top(text, want.shape), want)


def take_out(text: str, want: Want, before: str | None = None) -> str | None:
    """Return the text without our entries; None if everything in it was ours.

    Args:
        text: The file as it is now.
        want: Whose entries, and their form; the command does not matter.
        before: The file before the installation, if that is known; `""` if there was none. It
            shows which empty lists and objects are the user's own.

    Raises:
        ShadowError: as `put_in`.
    """
    document = parse(text)
    if document.root is None:
        return text
    if before is None and _is_wholly_ours(document, want):
        return None
    # Which empty lists and objects are the user's own is only known from the file before.
    was = parse(before or "")
    line, found = _line(document, want.shape), entries(text, want)
    if line is not None:
        text = jsonc.remove(text, line.path)
    elif not found:
        return text
    for _ in found:
        # One at a time, the last one first: each removal moves the text after it.
        text = _without(text, entries(text, want)[-1], was)
    text = _without_map(text, want, was)
    return _without_root(text, was, want, known=before is not None)


def entries(text: str, want: Want) -> list[HookEntry]:
    """Return our entries in the order of the text."""
    return [
        entry
        for entry in _all_handlers(text, want)
        if invocation.agent_of(entry.command) == want.agent
    ]


def changed(text: str, want: Want) -> list[HookEntry]:
    """Return the entries that a person changed and that still report for the agent."""
    return [entry for entry in _all_handlers(text, want) if is_changed(entry, want)]


class _Line(NamedTuple):
    """A status line of ours in a file."""

    path: Path
    command: str


def has_line(text: str, want: Want) -> bool:
    """Return whether a file has a status line, and it is not ours."""
    name = want.shape.line
    # The file of an agent without one may be TOML.
    root = None if name is None else parse(text).root
    if root is None or name is None or root.index(name) is None:
        return False
    return _line(parse(text), want.shape) is None


def _line(document: ParsedText, shape: EntryShape) -> _Line | None:
    root = document.root
    index = None if root is None or shape.line is None else root.index(shape.line)
    if root is None or index is None:
        return None
    data = root.children[index].data
    # With another key (`padding`), a person has made it theirs.
    if not isinstance(data, dict) or set(data) != {"type", "command"}:
        return None
    command = data["command"]
    if not isinstance(command, str) or not invocation.is_status_line(command):
        return None
    return _Line((index,), command)


def _with_line(text: str, want: Want) -> str:
    """Add our status line, or correct its command; one of the user's own stays."""
    document, name = parse(text), want.shape.line
    if document.root is None or name is None:
        return text
    there = _line(document, want.shape)
    if there is None and (not want.adds_line or document.root.index(name) is not None):
        return text
    if there is not None and there.command == want.line:
        return text
    if there is not None:
        text = jsonc.remove(text, there.path)
    data: JsonObject = {"type": "command", "command": want.line}
    return jsonc.append(text, (), data, key=name)


def _all_handlers(text: str, want: Want) -> Iterator[HookEntry]:
    document = parse(text)
    base = _base(document, want.shape)
    path = None if base is None else _find(document, base)
    if base is not None and path is not None:
        yield from _handlers(document, path, base)


def parse(text: str) -> ParsedText:
    """Read a file's text.

    Raises:
        ShadowError: it is not JSON.
    """
    try:
        return jsonc.parse(text)
    except jsonc.MalformedError as error:
        raise ShadowError(f"it is not valid JSON: {error}") from None


def _base(document: ParsedText, shape: EntryShape) -> tuple[str, ...] | None:
    """Return the names on the way to the map of events, as this file has them."""
    root = document.root
    if root is None:
        return None
    if not shape.keep_base:
        return shape.base
    if root.index("hooks") is not None:
        return ("hooks",)
    at_top = any(root.index(event.name) is not None for event in shape.events)
    return () if at_top else shape.base


def _find(
    document: ParsedText, names: tuple[str, ...], *, of_objects: bool = True
) -> Path | None:
    """Return the path at the end of some names, None if there is none.

    Raises:
        ShadowError: a value on the way is not an object, and only objects are wanted.
    """
    value, path = document.root, []
    for name in names:
        index = None if value is None else value.index(name)
        if value is None or index is None:
            return None
        value = value.children[index]
        path.append(index)
        if of_objects:
            _check_object(value, f'"{name}"')
    return None if value is None else tuple(path)


def _handlers(
    document: ParsedText, path: Path, base: tuple[str, ...]
) -> Iterator[HookEntry]:
    events = document.at(path)
    for number, (name, items) in enumerate(
        zip(events.keys, events.children, strict=True)
    ):
        for at, found in enumerate(items.children if items.is_list else ()):
            for entry in _of_item(name, (*path, number, at), found):
                yield replace(entry, base=base)


def _of_item(event: str, path: Path, found: Value) -> Iterator[HookEntry]:
    data = found.data
    if not isinstance(data, dict):
        return
    if isinstance(data.get("command"), str):
        yield HookEntry(event, path, data)
    index = found.index("hooks")
    if index is None or not found.children[index].is_list:
        return
    for at, inner in enumerate(found.children[index].children):
        if isinstance(inner.data, dict) and isinstance(inner.data.get("command"), str):
            yield HookEntry(event, (*path, index, at), inner.data, data)


def _check_object(value: Value, what: str) -> None:
    if not value.is_object:
        raise ShadowError(f"{what} is not an object")


def _without_stale(text: str, want: Want) -> str:
    """Remove our entries, except the first right one per event."""
    # An old and a new entry together would report everything twice.
    while True:
        stale = _first_stale(text, want)
        if stale is None:
            return text
        known = event_of(want.shape, stale.event) is not None
        text = _without(text, stale, parse(text if known else ""))


def _first_stale(text: str, want: Want) -> HookEntry | None:
    seen: set[str] = set()
    for entry in entries(text, want):
        if entry.event in seen or not is_right(entry, want):
            return entry
        seen.add(entry.event)
    return None


def _with_map(text: str, want: Want) -> str:
    """Create the objects on the way to the map of events."""
    document = parse(text)
    base = _base(document, want.shape) or ()
    for depth in range(len(base)):
        document = parse(text)
        if _find(document, base[: depth + 1]) is None:
            above = _find(document, base[:depth]) or ()
            text = jsonc.append(text, above, {}, key=base[depth])
    return text


def _with_event(text: str, want: Want, event: EventRegistration) -> str:
    there = (*entries(text, want), *changed(text, want))
    if any(entry.event == event.name for entry in there):
        return text
    document = parse(text)
    base = _find(document, _base(document, want.shape) or ()) or ()
    index = document.at(base).index(event.name)
    if index is None:
        return jsonc.append(text, base, [item(event, want)], key=event.name)
    path = (*base, index)
    if not document.at(path).is_list:
        raise ShadowError(f'"{event.name}" is not a list')
    group = _joinable(document, path, event) if want.shape.join else None
    if group is not None:
        return jsonc.append(text, group, handler(event, want))
    return jsonc.append(text, path, item(event, want))


def _joinable(
    document: ParsedText, path: Path, event: EventRegistration
) -> Path | None:
    """Return the path of the handlers in the first group that matches everything."""
    for at, group in enumerate(document.at(path).children):
        if not isinstance(group.data, dict):
            continue
        index = group.index("hooks")
        if index is None or group.data.get("matcher") not in COVERING[event.matcher]:
            continue
        if group.children[index].is_list and group.children[index].children:
            return (*path, at, index)
    return None


def _with_top(text: str, shape: EntryShape) -> str:
    for name, value in shape.top.items():
        root = parse(text).root
        if root is not None and root.index(name) is None:
            text = jsonc.append(text, (), value, key=name)
    return text


def _without(text: str, entry: HookEntry, was: ParsedText) -> str:
    """Remove one entry, and containers that it leaves empty and that were not there before."""
    text = jsonc.remove(text, entry.path)
    if entry.group is not None:
        handlers = entry.path[:-1]
        if parse(text).at(handlers).children:
            return text
        text = jsonc.remove(text, handlers[:-1])
        items = handlers[:-2]
    else:
        items = entry.path[:-1]
    return _tidy(text, items, (*entry.base, entry.event), was)


def _without_map(text: str, want: Want, was: ParsedText) -> str:
    """Remove the empty objects on the way to the events, innermost first."""
    base = _base(parse(text), want.shape) or ()
    for depth in range(len(base), 0, -1):
        path = _find(parse(text), base[:depth])
        if path is not None:
            text = _tidy(text, path, base[:depth], was)
    return text


def _tidy(text: str, path: Path, names: tuple[str, ...], was: ParsedText) -> str:
    """Remove an emptied container, or give it the white space that it had before."""
    if parse(text).at(path).children:
        return text
    former = _find(was, names, of_objects=False)
    if former is None:
        return jsonc.remove(text, path)
    inner = "" if was.at(former).children else jsonc.inside(was, former)
    return jsonc.set_inside(text, path, inner)


def _without_root(text: str, was: ParsedText, want: Want, *, known: bool) -> str | None:
    if known and not _holds_more(parse(text), was, want.shape):
        text = _without_top(text, was, want.shape)
    root = parse(text).at(())
    if root.children or not known:
        return text
    if was.root is not None:
        inner = "" if was.root.children else jsonc.inside(was, ())
        return jsonc.set_inside(text, (), inner)
    rest = text[: root.start] + text[root.end :]
    if rest.split() == was.text.split():
        return was.text or None
    return rest


def _holds_more(document: ParsedText, was: ParsedText, shape: EntryShape) -> bool:
    """Return whether hooks were added since."""
    base, former = (
        _find(document, shape.base, of_objects=False),
        _find(was, shape.base, of_objects=False),
    )
    if base is None or not document.at(base).children:
        return False
    return former is None or document.at(base).data != was.at(former).data


def _without_top(text: str, was: ParsedText, shape: EntryShape) -> str:
    for name in shape.top:
        root = parse(text).root
        index = None if root is None else root.index(name)
        if index is not None and _find(was, (name,), of_objects=False) is None:
            text = jsonc.remove(text, (index,))
    return text


def _is_wholly_ours(document: ParsedText, want: Want) -> bool:
    """Return whether a file is what we write into a new one, with any command."""
    found, line = entries(document.text, want), _line(document, want.shape)
    if not found:
        return False
    shape = want.shape._replace(base=found[0].base)
    former = want._replace(
        command=found[0].command,
        shape=shape,
        line="" if line is None else line.command,
        adds_line=line is not None,
    )
    return document.text == fresh(former)
