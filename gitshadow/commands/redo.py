"""`git agent-undo redo`: take the newest undo back."""

import click

from gitshadow.commands.undo_flow import (
    HandOverError,
    UndoCommand,
    UndoFlags,
    carry_out,
    manner_options,
    target,
)


@click.command("redo")
@manner_options
@click.argument("op", required=False)
def command(op: str | None, manner: UndoFlags) -> int:
    """Reverse the last undo, or the one that OP names.

    For a turn of an agent program, files, state and artifacts are redone; effects are listed.
    """
    request = UndoCommand(verb="redo", targets=[target(op)] if op else [])
    try:
        return carry_out(request._replace(hand_over=not manner.interactive), manner)
    except HandOverError as found:
        from gitshadow.commands import undo_effects  # takes asyncio along: 20 ms

        return undo_effects.redo(found.session, found.op or "", manner)
