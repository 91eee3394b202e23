"""`git agent-undo turns`: list the turns and their prompts."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.output import print_rows
from gitshadow.render.text import turn_lines

_EMPTY = "no turns yet: agents report them through hooks (git agent-undo status)"


@click.command("turns")
@colour_option
@json_option
@click.argument("session", required=False)
def command(session: str | None, as_json: bool) -> None:
    """List turns and their prompts; with SESSION, only its turns."""
    found = ask("turns", {"session": session})
    print_rows(found, turn_lines, as_json=as_json, empty=_EMPTY)
