"""Read the fields of a payload: a wrong type is an absent value, never an exception.

Invariant: each value is bounded and can be a key, a trailer or the bytes of a file name.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, KeysView
from typing import TypeVar

from gitshadow.model import JsonObject, JsonValue
from gitshadow.store.digests import digest

MAX_ID_CHARS = 200
MAX_NATIVE_CHARS = 1_000
MAX_PROMPT_CHARS = 1_000_000
MAX_PATHS = 1_000
_DAY_MS = 86_400_000

_Read = TypeVar("_Read")


class Payload:
    """A JSON object that a program sent.

    A dotted key leads through objects; a JSON text on the way is read as the object that it
    contains. Of several keys, the first one with a readable value counts.
    """

    __slots__ = ("fields",)

    def __init__(self, fields: JsonObject) -> None:
        self.fields = fields

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    @property
    def names(self) -> KeysView[str]:
        """Return the names of the fields."""
        return self.fields.keys()

    def changed(self, **fields: JsonValue) -> "Payload":
        """Return a payload with some fields replaced."""
        return Payload({**self.fields, **fields})

    def value(self, key: str) -> JsonValue:
        """Return the value of a field of any type, or None."""
        head, dot, rest = key.partition(".")
        found = self.fields.get(head)
        return Payload(_object(found)).value(rest) if dot else found

    def text(self, *keys: str) -> str | None:
        """Return a non-empty string, or None; lone surrogates become `?`."""
        return self._first(_text, keys)

    def identifier(self, *keys: str) -> str | None:
        """Return a short printable id, or None; see `shortened_id`."""
        # Some agents put a newline into a call id (Cursor CLI, 2026-02).
        found = self.text(*keys)
        return None if found is None else shortened_id(found)

    def native_id(self, *keys: str) -> str | None:
        """Return an agent's own session id unchanged; a very long one is cut with a hash."""
        found = self.text(*keys)
        if found is None or len(found) <= MAX_NATIVE_CHARS:
            return found
        return shortened(found, MAX_NATIVE_CHARS)

    def prompt_text(self, *keys: str) -> str | None:
        """Return a prompt, cut at a million characters, or None."""
        found = self.text(*keys)
        return None if found is None else found[:MAX_PROMPT_CHARS]

    def object(self, *keys: str) -> "Payload":
        """Return the first non-empty object, else an empty one."""
        found = (_object(self.value(key)) for key in keys)
        return Payload(next(filter(None, found), {}))

    def objects(self, key: str) -> "list[Payload]":
        """Return the objects in a list."""
        found = self.value(key)
        items = found if isinstance(found, list) else []
        return [Payload(item) for item in items if isinstance(item, dict)]

    def count(self, *keys: str) -> int:
        """Return the length of the longest list, 0 if there is none."""
        found = (self.value(key) for key in keys)
        return max((len(one) for one in found if isinstance(one, list)), default=0)

    def process(self, key: str) -> int | None:
        """Return the number of a process, None if it cannot be one."""
        found = self.value(key)
        if not isinstance(found, int) or isinstance(found, bool):
            return None
        return found if 1 < found < 1 << 31 else None

    def duration_ns(self, *keys: str) -> int | None:
        """Return a duration given in milliseconds; None unless it is between 0 and a day."""
        return self._first(_nanoseconds, keys)

    def path(self, *keys: str) -> bytes | None:
        """Return a path, or the first item of a list of paths."""
        return self._first(_path, keys)

    def paths(self, *keys: str) -> tuple[bytes, ...]:
        """Return the paths of all keys, in order, each once.

        `files[]` names the items of a list, `edits[].path` a field of each.
        """
        found = (raw_path(value) for key in keys for value in _each(self.fields, key))
        return distinct(found)

    def _first(
        self, read: Callable[[JsonValue], _Read | None], keys: Iterable[str]
    ) -> _Read | None:
        for key in keys:
            found = read(self.value(key))
            if found is not None:
                return found
        return None


def prompt_of(parts: Iterable[Payload]) -> str | None:
    """Return the texts of a message's parts as one prompt, cut at a million characters, or None."""
    whole = "\n".join(part.text("text") or "" for part in parts).strip("\n")
    return whole[:MAX_PROMPT_CHARS] or None


def raw_path(value: object) -> bytes | None:
    """Return the bytes of a path as a payload names it; None if it cannot be a path.

    Bytes that are not UTF-8 come as surrogate escapes, as in Python's `os.fsencode`.
    """
    if not isinstance(value, str) or not value or "\0" in value:
        return None
    try:
        return os.fsencode(value)
    except UnicodeEncodeError:
        return None


def distinct(paths: Iterable[bytes | None]) -> tuple[bytes, ...]:
    """Return paths in order, each once, at most a thousand."""
    return tuple(dict.fromkeys(path for path in paths if path is not None))[:MAX_PATHS]


def derived_call_id(session: str, tool: str, tool_input: JsonValue) -> str:
    """Return the same id for the same call of an agent that sends no call ids."""
    normal = json.dumps(tool_input, sort_keys=True, separators=(",", ":"), default=str)
    whole = "\0".join((session, tool, normal))
    return "h-" + _fingerprint(whole, 10)


def shortened_id(value: str) -> str:
    """Return a text as an id: control characters become `_`, a long one gets a hash."""
    clean = "".join(c if c.isprintable() else "_" for c in value)
    return clean if len(clean) <= MAX_ID_CHARS else shortened(value, MAX_ID_CHARS)


def shortened(value: str, limit: int) -> str:
    """Return a text cut to a limit; its last 17 characters are a hash of all of it."""
    clean = "".join(c if c.isprintable() else "_" for c in value[: limit - 17])
    return f"{clean}-{_fingerprint(value, 8)}"


def _text(value: JsonValue) -> str | None:
    if not isinstance(value, str) or not value:
        return None
    return value.encode("utf-8", "replace").decode("utf-8")


def _nanoseconds(value: JsonValue) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value * 1_000_000) if 0 <= value <= _DAY_MS else None


def _path(value: JsonValue) -> bytes | None:
    return raw_path(value[0] if isinstance(value, list) and value else value)


def _each(value: JsonValue, key: str) -> Iterator[JsonValue]:
    head, dot, rest = key.partition(".")
    inner = _object(value).get(head.removesuffix("[]"))
    if head.endswith("[]"):
        items = inner[:MAX_PATHS] if isinstance(inner, list) else []
    else:
        items = [inner]
    for item in items:
        if dot:
            yield from _each(item, rest)
        else:
            yield item


def _object(value: JsonValue) -> JsonObject:
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _fingerprint(value: str, size: int) -> str:
    return digest(value.encode("utf-8", "surrogatepass"), size)
