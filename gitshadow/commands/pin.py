"""`git agent-undo pin`: name the present state."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.keep import pin_lines


@click.command("pin")
@json_option
@click.argument("name")
def command(name: str, as_json: bool) -> None:
    """Save the current state under NAME; `restore --pin NAME` restores it."""
    document = ask("pin", {"name": name})
    print_document(document, pin_lines, as_json=as_json)
