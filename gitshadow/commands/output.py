"""How a verb's document leaves: as JSON, or as text for this terminal.

Invariant: with `--json` nothing but JSON reaches standard output.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import click

from gitshadow.commands.client import Reply
from gitshadow.commands.terminal import screen
from gitshadow.messages.codec import A, JsonObject, decode
from gitshadow.render import json, output
from gitshadow.render.document import Document, rows
from gitshadow.render.style import View

R = TypeVar("R")
_TextOf = Callable[[Mapping[str, object], View], Iterator[str]]
_RowsText = Callable[[Sequence[Mapping[str, object]], View], Iterator[str]]


def print_document(
    document: Document, text_of: _TextOf, *, as_json: bool, paged: bool = False
) -> None:
    """Print one document."""
    if as_json:
        json.show(document)
        return
    shown = screen()
    output.show(text_of(document, shown.view), pager=shown.pager if paged else None)


def print_answer(
    reply: Reply[A],
    text_of: Callable[[A, View], Iterator[str]],
    *,
    as_json: bool,
    paged: bool = False,
) -> None:
    """Print one answer: its document as JSON, or text."""
    if as_json:
        json.show(reply.document)
        return
    shown = screen()
    lines = text_of(reply.answer, shown.view)
    output.show(lines, pager=shown.pager if paged else None)


def print_rows(
    document: Document, text_of: _RowsText, *, as_json: bool, empty: str
) -> None:
    """Print the rows of a document: one object per line, or text through the pager.

    Args:
        document: What the engine answered.
        text_of: How its rows read.
        as_json: Print objects, and nothing where there are none.
        empty: What to say, on standard error, where there are none: and what to type next.
    """
    found = rows(document, "rows")
    if as_json:
        json.show_lines(found)
        return
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
        json.show_lines(decode(_Rows, reply.document).rows)
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
