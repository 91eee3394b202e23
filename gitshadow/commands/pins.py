"""`git agent-undo pins`: list the pins."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.output import print_rows
from gitshadow.render.text import pin_lines

_EMPTY = "no pins; to save the current state: git agent-undo pin NAME"


@click.command("pins")
@colour_option
@json_option
def command(as_json: bool) -> None:
    """List the pins."""
    print_rows(ask("pins", {}), pin_lines, as_json=as_json, empty=_EMPTY)
