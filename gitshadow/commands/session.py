"""`git agent-undo session`: open and close a session by hand."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.usage_errors import VerbGroup
from gitshadow.render import json
from gitshadow.render.document import text
from gitshadow.render.style import printable


@click.group("session", cls=VerbGroup)
def command() -> None:
    """Open or close a session by hand."""


@command.command("start")
@click.option("--agent", help="The agent that makes the changes.")
@click.option("--human", is_flag=True, help="The changes are made by a person.")
@click.option("--native", metavar="ID", help="The agent's own id of the session.")
@json_option
def start(agent: str | None, human: bool, native: str | None, as_json: bool) -> None:
    """Open a session and print its id."""
    params = {"agent": agent, "human": human, "native": native}
    document = ask("session_start", params)
    if as_json:
        json.show(document)
    else:
        click.echo(printable(text(document, "id")))


@command.command("end")
@json_option
@click.argument("id", required=False)
def end(id: str | None, as_json: bool) -> None:
    """Close the session ID; by default the newest one that was opened by hand."""
    document = ask("session_end", {"id": id})
    if as_json:
        json.show(document)
