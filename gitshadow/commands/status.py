"""`git agent-undo status`: what is recorded and what is not."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.status import status_lines


@click.command("status")
@json_option
def command(as_json: bool) -> None:
    """Say what is recorded, by whom, at what cost, and what is not covered."""
    print_document(ask("status", {}), status_lines, as_json=as_json)
