"""Parts of a file as `-L` names them in git-blame(1): `3,7`, `3,+5`, `7,-5`, `/re/`, `,9`.

Invariant: pure; what names no line of the file is a UsageError, as Git refuses it.
"""

import re
from collections.abc import Sequence

from gitshadow.errors import UsageError

_FORM = re.compile(
    r"(/(?:\\.|[^/\\])*/|[0-9]{1,9})?(?:,(/(?:\\.|[^/\\])*/|[+-]?[0-9]{1,9})?)?"
)


def chosen_lines(specs: Sequence[str], lines: Sequence[bytes]) -> list[int]:
    """Return the numbers, from 1 and ascending, of the lines that are asked for.

    A regular expression is Python's, on bytes, and finds the first line at or after the
    last range's end, as Git's does.

    Args:
        specs: Each as typed behind `-L`; none means the whole file.
        lines: The file's lines.

    Raises:
        UsageError: one of them is no range, or not of this file.
    """
    if not specs:
        return list(range(1, len(lines) + 1))
    found: set[int] = set()
    anchor = 1
    for spec in specs:
        first, last = _range(spec, lines, anchor)
        found.update(range(first, last + 1))
        anchor = last + 1
    return sorted(found)


def _range(spec: str, lines: Sequence[bytes], anchor: int) -> tuple[int, int]:
    match = _FORM.fullmatch(spec)
    if match is None or not spec:
        raise UsageError(
            f"could not read range {spec!r}", hint="use 3,7 or 3,+5 or /regex/,/regex/"
        )
    first = 1 if match[1] is None else _start(match[1], lines, anchor)
    last = len(lines) if match[2] is None else _end(match[2], lines, first)
    if match[2] is not None and last < first:
        first, last = last, first
    if first > min(last, len(lines)):
        raise UsageError(f"could not take lines {spec}: there are only {len(lines)}")
    return max(first, 1), min(last, len(lines))


def _start(word: str, lines: Sequence[bytes], anchor: int) -> int:
    if word.startswith("/"):
        return _search(word, lines, anchor)
    if int(word) == 0:
        raise UsageError("could not take line 0: lines count from 1")
    return int(word)


def _end(word: str, lines: Sequence[bytes], first: int) -> int:
    if word.startswith("/"):
        return _search(word, lines, first + 1)
    if word.lstrip("+-") == word:
        return int(word)
    count = int(word[1:])
    if count == 0:
        raise UsageError("could not take an empty range of lines")
    if word.startswith("+"):
        return first + count - 1
    return max(first - count + 1, 1)


def _search(word: str, lines: Sequence[bytes], start: int) -> int:
    text = word[1:-1].replace("\\/", "/")
    try:
        wanted = re.compile(text.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise UsageError(f"could not read {word}: {error}") from error
    for number in range(start, len(lines) + 1):
        if wanted.search(lines[number - 1]):
            return number
    raise UsageError(f"could not find a line that fits {word}")
