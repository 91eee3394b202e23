"""`git agent-undo redo`: take the newest undo back."""

import click

from gitshadow.commands.undoing import (
    Manner,
    Request,
    carry_out,
    manner_options,
    target,
)


@click.command("redo")
@manner_options
@click.argument("op", required=False)
def command(op: str | None, manner: Manner) -> int:
    """Take the newest undo back, or the one that OP names."""
    request = Request(verb="redo", targets=[target(op)] if op else [])
    return carry_out(request, manner)
