"""`git agent-undo record`: record paths now."""

from collections.abc import Iterator, Mapping

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option, spelled_paths
from gitshadow.commands.output import print_document
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
def command(
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
