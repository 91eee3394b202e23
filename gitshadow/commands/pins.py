"""pins, pin, unpin: name states of the working tree."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.output import print_document, print_rows
from gitshadow.render.keep import pin_lines, unpin_lines
from gitshadow.render.text import pin_lines as list_lines


@click.command("pin")
@json_option
@click.argument("name")
def pin_command(name: str, as_json: bool) -> None:
    """Save the current state under NAME; `restore --pin NAME` restores it."""
    document = ask("pin", {"name": name})
    print_document(document, pin_lines, as_json=as_json)


_EMPTY = "no pins; to save the current state: git agent-undo pin NAME"


@click.command("pins")
@colour_option
@json_option
def pins_command(as_json: bool) -> None:
    """List the pins."""
    print_rows(ask("pins", {}), list_lines, as_json=as_json, empty=_EMPTY)


@click.command("unpin")
@json_option
@click.argument("name")
def unpin_command(name: str, as_json: bool) -> None:
    """Delete a pin; files are not changed."""
    document = ask("unpin", {"name": name})
    print_document(document, unpin_lines, as_json=as_json)
