"""Our entries in a TOML file, and the switches that Codex keeps there.

Codex has a map from events to groups of handlers; its `config.toml` is used only if it has hooks
already, as Codex warns about hooks in both files. Kimi Code and Vibe have one list of handlers.
New entries are appended as text; tomlkit edits entries in another form. Its result is used only
if the values and comments of the rest of the file are the same.
Invariant: the tables below `hooks.state`, where a user's approvals are, are never written.
"""

import json
import tomllib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gitshadow.errors import ShadowError
from gitshadow.hookfiles import invocation
from gitshadow.hookfiles.entries import HookEntry, Want, handler, is_changed, is_right
from gitshadow.hookfiles.placement import EventRegistration
from gitshadow.model import JsonObject

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_STATE = "state"


def load(text: str) -> JsonObject:
    """Return the plain values of a file.

    Raises:
        ShadowError: it is not TOML.
    """
    try:
        # Editors on Windows write a byte order mark, which tomllib refuses.
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ShadowError(f"it is not valid TOML: {error}") from None


def has_hooks(text: str) -> bool:
    """Return whether a file defines hooks; approvals are no hooks."""
    hooks = load(text).get("hooks")
    return isinstance(hooks, dict) and any(name != _STATE for name in hooks)


def is_switched_off(text: str) -> bool:
    """Return whether a file has `[features] hooks = false`."""
    features = load(text).get("features")
    return isinstance(features, dict) and features.get("hooks") is False


def approvals(text: str) -> list[str]:
    """Return the keys of the approvals in a file."""
    hooks = load(text).get("hooks")
    state = hooks.get(_STATE) if isinstance(hooks, dict) else None
    return list(state) if isinstance(state, dict) else []


def entries(text: str, want: Want) -> list[HookEntry]:
    """Return our entries, event by event; a path is (event, group, handler) by number."""
    return [entry for entry in _handlers(text, want) if _is_ours(entry, want)]


def changed(text: str, want: Want) -> list[HookEntry]:
    """Return the entries that a person changed and that still report for the agent."""
    return [entry for entry in _handlers(text, want) if is_changed(entry, want)]


def _handlers(text: str, want: Want) -> Iterator[HookEntry]:
    hooks = load(text).get("hooks")
    key = want.shape.event_key
    if key is not None:
        for at, data in enumerate(hooks if isinstance(hooks, list) else ()):
            if isinstance(data, dict) and isinstance(data.get("command"), str):
                yield HookEntry(str(data.get(key)), (at,), data)
        return
    if not isinstance(hooks, dict):
        return
    for number, (event, groups) in enumerate(hooks.items()):
        for at, group in enumerate(groups if isinstance(groups, list) else ()):
            inner = group.get("hooks") if isinstance(group, dict) else None
            for place, data in enumerate(inner if isinstance(inner, list) else ()):
                if isinstance(data, dict) and isinstance(data.get("command"), str):
                    yield HookEntry(event, (number, at, place), data, group)


def _is_ours(entry: HookEntry, want: Want) -> bool:
    return invocation.agent_of(entry.command) == want.agent


def put_in(text: str, want: Want) -> str:
    """Return the text with our entries; the same text if they are right already.

    Raises:
        ShadowError: it is not TOML, or an entry cannot be added without changing more.
    """
    found = entries(text, want)
    if any(not is_right(entry, want) for entry in found):
        text = _without_ours(text, want)
    there = {entry.event for entry in entries(text, want) if is_right(entry, want)}
    there |= {entry.event for entry in changed(text, want)}
    events = [event for event in want.shape.events if event.name not in there]
    if not events:
        return text
    # Appended text leaves every byte before it as it was. It is not valid if the file has hooks in
    # another form (`hooks.Stop = [...]`), and only then tomlkit edits it.
    appended = text + _lead(text) + _newlines(text, _blocks(events, want))
    try:
        load(appended)
    except ShadowError:
        return _put_into_arrays(text, events, want)
    return appended


def take_out(text: str, want: Want, before: str | None = None) -> str | None:
    """Return the text without our entries; `before` as for `merge.take_out`.

    Raises:
        ShadowError: it is not TOML, or they cannot be removed without changing more.
    """
    left = _without_ours(text, want)
    # Only of a file with nothing but the list may nothing remain.
    alone = want.shape.event_key is not None and not before
    return None if alone and not left.strip() else left


