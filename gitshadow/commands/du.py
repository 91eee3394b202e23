"""`git agent-undo du`: how much disk the history takes."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.keep import du_lines


@click.command("du")
@json_option
def command(as_json: bool) -> None:
    """Say how much disk the history takes."""
    document = ask("du", {})
    print_document(document, du_lines, as_json=as_json)
