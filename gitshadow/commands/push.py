"""`git agent-undo push`: send sessions to a remote."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.keep import push_lines


@click.command("push")
@click.option(
    "--session", "sessions", multiple=True, help="Send this one; may be repeated."
)
@click.option("--force-secrets", is_flag=True, help="Send secret-looking paths too.")
@json_option
@click.argument("remote")
def command(
    sessions: tuple[str, ...], force_secrets: bool, as_json: bool, remote: str
) -> None:
    """Send sessions to REMOTE; nothing else ever sends them.

    A session that holds secret-looking paths is refused unless told otherwise.
    """
    params = {
        "remote": remote,
        "sessions": list(sessions),
        "force_secrets": force_secrets,
    }
    document = ask("push", params)
    print_document(document, push_lines, as_json=as_json)