def _without_ours(text: str, want: Want) -> str:
    for entry in entries(text, want):
        event = next((e for e in want.shape.events if e.name == entry.event), None)
        if event is None:
            continue
        block = _newlines(text, _blocks([event], want._replace(command=entry.command)))
        for lead in (_newlines(text, "\n"), ""):
            if lead + block in text:
                text = text.replace(lead + block, "", 1)
                break
    left = entries(text, want)
    if left:
        text = _take_out_of_tables(text, left)
    load(text)
    return text


def _lead(text: str) -> str:
    if not text:
        return ""
    newline = _newlines(text, "\n")
    return newline if text.endswith("\n") else newline * 2


def _newlines(text: str, block: str) -> str:
    return block.replace("\n", "\r\n") if "\r\n" in text else block


def _blocks(events: Sequence[EventRegistration], want: Want) -> str:
    return "\n".join(_block(event, want) for event in events)


def _block(event: EventRegistration, want: Want) -> str:
    lines = ["[[hooks]]"]
    if want.shape.event_key is None:
        lines = [f"[[hooks.{event.name}]]"]
        if event.matcher is not None:
            lines.append(f"matcher = {json.dumps(event.matcher)}")
        lines += ["", f"[[hooks.{event.name}.hooks]]"]
    for key, value in handler(event, want).items():
        lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def _put_into_arrays(text: str, events: Sequence[EventRegistration], want: Want) -> str:
    import tomlkit  # here and below, because most who look never edit: 8 ms

    document = _document(text)
    # tomlkit's tables are what the file makes them: its own types say no more.
    hooks: Any = document["hooks"]
    for event in events:
        inner = tomlkit.inline_table()
        inner.update(handler(event, want))
        if want.shape.event_key is not None:
            hooks.append(inner)
            continue
        group = tomlkit.inline_table()
        if event.matcher is not None:
            group.append("matcher", event.matcher)
        handlers = tomlkit.array()
        handlers.append(inner)
        group.append("hooks", handlers)
        hooks.setdefault(event.name, tomlkit.array()).append(group)
    return _checked(text, document.as_string())


def _take_out_of_tables(text: str, left: Sequence[HookEntry]) -> str:
    document = _document(text)
    hooks: Any = document["hooks"]
    for entry in reversed(left):
        if len(entry.path) == 1:
            del hooks[entry.path[0]]
            continue
        _, at, place = entry.path
        groups = hooks[entry.event]
        del groups[at]["hooks"][place]
        if not groups[at]["hooks"]:
            del groups[at]
        if not groups:
            del hooks[entry.event]
    if not hooks:
        del document["hooks"]
    return _checked(text, document.as_string())


def _document(text: str) -> "TOMLDocument":
    import tomlkit.exceptions

    try:
        document = tomlkit.parse(text)
    except tomlkit.exceptions.TOMLKitError as error:
        raise ShadowError(f"it is not valid TOML: {error}") from None
    return document


def _checked(old: str, new: str) -> str:
    """Return the new text if it differs from the old one only in our entries.

    Raises:
        ShadowError: it differs in more.
    """
    # tomlkit is not trusted with a user's settings: a result that changed more is not written.
    if _foreign(old) != _foreign(new) or _comments(old) != _comments(new):
        raise ShadowError("it cannot be edited without changing other settings")
    return new


def _foreign(text: str) -> object:
    """Return a file's values without our entries."""
    data = dict(load(text))
    hooks = data.pop("hooks", None)
    if isinstance(hooks, list):
        others = _others(hooks)
        return {**data, "hooks": others} if others else data
    if not isinstance(hooks, dict):
        return data
    kept = {}
    for event, groups in hooks.items():
        left = groups
        if isinstance(groups, list):
            left = [one for one in map(_foreign_group, groups) if one]
        if left:
            kept[event] = left
    return {**data, "hooks": kept} if kept else data


def _foreign_group(group: object) -> object:
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return group
    kept = _others(group["hooks"])
    return {**group, "hooks": kept} if kept else None


def _others(handlers: Sequence[object]) -> list[object]:
    """Return the handlers that are not ours."""
    return [
        one
        for one in handlers
        if not isinstance(one, dict)
        or invocation.agent_of(str(one.get("command"))) is None
    ]


def _comments(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.lstrip().startswith("#")]
