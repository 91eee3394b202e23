"""`git agent-undo oops`: take the newest agent burst back."""

import click

from gitshadow.commands.undoing import Manner, Request, carry_out, manner_options


@click.command("oops")
@click.option("--include-low", is_flag=True, help="Take what is only maybe theirs too.")
@manner_options
def command(include_low: bool, manner: Manner) -> int:
    """Take the newest agent burst back; again, the one before it.

    What people or other agents wrote since stays. `redo` takes this back.
    """
    return carry_out(Request(verb="oops", include_low=include_low), manner)
