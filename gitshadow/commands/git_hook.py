"""`git agent-undo git-hook`: the door for Git's own hooks."""

import sys

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.boundary import contain
from gitshadow.errors import ShadowError
from gitshadow.render.style import printable


@click.command("git-hook", context_settings={"ignore_unknown_options": True})
@click.argument("event")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def command(event: str, args: tuple[str, ...]) -> int:
    """Take one call of a Git hook. Always exits 0: Git must go on whatever is wrong."""
    params = {"event": event, "args": list(args)}
    try:
        contain(lambda: ask("git_hook", params))
    except ShadowError as error:
        print(f"git-agent-undo: {printable(error.message)}", file=sys.stderr)
    return 0
