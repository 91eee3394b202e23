"""JSON with comments: read with positions, and edited by splicing its text.

Comments and trailing commas are replaced by as many spaces, and the standard library's decoder
reads the rest: each offset that it gives is one in the text. The files belong to people, so an
edit may change nothing else, and no parser may write them again.
Invariant: an edit returns the given text with one or two stretches spliced.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from gitshadow.model import JsonValue

Path = tuple[int, ...]
"""The way to a value: at each level the number of the member or item."""

COMMENTS = re.compile(r'"(?:[^"\\]|\\.)*"|(//[^\r\n]*|/\*.*?\*/)', re.DOTALL)
_COMMAS = re.compile(r'"(?:[^"\\]|\\.)*"|(,)(?=[ \t\r\n]*[}\]])', re.DOTALL)
SPACE = " \t\r\n"
BOM = "\ufeff"
_NEWLINE = re.compile(r"\r\n|\n|\r")


class MalformedError(ValueError):
    """The text is not JSON, even if comments and trailing commas are allowed."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value and its position.

    Attributes:
        children: The items of a list or the members of an object.
        keys: The members' names in the same order.
        starts: Where each child begins (a member at its name).
    """

    start: int
    end: int
    data: JsonValue
    children: tuple["Value", ...] = ()
    keys: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    @property
    def is_object(self) -> bool:
        """Whether this is an object."""
        return isinstance(self.data, dict)

    @property
    def is_list(self) -> bool:
        """Whether this is a list."""
        return isinstance(self.data, list)

    def index(self, key: str) -> int | None:
        """Return the number of the member that counts: of equal names, the last."""
        found = [at for at, name in enumerate(self.keys) if name == key]
        return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A text and its values; `root` is None if there are only comments."""

    text: str
    plain: str
    root: Value | None

    def at(self, path: Path) -> Value:
        """Return the value at a path that is known to exist.

        Raises:
            LookupError: it does not.
        """
        if self.root is None:
            raise LookupError("a document without a value has no paths")
        value = self.root
        for index in path:
            value = value.children[index]
        return value


# Each edit parses the text that the edit before it returned, so the newest few are kept.
@lru_cache(maxsize=4)
def parse(text: str) -> ParsedText:
    """Read a text; a byte order mark is skipped.

    Raises:
        MalformedError: it is no JSON.
    """
    plain = COMMENTS.sub(_blanked, text)
    if plain.startswith(BOM):
        plain = " " + plain[1:]
    blank = _without_trailing_commas(plain)
    try:
        return ParsedText(text, plain, _Reader(blank).document())
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
        # A comma without a value before it is a mistake, and must not become valid here.
        return match[0] if at < 0 or plain[at] in "{[,:" else " "

    return _COMMAS.sub(blanked, plain)


class _Reader:
    """Read values with their positions; scalars are left to the decoder."""

    # The json module gives no positions, and an edit that prints the values again would lose the
    # user's comments and layout.

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

    def _scalar(self, at: int) -> tuple[JsonValue, int]:
        decoded: tuple[JsonValue, int] = self._decoder.raw_decode(self._text, at)
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
    """Return the first position from one on that is not white space."""
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at


def append(text: str, path: Path, data: JsonValue, key: str | None = None) -> str:
    """Add a last child to the container at a path, laid out like its surroundings.

    Args:
        text: A text whose `parse` has a root.
        path: The container.
        data: The value of the child.
        key: The member's name if the container is an object.
    """
    document = parse(text)
    layout, container = _Layout(document, key, data), document.at(path)
    if container.children:
        return _append_behind(layout, container)
    return _fill_empty(layout, container)


def _append_behind(layout: "_Layout", container: Value) -> str:
    document = layout.document
    text, plain = document.text, document.plain
    last, start = container.children[-1], container.starts[-1]
    comma = skip(plain, last.end)
    trailing = plain[comma] == ","
    anchor = comma + 1 if trailing else last.end
    line = _line_start(text, start)
    indent = _indent_at(text, start)
    if not plain[line:start].strip(SPACE):
        point = _line_end(document, anchor)
        body = layout.newline + indent + layout.block(indent)
    else:
        point = anchor
        spread = _NEWLINE.search(text, container.start, container.end) is not None
        shown = layout.block(indent) if spread else layout.inline()
        body = layout.gap + shown
    if trailing:
        return text[:point] + body + "," + text[point:]
    return text[: last.end] + "," + text[last.end : point] + body + text[point:]


def _fill_empty(layout: "_Layout", container: Value) -> str:
    document = layout.document
    text = document.text
    inside, end = container.start + 1, container.end - 1
    if layout.compact:
        return text[:inside] + layout.inline() + text[inside:]
    base = _indent_at(text, container.start)
    indent = base + layout.unit
    point = _line_end(document, inside)
    body = layout.newline + indent + layout.block(indent)
    if _NEWLINE.search(text, point, end) is None:
        body += layout.newline + base
    return text[:point] + body + text[point:]


