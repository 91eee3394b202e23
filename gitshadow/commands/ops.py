"""`git agent-undo ops`: list what was undone, redone and restored."""

import click

from gitshadow.commands.client import send
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_list
from gitshadow.messages.lists import OPS, OpsRequest
from gitshadow.render.text import op_lines

_EMPTY = "nothing has been undone here yet"


@click.command("ops")
@click.option("-n", "limit", type=click.IntRange(min=0), help="Show at most this many.")
@json_option
def command(limit: int | None, as_json: bool) -> None:
    """List undos, redos and restores, newest first."""
    reply = send(OPS, OpsRequest(limit))
    print_list(
        reply.document,
        lambda: reply.answer.rows,
        op_lines,
        as_json=as_json,
        empty=_EMPTY,
    )
