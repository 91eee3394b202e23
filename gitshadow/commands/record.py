"""`git agent-undo record`: record paths now."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option, spelled_paths
from gitshadow.commands.printing import print_document
from gitshadow.render.status import field_lines


@click.command("record")
@click.option("--session", help="Whose writes these are (an id or its beginning).")
@click.option("--agent", help="Whose writes these are.")
@json_option
@click.argument("paths", nargs=-1, required=True)
def command(
    session: str | None, agent: str | None, as_json: bool, paths: tuple[str, ...]
) -> None:
    """Record what PATHS hold now."""
    params = {"paths": spelled_paths(paths), "session": session, "agent": agent}
    document = ask("record", params)
    print_document(document, lambda doc, _: field_lines(doc), as_json=as_json)
