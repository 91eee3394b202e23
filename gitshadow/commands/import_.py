"""`git agent-undo import`: what another clone knows beside its refs, and what others claim."""

import os

import click

from gitshadow.commands.client import ask, spelled
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.errors import UsageError
from gitshadow.render.exchange import import_lines


@click.command("import")
@click.option(
    "--from",
    "source",
    type=click.Choice(["git-ai", "entire"]),
    help="Read git-ai's notes, or Entire's trailers, of this repository.",
)
@json_option
@click.argument("file", required=False)
def command(source: str | None, file: str | None, as_json: bool) -> None:
    """Import FILE: an export from another clone, or Agent Trace records.

    Imported claims about lines are shown where nothing was recorded here, and never count as
    an agent's. Importing again changes nothing.
    """
    if (source is None) == (file is None):
        raise UsageError(
            "missing argument: FILE",
            hint="a file of git agent-undo export, or --from git-ai",
        )
    if file is not None:
        document = ask("import_file", {"file": spelled(os.path.abspath(file))})
    else:
        document = ask("import_claims", {"source": source})
    print_document(document, import_lines, as_json=as_json)
