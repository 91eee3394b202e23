"""record, flush, session: record by hand."""

from collections.abc import Iterator, Mapping

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option, spelled_paths
from gitshadow.commands.output import print_document
from gitshadow.commands.usage_errors import VerbGroup
from gitshadow.render import json
from gitshadow.render.document import number, rows, text
from gitshadow.render.style import printable
from gitshadow.words import counted


@click.command("record")
@click.option(
    "--session", help="The session that made the changes (an id or a unique prefix)."
)
@click.option("--agent", help="The agent that made the changes.")
@json_option
@click.argument("paths", nargs=-1, required=True)
def record_command(
    session: str | None, agent: str | None, as_json: bool, paths: tuple[str, ...]
) -> None:
    """Record the current content of PATHS."""
    params = {"paths": spelled_paths(paths), "session": session, "agent": agent}
    document = ask("record", params)
    print_document(document, lambda doc, _: _lines(doc), as_json=as_json)


def _lines(document: Mapping[str, object]) -> Iterator[str]:
    count = number(document, "recorded")
    if count or not rows(document, "already"):
        yield (
            f"{counted(count, 'event')} recorded" if count else "nothing new to record"
        )
    for row in rows(document, "already"):
        who = text(row, "agent") or text(row, "actor")
        path, seq = printable(text(row, "path")), row.get("seq")
        yield f"already recorded: {path}, written by {printable(who)} (event {seq})"


@click.command("flush")
@json_option
def flush_command(as_json: bool) -> None:
    """Wait for pending changes to be recorded. Prints nothing."""
    document = ask("flush", {})
    if as_json:
        json.show(document)


@click.group("session", cls=VerbGroup)
def session_command() -> None:
    """Open or close a session by hand."""


@session_command.command("start")
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


@session_command.command("end")
@json_option
@click.argument("id", required=False)
def end(id: str | None, as_json: bool) -> None:
    """Close the session ID; by default the newest one that was opened by hand."""
    document = ask("session_end", {"id": id})
    if as_json:
        json.show(document)
