"""`git agent-undo pack`: pack what the history has loose."""

import click

from gitshadow.commands.client import ask, find_layout
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.keep import pack_lines


@click.command("pack")
@json_option
def command(as_json: bool) -> None:
    """Pack the loose objects of the history and merge its packs.

    The daemon does so by itself, and so do commands where no daemon runs.
    """
    ask("flush", {})
    from gitshadow.service import in_process

    print_document(in_process.pack(find_layout()), pack_lines, as_json=as_json)
