"""An event as a JSON object: the form in which the spool keeps what was read of a payload.

Invariant: `parse` returns what `document` was given.
"""

import os
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from gitshadow.adapters.base import (
    BadPayload,
    FileEdit,
    HookEvent,
    HookPhase,
    Parsed,
    Replacement,
)
from gitshadow.adapters.payload import Payload
from gitshadow.model import JsonObject, ToolClass

NAME = "event"
"""The name of the agent of a payload that is such an object."""
_REASON = "unreadable"


def document(found: HookEvent | BadPayload) -> JsonObject:
    """Return what was read of a payload; bytes are texts with surrogate escapes."""
    if isinstance(found, BadPayload):
        return {_REASON: found.reason}
    return {
        one.name: _plain(value)
        for one in fields(HookEvent)
        if (value := getattr(found, one.name)) != one.default
    }


def parse(payload: Payload) -> Parsed:
    """Read such an object."""
    reason = payload.text(_REASON)
    if reason is not None:
        return BadPayload(reason)
    # What is wrong with the types of other fields is found where these are used.
    given: dict[str, Any] = dict(payload.fields)
    try:
        given["phase"] = HookPhase(given["phase"])
        given["tool_class"] = ToolClass(given.get("tool_class", "other"))
        given["awaited"] = tuple(given.get("awaited", ()))
        for name in given.keys() & {"cwd", "paths", "changed"}:
            given[name] = _bytes(given[name])
        if "edit" in given:
            edit: Any = {name: _bytes(text) for name, text in given["edit"].items()}
            given["edit"] = (FileEdit if "left" in edit else Replacement)(**edit)
        return HookEvent(**given)
    except (AttributeError, LookupError, TypeError, ValueError):
        return BadPayload("the spooled event is damaged")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return os.fsdecode(value)
    if isinstance(value, FileEdit | Replacement):
        return {name: _plain(one) for name, one in value._asdict().items()}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _bytes(value: str | Iterable[str] | None) -> bytes | tuple[bytes, ...] | None:
    if value is None or isinstance(value, str):
        return None if value is None else os.fsencode(value)
    return tuple(map(os.fsencode, value))
