"""`git agent-undo reindex`: rebuild the journal from the refs."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.daemon_pause import standstill
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.keep import reindex_lines


@click.command("reindex")
@json_option
def command(as_json: bool) -> None:
    """Rebuild the journal from the refs; the old one is set aside, never overwritten."""
    with standstill():
        document = ask("reindex", {})
    print_document(document, reindex_lines, as_json=as_json)
