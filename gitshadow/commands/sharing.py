"""push, fetch, mirror, expose, unexpose: let others see what was recorded."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.keep import expose_lines, unexpose_lines
from gitshadow.render.sharing import fetch_lines, mirror_lines, push_lines


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
def push_command(
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


@click.command("fetch")
@json_option
@click.argument("remote")
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
def fetch_command(as_json: bool, remote: str, sessions: tuple[str, ...]) -> None:
    """Fetch sessions of others, or all of them, from REMOTE.

    You can inspect them like your own (log --session, show, diff, blame). They are kept
    separate: they cannot be undone here, and are never sent on.
    """
    document = ask("fetch", {"remote": remote, "sessions": list(sessions)})
    print_document(document, fetch_lines, as_json=as_json)


@click.command("mirror")
@json_option
def mirror_command(as_json: bool) -> None:
    """Update the mirror now; a daemon does so by itself when it is idle.

    To set a mirror, once: git config --global agent-undo.mirror DIRECTORY
    """
    print_document(ask("mirror", {}), mirror_lines, as_json=as_json)


@click.command("expose")
@json_option
@click.argument("session")
def expose_command(session: str, as_json: bool) -> None:
    """Show SESSION to Git tools as refs/remotes/agent-undo/<session>, which no push sends."""
    document = ask("expose", {"session": session})
    print_document(document, expose_lines, as_json=as_json)


@click.command("unexpose")
@click.option("--all", "every", is_flag=True, help="For every session.")
@json_option
@click.argument("session", required=False)
def unexpose_command(session: str | None, every: bool, as_json: bool) -> None:
    """Hide SESSION from Git tools again."""
    document = ask("unexpose", {"session": session, "all": every})
    print_document(document, unexpose_lines, as_json=as_json)
