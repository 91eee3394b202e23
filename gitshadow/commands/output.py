"""Print answers: as JSON, or as text for this terminal.

With `--json` nothing but JSON reaches standard output.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import click

from gitshadow.commands.client import Reply
from gitshadow.commands.terminal import screen
from gitshadow.messages.codec import A, JsonObject, M, decode, encode
from gitshadow.render import output
from gitshadow.render.style import View

R = TypeVar("R")


def print_answer(
    reply: Reply[A],
    text_of: Callable[[A, View], Iterator[str]],
    *,
    as_json: bool,
    paged: bool = False,
) -> None:
    """Print one answer: its document as JSON, or text."""
    if as_json:
        output.show_json(reply.document)
        return
    shown = screen()
    lines = text_of(reply.answer, shown.view)
    output.show(lines, pager=shown.pager if paged else None)


def print_rows(
    found: Sequence[M],
    text_of: Callable[[Sequence[M], View], Iterator[str]],
    *,
    as_json: bool,
    empty: str,
) -> None:
    """Print rows: one JSON object per line, or text through the pager.

    Args:
        found: The rows.
        text_of: Formats rows.
        as_json: Print objects, and nothing where there are none.
        empty: What to say, on standard error, where there are none: and what to type next.
    """
    if as_json:
        output.show_json_lines(map(encode, found))
    else:
        _print_lines(found, text_of, empty)


def print_list(
    reply: Reply[A],
    rows_of: Callable[[A], Sequence[R]],
    text_of: Callable[[Sequence[R], View], Iterator[str]],
    *,
    as_json: bool,
    empty: str,
) -> None:
    """Print a list: one JSON object per line, or text through the pager.

    Args:
        reply: The answer; the `rows` of its document are the objects.
        rows_of: Returns its rows as values; not called for JSON.
        text_of: Formats rows.
        as_json: Print objects, and nothing where there are none.
        empty: What to print on standard error if there is no row.
    """
    if as_json:
        output.show_json_lines(decode(_Rows, reply.document).rows)
        return
    _print_lines(rows_of(reply.answer), text_of, empty)


class _Rows(NamedTuple):
    """The rows of a document as they came, with fields that this program may not know."""

    rows: tuple[JsonObject, ...]


def _print_lines(
    found: Sequence[R],
    text_of: Callable[[Sequence[R], View], Iterator[str]],
    empty: str,
) -> None:
    shown = screen()
    if found:
        output.show(text_of(found, shown.view), pager=shown.pager)
    else:
        click.echo(empty, err=True)
