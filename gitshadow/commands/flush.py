"""`git agent-undo flush`: wait until every earlier write is recorded."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option
from gitshadow.render import json


@click.command("flush")
@json_option
def command(as_json: bool) -> None:
    """Wait for pending changes to be recorded. Prints nothing."""
    document = ask("flush", {})
    if as_json:
        json.show(document)
