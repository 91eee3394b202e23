"""`git agent-undo unexpose`: take back what `expose` did."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.keep import unexpose_lines


@click.command("unexpose")
@json_option
@click.argument("session")
def command(session: str, as_json: bool) -> None:
    """Take back what `expose` did for SESSION."""
    document = ask("unexpose", {"session": session})
    print_document(document, unexpose_lines, as_json=as_json)
