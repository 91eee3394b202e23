"""`git agent-undo show`: one thing in full."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.text import show_lines


@click.command("show")
@json_option
@click.argument("id")
def command(id: str, as_json: bool) -> None:
    """Show one event, call, turn, burst, session, op or commit of ours, with its diff.

    ID is any id that another verb prints, or git log of a session's ref, or its beginning.
    """
    document = ask("show", {"id": id})
    print_document(document, show_lines, as_json=as_json, paged=True)
