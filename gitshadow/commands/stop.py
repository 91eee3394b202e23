"""`git agent-undo stop`: stop the daemon of this worktree."""

import click

from gitshadow.commands.asking import find_layout
from gitshadow.commands.options import json_option
from gitshadow.render import json


@click.command("stop")
@json_option
def command(as_json: bool) -> None:
    """Stop the daemon of this worktree; hooks and commands go on recording."""
    from gitshadow.ipc import launch

    stopped = launch.stop(find_layout())
    if as_json:
        json.show({"stopped": stopped})
    else:
        click.echo("stopped" if stopped else "no daemon was running")
