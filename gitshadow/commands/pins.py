"""pins, pin, unpin: name states of the working tree."""

import click

from gitshadow.commands.client import send
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.output import print_answer, print_list
from gitshadow.messages.pins import (
    PIN,
    PINS,
    UNPIN,
    PinRequest,
    PinsRequest,
    UnpinRequest,
)
from gitshadow.render.text import pin_lines, pinned_lines, unpinned_lines


@click.command("pin")
@json_option
@click.argument("name")
def pin_command(name: str, as_json: bool) -> None:
    """Save the current state under NAME; `restore --pin NAME` restores it."""
    print_answer(send(PIN, PinRequest(name)), pinned_lines, as_json=as_json)


_EMPTY = "no pins; to save the current state: git agent-undo pin NAME"


@click.command("pins")
@colour_option
@json_option
def pins_command(as_json: bool) -> None:
    """List the pins."""
    print_list(
        send(PINS, PinsRequest()),
        lambda answer: answer.rows,
        pin_lines,
        as_json=as_json,
        empty=_EMPTY,
    )


@click.command("unpin")
@json_option
@click.argument("name")
def unpin_command(name: str, as_json: bool) -> None:
    """Delete a pin; files are not changed."""
    print_answer(send(UNPIN, UnpinRequest(name)), unpinned_lines, as_json=as_json)
