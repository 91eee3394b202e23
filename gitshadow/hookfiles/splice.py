"""Edits of JSON with comments that splice its text, laid out like what stands around them.

The files belong to people: nothing but what an edit puts in or takes out may change, so no
parser may write them anew.
Invariant: what an edit returns is the text it was given with one or two stretches spliced.
"""

import json
import re

from gitshadow.hookfiles.jsonc import (
    BOM,
    COMMENTS,
    SPACE,
    Document,
    Path,
    Value,
    parse,
    skip,
)

_NEWLINE = re.compile(r"\r\n|\n|\r")


def append(text: str, path: Path, data: object, key: str | None = None) -> str:
    """Put a new last child into the container at a path, laid out like its surroundings.

    Args:
        text: A text whose `parse` has a root.
        path: The container.
        data: What to put in.
        key: The member's name where the container is an object.
    """
    document = parse(text)
    container = document.at(path)
    layout = _Layout(document)
    if container.children:
        return _append_behind(document, container, layout, (key, data))
    return _fill_empty(document, container, layout, (key, data))


def _append_behind(
    document: Document,
    container: Value,
    layout: "_Layout",
    child: tuple[str | None, object],
) -> str:
    text, plain = document.text, document.plain
    last, start = container.children[-1], container.starts[-1]
    comma = skip(plain, last.end)
    trailing = plain[comma] == ","
    anchor = comma + 1 if trailing else last.end
    line = _line_start(text, start)
    indent = _indent_at(text, start)
    if not plain[line:start].strip(SPACE):
        point = _line_end(document, anchor)
        body = layout.newline + indent + layout.block(child, indent)
    else:
        point = anchor
        spread = _NEWLINE.search(text, container.start, container.end) is not None
        shown = layout.block(child, indent) if spread else layout.inline(child)
        body = layout.gap + shown
    if trailing:
        return text[:point] + body + "," + text[point:]
    return text[: last.end] + "," + text[last.end : point] + body + text[point:]


def _fill_empty(
    document: Document,
    container: Value,
    layout: "_Layout",
    child: tuple[str | None, object],
) -> str:
    text = document.text
    inside, end = container.start + 1, container.end - 1
    if layout.compact:
        return text[:inside] + layout.inline(child) + text[inside:]
    base = _indent_at(text, container.start)
    indent = base + layout.unit
    point = _line_end(document, inside)
    body = layout.newline + indent + layout.block(child, indent)
    if _NEWLINE.search(text, point, end) is None:
        body += layout.newline + base
    return text[:point] + body + text[point:]


def remove(text: str, path: Path) -> str:
    """Take the child at a path out, with its comma and its line break."""
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
    if own_line and _would_be_swallowed(text, lead, rest):
        lead = _line_start(text, start)
    if before is None:
        return text[:lead] + rest
    return text[:before] + text[before + 1 : max(lead, before + 1)] + rest


def _would_be_swallowed(text: str, lead: int, rest: str) -> bool:
    """Tell whether what follows would end up behind a `//` of the line above."""
    if rest.lstrip(" \t")[:1] in ("", "\r", "\n"):
        return False
    return any(
        match[1] is not None and match[1].startswith("//") and match.end() == lead
        for match in COMMENTS.finditer(text)
    )


def set_inside(text: str, path: Path, inside: str) -> str:
    """Lay out anew what stands between the brackets of a container without children.

    Where its comments are others than those of `inside`, nothing is changed.
    """
    document = parse(text)
    value = document.at(path)
    start, end = value.start + 1, value.end - 1
    if value.children or text[start:end].split() != inside.split():
        return text
    return text[:start] + inside + text[end:]


def inside(document: Document, path: Path) -> str:
    """Return what stands between the brackets of a container."""
    value = document.at(path)
    return document.text[value.start + 1 : value.end - 1]


def fresh(text: str, data: object) -> str:
    """Put the first value into a text that has none, behind its comments."""
    newline = _newline_of(text)
    lead = "" if not text or text == BOM or text[-1] in "\r\n" else newline
    body = json.dumps(data, indent=2, ensure_ascii=False).replace("\n", newline)
    return f"{text}{lead}{body}{newline}"


class _Layout:
    """Know how a document is laid out: line ends, indentation, spaces."""

    def __init__(self, document: Document) -> None:
        text, root = document.text, document.root
        assert root is not None
        self.newline = _newline_of(text)
        spread = _NEWLINE.search(text, root.start, root.end) is not None
        self.compact = bool(root.children) and not spread
        self.unit = _unit(document, root)
        colon = re.search(r'"[ \t]*:([ \t]*)(?=[^ \t\r\n])', document.plain)
        self.gap = "" if colon is not None and colon[1] == "" else " "

    def block(self, child: tuple[str | None, object], indent: str) -> str:
        """Return a child over several lines, all but the first one indented."""
        key, data = child
        body = json.dumps(
            data,
            indent=self.unit,
            ensure_ascii=False,
            separators=(",", f":{self.gap}"),
        )
        return self._name(key) + body.replace("\n", self.newline + indent)

    def inline(self, child: tuple[str | None, object]) -> str:
        """Return a child in one line."""
        key, data = child
        separators = (f",{self.gap}", f":{self.gap}")
        body = json.dumps(data, ensure_ascii=False, separators=separators)
        return self._name(key) + body

    def _name(self, key: str | None) -> str:
        if key is None:
            return ""
        return json.dumps(key, ensure_ascii=False) + f":{self.gap}"


def _newline_of(text: str) -> str:
    found = _NEWLINE.search(text)
    return found[0] if found else "\n"


def _unit(document: Document, root: Value) -> str:
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


def _line_end(document: Document, at: int) -> int:
    """Return the end of the line if only a comment follows on it, else the place itself."""
    found = _NEWLINE.search(document.text, at)
    if found is None or document.plain[at : found.start()].strip(" \t"):
        return at
    in_comment = any(
        match[1] is not None and match.start() < found.start() < match.end()
        for match in COMMENTS.finditer(document.text)
    )
    return at if in_comment else found.start()
