"""diff, cat: compare and print recorded states."""

import base64
import binascii
import os

from click import argument, option

from gitshadow.commands.client import send, spelled
from gitshadow.commands.options import (
    colour_option,
    json_option,
    separated,
    spelled_paths,
    verb,
)
from gitshadow.commands.terminal import screen
from gitshadow.commands.times import state_named
from gitshadow.errors import StoreError
from gitshadow.messages.states import CAT, DIFF, CatRequest, DiffAnswer, DiffRequest
from gitshadow.render import output
from gitshadow.render.diffstat import stat_lines
from gitshadow.render.text import patch_lines


@verb("diff", separates=True)
@option("--session", help="Only changes of this session.")
@option("--stat", is_flag=True, help="Count lines instead of showing them.")
@colour_option
@json_option
@argument("words", nargs=-1, metavar="[A [B]] [-- PATHS...]")
def diff_command(
    session: str | None,
    stat: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Compare two recorded states A and B; without B, compare A with the disk.

    A and B are times, pins, or ids that another command prints. The id of a session, turn,
    call, burst or op alone shows what it changed. PATHS limit the comparison.
    """
    a, b, *paths = [*words, None, None][: max(2, len(words))]
    first, second = state_named(a), state_named(b)
    request = DiffRequest(
        a=first,
        b=second,
        of=first if second is None else None,
        session=session,
        paths=(*spelled_paths([path for path in paths if path]), *separated()),
    )
    reply = send(DIFF, request)
    if as_json:
        output.show_json(reply.document)
    else:
        _print(reply.answer, stat=stat)


def _print(answer: DiffAnswer, *, stat: bool) -> None:
    """Print a patch: readable on a terminal, its exact bytes into a pipe."""
    shown = screen()
    patch = answer.patch or ""
    if stat:
        lines = stat_lines(answer.stat, shown.view)
        output.show(lines, pager=shown.pager)
    elif shown.view.terminal or shown.view.colour:
        lines = patch_lines(patch, shown.view) if patch else iter(())
        output.show(lines, pager=shown.pager)
    else:
        # `git apply` reads this from the pipe, so no byte may be escaped.
        output.show_bytes(os.fsencode(patch))


@verb("cat")
@option("--at", metavar="WHEN", help="A time, a pin, or any printed id.")
@json_option
@argument("path")
def cat_command(path: str, at: str | None, as_json: bool) -> None:
    """Print the content of PATH at an earlier time; the newest recorded one by default."""
    reply = send(CAT, CatRequest(spelled(path), state_named(at)))
    if as_json:
        output.show_json(reply.document)
        return
    try:
        data = base64.b64decode(reply.answer.data_base64, validate=True)
    except binascii.Error as error:
        raise StoreError("invalid answer from the engine") from error
    output.show_bytes(data)
