"""`git agent-undo expose`: show a session to Git programs."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.status import field_lines


@click.command("expose")
@json_option
@click.argument("session")
def command(session: str, as_json: bool) -> None:
    """Show SESSION as refs/remotes/agent-undo/<session>, which no push sends."""
    document = ask("expose", {"session": session})
    print_document(document, lambda doc, _: field_lines(doc), as_json=as_json)
