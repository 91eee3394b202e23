"""`git agent-undo fetch`: bring what other machines recorded."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.sharing import fetch_lines


@click.command("fetch")
@json_option
@click.argument("remote")
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
def command(as_json: bool, remote: str, sessions: tuple[str, ...]) -> None:
    """Bring sessions of others, or all of them, from REMOTE.

    They can be looked at like our own (log --session, show, diff, blame), and are kept
    apart: nothing of theirs is ever undone here, or sent on.
    """
    document = ask("fetch", {"remote": remote, "sessions": list(sessions)})
    print_document(document, fetch_lines, as_json=as_json)
