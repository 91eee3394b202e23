"""`git agent-undo cat`: print a file as it was."""

import base64
import binascii

import click

from gitshadow.commands.client import ask, spelled
from gitshadow.commands.moments import state_named
from gitshadow.commands.options import json_option
from gitshadow.errors import StoreError
from gitshadow.render import json, output
from gitshadow.render.document import text


@click.command("cat")
@click.option("--at", metavar="WHEN", help="A time, a pin, or any printed id.")
@json_option
@click.argument("path")
def command(path: str, at: str | None, as_json: bool) -> None:
    """Print the content of PATH at an earlier time; the newest recorded one by default."""
    document = ask("cat", {"path": spelled(path), "at": state_named(at)})
    if as_json:
        json.show(document)
        return
    try:
        data = base64.b64decode(text(document, "data_base64"), validate=True)
    except binascii.Error as error:
        raise StoreError("invalid answer from the engine") from error
    output.show_bytes(data)
