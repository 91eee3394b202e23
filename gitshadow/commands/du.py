"""`git agent-undo du`: how much disk the history takes."""

import click

from gitshadow.commands.client import ask, find_layout
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.keep import du_lines


@click.command("du")
@json_option
def command(as_json: bool) -> None:
    """Show how much disk space the history uses, by session and in total.

    Only objects count that the history's refs reach and your branches do not. Objects shared
    by two sessions count for both, and once in the total.
    """
    ask("flush", {})
    from gitshadow.service import in_process

    print_document(in_process.du(find_layout()), du_lines, as_json=as_json)
