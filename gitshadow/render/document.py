"""Typed looks into the JSON documents that come from the engine.

A document may come from a daemon that is a little newer or older than this program, so a
field that is missing, or of another type, reads as its empty value and never raises.
Invariant: nothing outside this module tests the type of a field.
"""

from collections.abc import Mapping

Document = dict[str, object]
"""One JSON object: an engine verb's whole answer."""


def text(row: Mapping[str, object], key: str) -> str:
    """Return a string field; a number is spelled out, anything else gives ``""``."""
    value = row.get(key)
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return ""


def number(row: Mapping[str, object], key: str) -> int:
    """Return an integer field, 0 when there is none."""
    value = row.get(key)
    return value if isinstance(value, int) else 0


def flag(row: Mapping[str, object], key: str) -> bool:
    """Return a boolean field, False when there is none."""
    return row.get(key) is True


def inner(row: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return an object field, empty when there is none."""
    value = row.get(key)
    return value if isinstance(value, dict) else {}


def rows(row: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    """Return a field that lists objects, in its order, leaving out what is no object."""
    value = row.get(key)
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def texts(row: Mapping[str, object], key: str) -> list[str]:
    """Return a field that lists strings, in its order, leaving out what is no string."""
    value = row.get(key)
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, str)]
