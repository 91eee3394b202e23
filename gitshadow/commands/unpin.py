"""`git agent-undo unpin`: delete a pin."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.status import field_lines


@click.command("unpin")
@json_option
@click.argument("name")
def command(name: str, as_json: bool) -> None:
    """Delete a pin; no file changes."""
    document = ask("unpin", {"name": name})
    print_document(document, lambda doc, _: field_lines(doc), as_json=as_json)
