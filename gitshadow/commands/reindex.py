"""`git agent-undo reindex`: rebuild the journal from the refs."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.commands.standstill import standstill
from gitshadow.render.keep import reindex_lines


@click.command("reindex")
@json_option
def command(as_json: bool) -> None:
    """Rebuild the journal from the refs; the old one is set aside, never overwritten."""
    with standstill():
        document = ask("reindex", {})
    print_document(document, reindex_lines, as_json=as_json)
