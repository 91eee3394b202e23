"""`git agent-undo push`: send sessions to a remote."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.sharing import push_lines


@click.command("push")
@click.option(
    "--session", "named", multiple=True, help="Only this session; may be repeated."
)
@click.option(
    "--force-secrets", is_flag=True, help="Also send content that looks secret."
)
@click.option(
    "--as-branches",
    is_flag=True,
    help="As branches below agent-undo/, for servers that accept only branches.",
)
@click.option("--force", is_flag=True, help="Replace a different history of a session.")
@json_option
@click.argument("remote")
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
def command(
    named: tuple[str, ...],
    sessions: tuple[str, ...],
    as_json: bool,
    **others: str | bool,
) -> None:
    """Send sessions, or all of this machine, to REMOTE; nothing else ever sends them.

    Review marks that name them, or were set here, are sent too. Anything that looks like a
    secret, by file name or content, is refused unless you force it.
    """
    params = {"sessions": [*named, *sessions], **others}
    document = ask("push", params)
    print_document(document, push_lines, as_json=as_json)
