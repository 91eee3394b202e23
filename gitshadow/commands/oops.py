"""`git agent-undo oops`: take the newest agent burst back."""

import click

from gitshadow.commands.options import tools_option
from gitshadow.commands.undo_flow import (
    HandOverError,
    UndoCommand,
    UndoFlags,
    carry_out,
    manner_options,
)


@click.command("oops")
@click.option("--include-low", is_flag=True, help="Also include uncertain changes.")
@tools_option
@manner_options
def command(include_low: bool, tools: str | None, manner: UndoFlags) -> int:
    """Undo the latest changes of an agent; run it again to undo those before.

    Later edits by people or other agents are kept. `redo` reverses the undo. A turn of an
    agent program is undone as a whole, including its effects if `--tools` defines how.
    """
    request = UndoCommand(verb="oops", include_low=include_low)
    try:
        return carry_out(request._replace(hand_over=not manner.interactive), manner)
    except HandOverError as found:
        from gitshadow.commands import undo_effects  # takes asyncio along: 20 ms
        from gitshadow.commands.undo_effects import ProgramOptions

        program = ProgramOptions(found.session, tools, "skip")
        return undo_effects.undo(found.session, found.turn or "", program, manner)
