"""Careful reading of single fields: a wrong type is an absent value, never an exception.

Invariant: what comes out is bounded and can be a key, a trailer or a file name's bytes.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

MAX_ID_CHARS = 200
MAX_NATIVE_CHARS = 1_000
MAX_PROMPT_CHARS = 1_000_000
MAX_PATHS = 1_000


def at(payload: Mapping[str, object], key: str) -> object:
    """Return what stands under a key, None for nothing; a dotted key leads through objects.

    A JSON text on the way is read as the object that it holds.
    """
    head, dot, rest = key.partition(".")
    value = payload.get(head)
    return at(_object(value), rest) if dot else value


def text(payload: Mapping[str, object], key: str) -> str | None:
    """Return a non-empty string field, else None; lone surrogates become `?`."""
    value = at(payload, key)
    if not isinstance(value, str) or not value:
        return None
    return value.encode("utf-8", "replace").decode("utf-8")


def identifier(payload: Mapping[str, object], key: str) -> str | None:
    """Return a short printable id; control characters become `_`, a long one gets a hash.

    Some agents put a newline into a call id (Cursor CLI, 2026-02).
    """
    value = text(payload, key)
    if value is None:
        return None
    return shortened_id(value)


def native_id(payload: Mapping[str, object], key: str) -> str | None:
    """Return an agent's own session id as it stands; a very long one is cut with a hash."""
    value = text(payload, key)
    if value is None or len(value) <= MAX_NATIVE_CHARS:
        return value
    return shortened(value, MAX_NATIVE_CHARS)


def prompt_text(payload: Mapping[str, object], key: str) -> str | None:
    """Return a prompt, cut at a million characters."""
    value = text(payload, key)
    return value if value is None else value[:MAX_PROMPT_CHARS]


def prompt_of(parts: Iterable[Mapping[str, object]]) -> str | None:
    """Return the texts of a message's parts as one prompt, cut like `prompt_text`, or None."""
    said = "\n".join(text(one, "text") or "" for one in parts).strip("\n")
    return said[:MAX_PROMPT_CHARS] or None


def mapping(payload: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return an object field; a JSON text that holds one counts too; else an empty one."""
    return _object(at(payload, key))


def count(payload: Mapping[str, object], key: str) -> int:
    """Return the length of a list field, 0 when it is none."""
    value = at(payload, key)
    return len(value) if isinstance(value, list) else 0


def milliseconds(payload: Mapping[str, object], key: str) -> int | None:
    """Return a duration field in nanoseconds; None unless it is between 0 and a day."""
    value = at(payload, key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= 86_400_000:
        return None
    return int(value * 1_000_000)


def raw_path(value: object) -> bytes | None:
    """Return the bytes of a path as a payload names it; None for what can be no path.

    Bytes that are not UTF-8 come as surrogate escapes, as in Python's `os.fsencode`.
    """
    if not isinstance(value, str) or not value or "\0" in value:
        return None
    try:
        return os.fsencode(value)
    except UnicodeEncodeError:
        return None


def first_path(payload: Mapping[str, object], key: str) -> bytes | None:
    """Return a path field, of a list its first item."""
    value = at(payload, key)
    return raw_path(value[0] if isinstance(value, list) and value else value)


def paths_at(payload: Mapping[str, object], keys: Sequence[str]) -> tuple[bytes, ...]:
    """Return the paths that stand under some keys, in order, each once.

    `files[]` names the items of a list, `edits[].path` a field of each.
    """
    found = (raw_path(value) for key in keys for value in _each(payload, key))
    named = dict.fromkeys(path for path in found if path is not None)
    return tuple(named)[:MAX_PATHS]


def derived_call_id(session: str, tool: str, tool_input: object) -> str:
    """Return the same id for the same call of an agent that sends no call ids."""
    normal = json.dumps(tool_input, sort_keys=True, separators=(",", ":"), default=str)
    whole = "\0".join((session, tool, normal))
    return "h-" + _hex(whole)[:20]


def shortened_id(value: str) -> str:
    """Make a text an id: control characters become `_`, a long one gets a hash."""
    clean = "".join(c if c.isprintable() else "_" for c in value)
    return clean if len(clean) <= MAX_ID_CHARS else shortened(value, MAX_ID_CHARS)


def shortened(value: str, limit: int) -> str:
    """Cut a text to a limit, the last 17 characters being a hash of all of it."""
    clean = "".join(c if c.isprintable() else "_" for c in value[: limit - 17])
    return f"{clean}-{_hex(value)[:16]}"


def _each(value: object, key: str) -> Iterator[object]:
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


def _object(value: object) -> Mapping[str, object]:
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _hex(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
