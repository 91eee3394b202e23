"""Standard output: text, through a pager where Git would use one; bytes; JSON.

JSON is one document, or one object per line where it streams.
"""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Protocol

from gitshadow.messages.codec import Params

# DEL, C1 controls and marks of direction: JSON may leave them raw, but a terminal obeys them. The
# name of a file must not act on the terminal of who looks at the output.
_RAW = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class PagerInput(Protocol):
    """What a pager reads; to close it waits for the pager's end."""

    def write(self, text: str, /) -> int:
        """Send it some text."""
        ...

    def close(self) -> object:
        """Send no more, and wait."""
        ...


def _started(command: str) -> PagerInput:
    return os.popen(command, "w")


PAGER: ContextVar[Callable[[str], PagerInput]] = ContextVar("pager", default=_started)
"""Starts a pager; the command server has its clients do it, which are at the terminal."""


def show(lines: Iterable[str], *, pager: str | None = None) -> None:
    """Print lines; each gets its newline.

    Args:
        lines: Text that is already safe to print.
        pager: A shell command line as `core.pager` has it, or None to print straight.
    """
    if pager:
        _page(lines, pager)
        return
    for block in _blocks(lines):
        sys.stdout.write(block)
    sys.stdout.flush()


def show_bytes(data: bytes) -> None:
    """Print bytes exactly as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def show_json(document: Params) -> None:
    """Print one document."""
    show_json_lines((document,))


def show_json_lines(documents: Iterable[Params]) -> None:
    """Print one object per line, each as soon as it is available."""
    sys.stdout.flush()
    for document in documents:
        sys.stdout.buffer.write(encode_json(document))
    sys.stdout.buffer.flush()


def encode_json(document: Params) -> bytes:
    """Return a document as one line of UTF-8 JSON with its newline."""
    plain = json.dumps(document, ensure_ascii=False)
    # Bytes, because standard output has the encoding of the locale, and JSON is UTF-8 (RFC 8259).
    safe = _RAW.sub(lambda match: f"\\u{ord(match[0]):04x}", plain)
    return safe.encode("utf-8", "backslashreplace") + b"\n"


def _blocks(lines: Iterable[str]) -> Iterator[str]:
    """Join lines to larger writes."""
    # The first lines are written soon, so that a person can read while the rest is made.
    waiting: list[str] = []
    limit = 50
    for line in lines:
        waiting.append(line)
        if len(waiting) == limit:
            yield "\n".join(waiting) + "\n"
            waiting.clear()
            limit = 1000
    if waiting:
        yield "\n".join(waiting) + "\n"


def _page(lines: Iterable[str], pager: str) -> None:
    """Feed a pager with the variables that Git sets for it (git-config(1), core.pager)."""
    sys.stdout.flush()
    command = f'export LESS="${{LESS-FRX}}" LV="${{LV--c}}"; {pager}'
    pipe = PAGER.get()(command)
    # `os.popen` returns a wrapper that passes attributes on to its text stream. What this terminal
    # cannot show, its pager cannot either.
    reconfigure = getattr(pipe, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding=sys.stdout.encoding, errors=sys.stdout.errors)
    try:
        # The reader quit the pager before the end.
        with contextlib.suppress(BrokenPipeError):
            for block in _blocks(lines):
                pipe.write(block)
    finally:
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
        # The first call may have failed before it waited for the pager.
        pipe.close()
