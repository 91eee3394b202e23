"""JSON with comments, read as text with positions.

Comments and trailing commas are blanked by as many spaces, and the standard library's decoder
reads what is left: each offset it gives is one in the text.
Invariant: nothing is changed here; `splice.py` edits by these positions.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

Path = tuple[int, ...]
"""The way to a value: at each level the number of the member or item."""

COMMENTS = re.compile(r'"(?:[^"\\]|\\.)*"|(//[^\r\n]*|/\*.*?\*/)', re.DOTALL)
_COMMAS = re.compile(r'"(?:[^"\\]|\\.)*"|(,)(?=[ \t\r\n]*[}\]])', re.DOTALL)
SPACE = " \t\r\n"
BOM = "\ufeff"


class MalformedError(ValueError):
    """Report text that is not JSON, even when comments and trailing commas are allowed."""


@dataclass(frozen=True, slots=True)
class Value:
    """Hold one value, where it stands, and what is in it.

    `children` are the items of a list or the members of an object, `keys` the members' names
    in the same order and `starts` where each child begins (a member at its name).
    """

    start: int
    end: int
    data: object
    children: tuple["Value", ...] = ()
    keys: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    @property
    def is_object(self) -> bool:
        """Tell whether this is an object."""
        return isinstance(self.data, dict)

    @property
    def is_list(self) -> bool:
        """Tell whether this is a list."""
        return isinstance(self.data, list)

    def index(self, key: str) -> int | None:
        """Return the number of the member that counts: of equal names, the last."""
        found = [at for at, name in enumerate(self.keys) if name == key]
        return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class Document:
    """Hold a text and what it means; `root` is None where there is nothing but comments."""

    text: str
    plain: str
    root: Value | None

    def at(self, path: Path) -> Value:
        """Return the value at a path that is known to exist."""
        value = self.root
        assert value is not None, "a document without a value has no paths"
        for index in path:
            value = value.children[index]
        return value


@lru_cache(maxsize=4)
def parse(text: str) -> Document:
    """Read a text; a byte order mark is passed over.

    Each edit asks for the text that the last one made, so the newest few are kept; nobody
    changes what a document holds.

    Raises:
        MalformedError: it is no JSON.
    """
    plain = COMMENTS.sub(_blanked, text)
    if plain.startswith(BOM):
        plain = " " + plain[1:]
    blank = _without_trailing_commas(plain)
    try:
        return Document(text, plain, _Reader(blank).document())
    except RecursionError:
        raise MalformedError("nested too deeply") from None
    except json.JSONDecodeError as error:
        line = text.count("\n", 0, error.pos) + 1
        raise MalformedError(f"{error.msg.lower()} in line {line}") from None


def _blanked(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    return re.sub(r"[^\r\n]", " ", match[0])


def _without_trailing_commas(plain: str) -> str:
    def blanked(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        at = match.start() - 1
        while at >= 0 and plain[at] in SPACE:
            at -= 1
        return match[0] if at < 0 or plain[at] in "{[,:" else " "

    return _COMMAS.sub(blanked, plain)


class _Reader:
    """Read values with their positions; scalars are left to the decoder."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decoder = json.JSONDecoder(parse_constant=self._no_constant)

    def document(self) -> Value | None:
        at = skip(self._text, 0)
        if at == len(self._text):
            return None
        root = self._value(at)
        end = skip(self._text, root.end)
        if end != len(self._text):
            raise self._error("Extra data", end)
        return root

    def _value(self, at: int) -> Value:
        opening = self._text[at : at + 1]
        if opening == "{":
            return self._object(at)
        if opening == "[":
            return self._list(at)
        data, end = self._scalar(at)
        return Value(at, end, data)

    def _scalar(self, at: int) -> tuple[object, int]:
        decoded: tuple[object, int] = self._decoder.raw_decode(self._text, at)
        return decoded

    def _object(self, start: int) -> Value:
        keys: list[str] = []
        values: list[Value] = []
        starts: list[int] = []
        for at in self._places(start, "}"):
            if self._text[at : at + 1] != '"':
                raise self._error("Expecting a name in double quotes", at)
            key, end = self._scalar(at)
            colon = skip(self._text, end)
            if self._text[colon : colon + 1] != ":":
                raise self._error("Expecting ':'", colon)
            keys.append(str(key))
            starts.append(at)
            values.append(self._value(skip(self._text, colon + 1)))
            self._end = values[-1].end
        data = {key: value.data for key, value in zip(keys, values, strict=True)}
        return Value(start, self._end, data, tuple(values), tuple(keys), tuple(starts))

    def _list(self, start: int) -> Value:
        values: list[Value] = []
        for at in self._places(start, "]"):
            values.append(self._value(at))
            self._end = values[-1].end
        starts = tuple(value.start for value in values)
        data = [value.data for value in values]
        return Value(start, self._end, data, tuple(values), (), starts)

    def _places(self, start: int, closing: str) -> Iterator[int]:
        """Yield where each child begins; leave the container's end in `_end`."""
        at = skip(self._text, start + 1)
        if self._text[at : at + 1] == closing:
            self._end = at + 1
            return
        while True:
            yield at
            at = skip(self._text, self._end)
            found = self._text[at : at + 1]
            if found == closing:
                self._end = at + 1
                return
            if found != ",":
                raise self._error(f"Expecting ',' or '{closing}'", at)
            at = skip(self._text, at + 1)

    def _error(self, message: str, at: int) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self._text, at)

    def _no_constant(self, name: str) -> object:
        raise MalformedError(f"{name} is not a JSON value")


def skip(text: str, at: int) -> int:
    """Return the first place from one on that is no white space."""
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at
