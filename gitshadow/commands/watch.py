"""`git agent-undo watch`: record in the foreground."""

import click

from gitshadow.commands.client import find_layout
from gitshadow.errors import NotInitialisedError


@click.command("watch")
def command() -> int:
    """Record in the foreground until interrupted: the daemon on this terminal.

    Unlike the background daemon it does not stop after a day without work.
    """
    layout = find_layout()
    if not layout.initialised:
        raise NotInitialisedError(
            "this repository is not recorded yet", hint="git agent-undo init"
        )
    from gitshadow.daemon import server

    return server.run(layout, foreground=True)
