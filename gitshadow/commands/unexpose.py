"""`git agent-undo unexpose`: take back what `expose` did."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.status import field_lines


@click.command("unexpose")
@json_option
@click.argument("session")
def command(session: str, as_json: bool) -> None:
    """Take back what `expose` did for SESSION."""
    document = ask("unexpose", {"session": session})
    print_document(document, lambda doc, _: field_lines(doc), as_json=as_json)