def remove(text: str, path: Path) -> str:
    """Remove the child at a path, with its comma and its line break."""
    document = parse(text)
    plain = document.plain
    container, index = document.at(path[:-1]), path[-1]
    start, end = container.starts[index], container.children[index].end
    lead = _lead(text, start)
    own_line = lead < _line_start(text, start)
    behind = skip(plain, end)
    before: int | None = None
    if plain[behind] == ",":
        stop = behind + 1
        if index == 0 and not own_line:
            while text[stop : stop + 1] in (" ", "\t"):
                stop += 1
        rest = text[end:behind] + text[stop:]
    else:
        rest = text[end:]
        if index > 0:
            before = plain.index(",", container.children[index - 1].end, start)
    # Without its line break, what follows would be in the comment of the line above.
    if own_line and _would_be_swallowed(text, lead, rest):
        lead = _line_start(text, start)
    if before is None:
        return text[:lead] + rest
    return text[:before] + text[before + 1 : max(lead, before + 1)] + rest


def _would_be_swallowed(text: str, lead: int, rest: str) -> bool:
    """Return whether the rest would become part of a `//` comment in the line above."""
    if rest.lstrip(" \t")[:1] in ("", "\r", "\n"):
        return False
    return any(
        match[1] is not None and match[1].startswith("//") and match.end() == lead
        for match in COMMENTS.finditer(text)
    )


def set_inside(text: str, path: Path, inside: str) -> str:
    """Replace the text between the brackets of a container without children.

    If its comments differ from those of `inside`, nothing is changed.
    """
    document = parse(text)
    value = document.at(path)
    start, end = value.start + 1, value.end - 1
    if value.children or text[start:end].split() != inside.split():
        return text
    return text[:start] + inside + text[end:]


def inside(document: ParsedText, path: Path) -> str:
    """Return the text between the brackets of a container."""
    value = document.at(path)
    return document.text[value.start + 1 : value.end - 1]


def fresh(text: str, data: JsonValue) -> str:
    """Add the first value to a text that has none, after its comments."""
    newline = _newline_of(text)
    lead = "" if not text or text == BOM or text[-1] in "\r\n" else newline
    body = json.dumps(data, indent=2, ensure_ascii=False).replace("\n", newline)
    return f"{text}{lead}{body}{newline}"


class _Layout:
    """A new child in the layout of a text: line ends, indentation, spaces."""

    def __init__(self, document: ParsedText, key: str | None, data: JsonValue) -> None:
        self.document, self._data = document, data
        text, root = document.text, document.at(())
        self.newline = _newline_of(text)
        spread = _NEWLINE.search(text, root.start, root.end) is not None
        self.compact = bool(root.children) and not spread
        self.unit = _unit(document, root)
        colon = re.search(r'"[ \t]*:([ \t]*)(?=[^ \t\r\n])', document.plain)
        self.gap = "" if colon is not None and colon[1] == "" else " "
        name = json.dumps(key, ensure_ascii=False)
        self._name = "" if key is None else f"{name}:{self.gap}"

    def block(self, indent: str) -> str:
        """Return the child over several lines, all but the first one indented."""
        return self._name + self._dumped(",", self.unit).replace(
            "\n", self.newline + indent
        )

    def inline(self) -> str:
        """Return the child in one line."""
        return self._name + self._dumped(f",{self.gap}")

    def _dumped(self, comma: str, indent: str | None = None) -> str:
        marks = (comma, f":{self.gap}")
        return json.dumps(
            self._data, indent=indent, ensure_ascii=False, separators=marks
        )


def _newline_of(text: str) -> str:
    found = _NEWLINE.search(text)
    return found[0] if found else "\n"


def _unit(document: ParsedText, root: Value) -> str:
    """Return by how much a level is indented: as the first line that is."""
    for start in root.starts:
        line = _line_start(document.text, start)
        if line > root.start and not document.text[line:start].strip(" \t"):
            return document.text[line:start] or "  "
    found = re.search(r"[\r\n]([ \t]+)[^ \t\r\n}\]]", document.plain[root.start :])
    return found[1] if found else "  "


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _indent_at(text: str, at: int) -> str:
    line = _line_start(text, at)
    found = re.match(r"[ \t]*", text[line:at])
    return found[0] if found else ""


def _lead(text: str, start: int) -> int:
    """Return where the white space that leads to a child begins: its line break, if any."""
    at = start
    while at > 0 and text[at - 1] in " \t":
        at -= 1
    if text[at - 2 : at] == "\r\n":
        return at - 2
    return at - 1 if at > 0 and text[at - 1] in "\r\n" else at


def _line_end(document: ParsedText, at: int) -> int:
    """Return the end of the line if only a comment follows on it, else the position itself."""
    found = _NEWLINE.search(document.text, at)
    if found is None or document.plain[at : found.start()].strip(" \t"):
        return at
    in_comment = any(
        match[1] is not None and match.start() < found.start() < match.end()
        for match in COMMENTS.finditer(document.text)
    )
    return at if in_comment else found.start()
