"""`git agent-undo mirror`: bring the copy outside the project up to date."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.sharing import mirror_lines


@click.command("mirror")
@json_option
def command(as_json: bool) -> None:
    """Update the mirror now; a daemon does so by itself when it is idle.

    To set a mirror, once: git config --global agent-undo.mirror DIRECTORY
    """
    print_document(ask("mirror", {}), mirror_lines, as_json=as_json)
