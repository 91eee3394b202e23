"""The values of secret arguments, and what is left of other values without them.

Values are hidden by their place, before they become JSON, so a text that is stored is JSON whatever
a secret looks like. Pure.
"""

import dataclasses
import json
import re
from array import array
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import date, time
from enum import Enum
from functools import cached_property
from io import BytesIO, StringIO
from typing import Any
from urllib.parse import quote, quote_plus
from uuid import UUID

from gitshadow.sdk.turns.values import Json, JsonObject, Secret

REDACTED = "[redacted]"
# A shorter secret is part of many other words, so it is hidden only as a word of its own.
_SHORTEST_PART = 4
# What comes before and after such a word. The last three are escapes of JSON, Python and addresses,
# whose letters and digits do not belong to the word.
_BEFORE = (
    r"(?:(?<!\w)(?<!\d\.)|(?<=\\[abfnrtv])|(?<=\\u[\da-fA-F]{4})|(?<=%[\da-fA-F]{2}))"
)
_AFTER = r"(?!\w)(?!\.\d)"
_FIELD = re.compile(r"[^\W\d]+")


class Secrets:
    """All that some values consist of, at any depth: texts, numbers, bytes, keys of mappings.

    Args:
        values: The values. None, truth values and empty ones are no secrets, nor are keys of
            letters alone, which are the names of fields.
        names: The arguments whose values they are.
    """

    def __init__(
        self, values: Iterable[object] = (), names: Iterable[str] = ()
    ) -> None:
        leaves = list(_leaves(list(values), fields=False))
        self._names = frozenset(names)
        self._numbers = frozenset(one for one in leaves if not isinstance(one, str))
        self._texts = frozenset(
            one if isinstance(one, str) else digits(one) for one in leaves
        )
        self._long = frozenset(
            form
            for text in self._texts
            if len(text) >= _SHORTEST_PART
            for form in _escaped(text) | _in_base64(text)
        )
        self._short = frozenset(
            form
            for text in self._texts
            if len(text) < _SHORTEST_PART
            for form in _escaped(text)
        )

    @classmethod
    def of(cls, arguments: JsonObject, names: Iterable[str]) -> "Secrets":
        """Return the secrets among the arguments of a call."""
        found = [name for name in names if name in arguments]
        return cls((arguments[name] for name in found), found) if found else NO_SECRETS

    def without(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments of the call without those that are secret; others are kept."""
        return {
            name: REDACTED if name in self._names else value
            for name, value in arguments.items()
        }

    def hide(self, value: Json) -> Json:
        """Return a JSON value without the secrets in it.

        A number that is one is hidden, a longer number is not; for texts and keys see `hide_text`.
        """
        if not self._texts:
            return value
        if isinstance(value, str):
            return self.hide_text(value)
        if isinstance(value, Mapping):
            return self._hidden_keys(value)
        if isinstance(value, Sequence):
            return [self.hide(each) for each in value]
        return REDACTED if self._is_number(value) else value

    def hide_text(self, text: str) -> str:
        """Return a text without the secrets in it, plain or escaped as other programs do it.

        One of four characters or more is found anywhere, a shorter one as a word of its own.
        """
        return self._pattern.sub(REDACTED, text) if self._may_be_in(text) else text

    def are_in(self, value: object) -> bool:
        """Return whether any value, of any type, contains one."""
        if not self._texts:
            return False
        return any(
            self._may_be_in(one) and self._pattern.search(one) is not None
            if isinstance(one, str)
            else self._is_number(one)
            for one in _leaves(value, fields=True)
        )

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        choices = _choices(self._long)
        if self._short:
            words = "|".join(_choices(self._short))
            choices.append(f"{_BEFORE}(?:{words}){_AFTER}")
        return re.compile("|".join(choices))

    def _may_be_in(self, text: str) -> bool:
        # A pattern takes milliseconds to compile, and most texts have no secret in them.
        return any(one in text for one in self._long) or any(
            one in text for one in self._short
        )

    def _hidden_keys(self, value: Mapping[str, Json]) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for key, each in value.items():
            name = self.hide_text(key)
            # Two keys that are both hidden must not become one: a value would be lost.
            while name in found:
                name += "'"
            found[name] = self.hide(each)
        return found

    def _is_number(self, value: object) -> bool:
        # True and 1 are equal in Python.
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return value in self._numbers or digits(value) in self._texts


def digits(number: float) -> str:
    """Return a number as a text; Python writes very large ones in base 16 only."""
    try:
        return str(number)
    except ValueError:
        return hex(int(number))


def _leaves(value: object, *, fields: bool) -> Iterator[str | int | float]:
    """Yield the texts and numbers that a value consists of; it may contain itself.

    With `fields` the names of fields are among them.
    """
    waiting: list[Any] = [value]
    # The objects and not their ids alone: an id is given again when its object is gone.
    seen: dict[int, object] = {}
    while waiting:
        one = waiting.pop()
        if isinstance(one, Enum):
            one = one.value
        if isinstance(one, bytes | bytearray | memoryview):
            one = bytes(one).decode("utf-8", "backslashreplace")
        if isinstance(one, str | int | float):
            if one != "" and not isinstance(one, bool):
                yield one
        # A `Secret` is a name only, which may be stored.
        elif one is not None and not isinstance(one, Secret) and id(one) not in seen:
            seen[id(one)] = one
            waiting += _parts(one, fields=fields)


def _parts(value: object, *, fields: bool) -> Iterable[object]:
    if isinstance(value, Mapping):
        return [
            *(key for key in value if fields or not _is_field(key)),
            *value.values(),
        ]
    if isinstance(value, Sequence | Set):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in dataclasses.fields(value)]
        return [getattr(value, name, None) for name in names]
    return [*_said(value), *getattr(value, "__dict__", {}).values(), *_slots(value)]


def _said(value: object) -> list[object]:
    """Return how programs write a value of a class that is no collection, and what it holds."""
    try:
        if isinstance(value, BytesIO | StringIO):
            return [value.getvalue()]
        if isinstance(value, array):
            return value.tolist()
        said: list[object] = [str(value)]
        if isinstance(value, BaseException):
            said += value.args
        elif isinstance(value, date | time):
            said.append(value.isoformat())
        elif isinstance(value, UUID):
            said.append(value.hex)
    except Exception:  # noqa: BLE001 - the host's own objects run its code here
        return []
    return said


def _slots(value: object) -> Iterator[object]:
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            owner = f"_{kind.__name__.lstrip('_')}" if is_private else ""
            yield getattr(value, owner + name, None)


def _is_field(key: object) -> bool:
    # With `id` or `name` as a secret, hardly any inverse could be stored.
    return isinstance(key, str) and _FIELD.fullmatch(key) is not None


def _choices(texts: Iterable[str]) -> list[str]:
    # The longest first: a secret may begin with another one.
    return [re.escape(one) for one in sorted(texts, key=lambda one: (-len(one), one))]


def _escaped(text: str) -> set[str]:
    """Return a text as it may turn up in others: in JSON, in a `repr`, in an address."""
    if text.isascii() and text.isalnum():
        return {text}
    found = {text}
    # Twice, because a JSON text may be in a `repr`, and that again in JSON.
    for _ in range(2):
        for one in tuple(found):
            found.add(json.dumps(one)[1:-1])
            found.add(json.dumps(one, ensure_ascii=False)[1:-1])
            found |= {repr(one)[1:-1], ascii(one)[1:-1]}
            found.add(one.replace("\\", "\\\\").replace("'", "\\'"))
    data = text.encode("utf-8", "surrogatepass")
    return found | {quote(data), quote(data, safe=""), quote_plus(data)}


def _in_base64(text: str) -> set[str]:
    """Return the characters that a text has in base64, whatever is before and after it."""
    data = text.encode("utf-8", "surrogatepass")
    found: set[str] = set()
    # Three bytes are four characters, so there are three places for the first byte.
    for before, cut in enumerate((0, 2, 3)):
        coded = b64encode(bytes(before) + data).decode()
        own = coded[cut : (before + len(data)) * 8 // 6]
        found |= {own, own.replace("+", "-").replace("/", "_")}
    return found


NO_SECRETS = Secrets()
