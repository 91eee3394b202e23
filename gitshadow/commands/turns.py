"""`git agent-undo turns`: list the turns and their prompts."""

import click

from gitshadow.commands.client import send
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.output import print_list
from gitshadow.messages.lists import TURNS, TurnsRequest
from gitshadow.render.text import turn_lines

_EMPTY = "no turns yet: agents report them through hooks (git agent-undo status)"


@click.command("turns")
@colour_option
@json_option
@click.argument("session", required=False)
def command(session: str | None, as_json: bool) -> None:
    """List turns and their prompts; with SESSION, only its turns."""
    reply = send(TURNS, TurnsRequest(session))
    print_list(
        reply.document,
        lambda: reply.answer.rows,
        turn_lines,
        as_json=as_json,
        empty=_EMPTY,
    )
