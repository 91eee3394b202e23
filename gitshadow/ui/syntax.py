"""Syntax colour: which parts of some lines are keywords, texts, comments, numbers, names.

Invariant: pure and bounded; what is not known, or too long, has no tint. Called off the thread
that draws, for a few lines at a time.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from os.path import basename
from typing import NamedTuple

from rich.syntax import Syntax
from textual.content import Span
from textual.highlight import HighlightTheme, highlight

LINES = 2_000
CHARACTERS = 60_000
_LINE_CHARACTERS = 500
"""A longer line is no source text; expressions that look ahead may take its square in steps."""


_BY_NAME: Mapping[str, str] = {
    "makefile": "make",
    "dockerfile": "docker",
    "cmakelists.txt": "cmake",
}


class TokenKind(StrEnum):
    """Say what a part of a line is, as far as it gets a colour."""

    COMMENT = "comment"
    KEYWORD = "keyword"
    NAME = "name"
    NUMBER = "number"
    STRING = "string"


class Tint(NamedTuple):
    """Hold where in a line what begins and ends."""

    start: int
    end: int
    kind: TokenKind


Tints = Sequence[Sequence[Tint]]


class _Kinds(HighlightTheme):
    """Give each type of token that gets a colour the name of its kind."""

    STYLES = {  # noqa: RUF012 (so declared where it is inherited from)
        ("Comment",): TokenKind.COMMENT,
        ("Keyword",): TokenKind.KEYWORD,
        ("Literal", "Number"): TokenKind.NUMBER,
        ("Literal", "String"): TokenKind.STRING,
        ("Name", "Class"): TokenKind.NAME,
        ("Name", "Function"): TokenKind.NAME,
        ("Name", "Tag"): TokenKind.NAME,
    }


def tints(path: str, lines: Sequence[str]) -> Tints:
    """Return the tints of each line, by the type of file that a path names."""
    nothing: list[list[Tint]] = [[] for _ in lines]
    too_many = len(lines) > LINES or sum(map(len, lines)) > CHARACTERS
    if too_many or any(len(line) > _LINE_CHARACTERS for line in lines):
        return nothing
    language = _language(basename(path))
    if language == "default":
        return nothing
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line) + 1)
    for span in highlight("\n".join(lines), language=language, theme=_Kinds).spans:
        if span.style in list(TokenKind):
            _spread(nothing, begins, span)
    return nothing


def _spread(found: list[list[Tint]], begins: Sequence[int], span: Span) -> None:
    """Add a span to each of the lines that it is in."""
    kind = TokenKind(str(span.style))
    row = bisect_right(begins, span.start) - 1
    while row < len(found) and begins[row] < span.end:
        start, end = max(span.start, begins[row]), min(span.end, begins[row + 1] - 1)
        if start < end:
            _add(found[row], Tint(start - begins[row], end - begins[row], kind))
        row += 1


def _add(tinted: list[Tint], tint: Tint) -> None:
    """Add a tint, as one with the last where that goes on."""
    if tinted and (tinted[-1].end, tinted[-1].kind) == (tint.start, tint.kind):
        tint = Tint(tinted.pop().start, tint.end, tint.kind)
    tinted.append(tint)


@cache
def _language(name: str) -> str:
    """Return what reads a type of file; by its name alone, its content is not guessed at."""
    return _BY_NAME.get(name.lower()) or Syntax.guess_lexer(name)
