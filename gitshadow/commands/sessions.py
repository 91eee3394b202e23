"""`git agent-undo sessions`: list the sessions."""

import click

from gitshadow.commands.client import send
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.output import print_list
from gitshadow.messages.lists import SESSIONS, SessionsRequest
from gitshadow.render.text import session_lines


@click.command("sessions")
@click.option("--all", "everything", is_flag=True, help="From all worktrees.")
@colour_option
@json_option
def command(everything: bool, as_json: bool) -> None:
    """List sessions: runs of agents, and periods of other work."""
    reply = send(SESSIONS, SessionsRequest())
    print_list(
        reply.document,
        lambda: reply.answer.rows,
        session_lines,
        as_json=as_json,
        empty="no sessions were recorded",
    )
