"""`git agent-undo unexpose`: take back what `expose` did."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.keep import unexpose_lines


@click.command("unexpose")
@click.option("--all", "every", is_flag=True, help="For every session.")
@json_option
@click.argument("session", required=False)
def command(session: str | None, every: bool, as_json: bool) -> None:
    """Hide SESSION from Git tools again."""
    document = ask("unexpose", {"session": session, "all": every})
    print_document(document, unexpose_lines, as_json=as_json)
