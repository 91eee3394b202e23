"""`git agent-undo du`: how much disk the history takes."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.status import field_lines


@click.command("du")
@json_option
def command(as_json: bool) -> None:
    """Say how much disk the history takes."""
    document = ask("du", {})
    print_document(document, lambda doc, _: field_lines(doc), as_json=as_json)
