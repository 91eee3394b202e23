"""`git agent-undo expose`: show a session to Git programs."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.keep import expose_lines


@click.command("expose")
@json_option
@click.argument("session")
def command(session: str, as_json: bool) -> None:
    """Show SESSION to Git tools as refs/remotes/agent-undo/<session>, which no push sends."""
    document = ask("expose", {"session": session})
    print_document(document, expose_lines, as_json=as_json)
