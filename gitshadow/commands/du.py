"""`git agent-undo du`: how much disk the history takes."""

import click

from gitshadow.commands.asking import ask, find_layout
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.keep import du_lines


@click.command("du")
@json_option
def command(as_json: bool) -> None:
    """Say how much disk the history takes, by session and in total.

    What counts is what the history's refs hold and your branches do not; what two sessions
    share counts for both, and once in the total.
    """
    ask("flush", {})
    from gitshadow.engine import local

    print_document(local.du(find_layout()), du_lines, as_json=as_json)
