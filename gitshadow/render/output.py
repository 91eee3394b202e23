"""Text on standard output, through a pager where Git would use one."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator


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
    pipe = os.popen(command, "w")
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
