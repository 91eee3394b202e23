"""push, fetch, mirror, expose: let others see what was recorded."""

import click

from gitshadow.commands.client import send
from gitshadow.commands.options import json_option
from gitshadow.commands.terminal import print_answer
from gitshadow.errors import UsageError
from gitshadow.messages.codec import Nothing
from gitshadow.messages.sharing import (
    EXPOSE,
    FETCH,
    MIRROR,
    PUSH,
    UNEXPOSE,
    ExposeRequest,
    FetchRequest,
    PushRequest,
    UnexposeRequest,
)
from gitshadow.render.sharing import (
    expose_lines,
    fetch_lines,
    mirror_lines,
    push_lines,
    unexpose_lines,
)


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
    remote: str,
    named: tuple[str, ...],
    sessions: tuple[str, ...],
    as_json: bool,
    **others: bool,
) -> None:
    """Send sessions, or all of this machine, to REMOTE; nothing else ever sends them.

    Review marks that name them, or were set here, are sent too. Anything that looks like a
    secret, by file name or content, is refused unless you force it.
    """
    request = PushRequest(remote, (*named, *sessions), **others)
    print_answer(send(PUSH, request), push_lines, as_json=as_json)


@click.command("fetch")
@json_option
@click.argument("remote")
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
def fetch_command(as_json: bool, remote: str, sessions: tuple[str, ...]) -> None:
    """Fetch sessions of others, or all of them, from REMOTE.

    You can inspect them like your own (log --session, show, diff, blame). They are kept
    separate: they cannot be undone here, and are never sent on.
    """
    reply = send(FETCH, FetchRequest(remote, sessions))
    print_answer(reply, fetch_lines, as_json=as_json)


@click.command("mirror")
@json_option
def mirror_command(as_json: bool) -> None:
    """Update the mirror now; a daemon does so by itself when it is idle.

    To set a mirror, once: git config --global agent-undo.mirror DIRECTORY
    """
    print_answer(send(MIRROR, Nothing()), mirror_lines, as_json=as_json)


@click.command("expose")
@click.option("--off", is_flag=True, help="Hide it from Git tools again.")
@click.option("--all", "every", is_flag=True, help="With --off: hide every session.")
@json_option
@click.argument("session", required=False)
def expose_command(session: str | None, off: bool, every: bool, as_json: bool) -> None:
    """Show SESSION to Git tools as refs/remotes/agent-undo/<session>, which no push sends."""
    if off:
        reply = send(UNEXPOSE, UnexposeRequest(session, every))
        print_answer(reply, unexpose_lines, as_json=as_json)
        return
    if session is None or every:
        raise UsageError(
            "missing argument: SESSION" if session is None else "--all needs --off",
            hint="git agent-undo expose SESSION, or: git agent-undo expose --off --all",
        )
    print_answer(send(EXPOSE, ExposeRequest(session)), expose_lines, as_json=as_json)
