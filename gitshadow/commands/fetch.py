"""`git agent-undo fetch`: bring what other machines recorded."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.sharing import fetch_lines


@click.command("fetch")
@json_option
@click.argument("remote")
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
def command(as_json: bool, remote: str, sessions: tuple[str, ...]) -> None:
    """Fetch sessions of others, or all of them, from REMOTE.

    You can inspect them like your own (log --session, show, diff, blame). They are kept
    separate: they cannot be undone here, and are never sent on.
    """
    document = ask("fetch", {"remote": remote, "sessions": list(sessions)})
    print_document(document, fetch_lines, as_json=as_json)
