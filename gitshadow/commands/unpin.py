"""`git agent-undo unpin`: delete a pin."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.keep import unpin_lines


@click.command("unpin")
@json_option
@click.argument("name")
def command(name: str, as_json: bool) -> None:
    """Delete a pin; files are not changed."""
    document = ask("unpin", {"name": name})
    print_document(document, unpin_lines, as_json=as_json)
