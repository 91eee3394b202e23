"""Parts of a file as `-L` names them in git-blame(1): `3,7`, `3,+5`, `7,-5`, `,9`.

What is to be searched for (`/regex/`, `:funcname`) is Git's to find: its regular expressions, its
rules of what begins a function.
Invariant: pure; what names no line of the file is a UsageError, as Git refuses it.
"""

import re
from collections.abc import Sequence

from gitshadow.errors import UsageError

_FORM = re.compile(r"([0-9]{1,9})?(?:,([+-]?[0-9]{1,9})?)?")


def has_search(specs: Sequence[str]) -> bool:
    """Tell whether some part is named by what stands there, not by its number."""
    return any("/" in spec or spec.startswith((":", "^:")) for spec in specs)


def numbered_lines(specs: Sequence[str], count: int) -> list[int]:
    """Return the numbers, from 1 and ascending, of the lines that are asked for.

    Args:
        specs: Each as typed behind `-L`; none means the whole file.
        count: How many lines the file has.

    Raises:
        UsageError: one of them is no range, or not of this file.
    """
    if not specs:
        return list(range(1, count + 1))
    found: set[int] = set()
    for spec in specs:
        first, last = _range(spec, count)
        found.update(range(first, last + 1))
    return sorted(found)


def _range(spec: str, count: int) -> tuple[int, int]:
    match = _FORM.fullmatch(spec)
    if match is None or not spec:
        raise UsageError(
            f"invalid range: {spec!r}",
            hint="use 3,7 or 3,+5 or /regex/,/regex/ or :function",
        )
    first = 1 if match[1] is None else _positive(match[1])
    last = count if match[2] is None else _end(match[2], first)
    if match[2] is not None and last < first:
        first, last = last, first
    if first > min(last, count):
        raise UsageError(f"file has only {count} lines, so not {spec}")
    return first, min(last, count)


def _end(word: str, first: int) -> int:
    number = _positive(word.lstrip("+-"))
    if word.startswith("+"):
        return first + number - 1
    if word.startswith("-"):
        return max(first - number + 1, 1)
    return number


def _positive(word: str) -> int:
    if int(word) == 0:
        raise UsageError("line numbers start at 1")
    return int(word)
