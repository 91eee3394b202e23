"""`git agent-undo diff`: compare recorded states."""

import os

import click

from gitshadow.commands.client import ask
from gitshadow.commands.moments import state_named
from gitshadow.commands.options import (
    SeparatingCommand,
    colour_option,
    json_option,
    separated,
    spelled_paths,
)
from gitshadow.commands.terminal import screen
from gitshadow.render import json, output
from gitshadow.render.diffstat import stat_lines
from gitshadow.render.document import Document, rows, text
from gitshadow.render.text import patch_lines


@click.command("diff", cls=SeparatingCommand)
@click.option("--session", help="Only changes of this session.")
@click.option("--stat", is_flag=True, help="Count lines instead of showing them.")
@colour_option
@json_option
@click.argument("words", nargs=-1, metavar="[A [B]] [-- PATHS...]")
@click.pass_context
def command(
    ctx: click.Context,
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
    sides = {"of": state_named(a)} if a is not None and b is None else {}
    params = {
        "a": state_named(a),
        "b": state_named(b),
        **sides,
        "session": session,
        "paths": spelled_paths([path for path in paths if path]) + separated(ctx),
        "stat": stat,
    }
    document = ask("diff", params)
    if as_json:
        json.show(document)
    else:
        _print(document, stat=stat)


def _print(document: Document, *, stat: bool) -> None:
    """Print a patch: readable on a terminal, its exact bytes into a pipe."""
    shown = screen()
    patch = text(document, "patch")
    if stat:
        lines = stat_lines(rows(document, "stat"), shown.view)
        output.show(lines, pager=shown.pager)
    elif shown.view.terminal or shown.view.colour:
        lines = patch_lines(patch, shown.view) if patch else iter(())
        output.show(lines, pager=shown.pager)
    else:
        output.show_bytes(os.fsencode(patch))
